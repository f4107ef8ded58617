/* Boxes around the text that a map of probabilities shows (Differentiable Binarization, Liao et al. 2020), with the
 * numbers that rapidocr has for PP-OCR. */
#ifndef BOXES_H
#define BOXES_H

#include <math.h>
#include <sandseal.h>

struct point {
    float x, y;
};

/* Corners from the top left on, clockwise. */
struct box {
    struct point corners[4];
    float score;
};

struct map {
    const float *values;
    int32_t width, height;
};

/* A set of points by row: of a convex hull, each row needs only its ends. */
struct span {
    int32_t left, right; /* left > right: none */
};

static float length(struct point from, struct point to) { return hypotf(to.x - from.x, to.y - from.y); }

static float clamp(float value, float low, float high) { return value < low ? low : value > high ? high : value; }

static float turn(struct point a, struct point b, struct point c) {
    return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

/* The convex hull of points whose y never falls; returns how many, in place (Andrew's monotone chain). */
static uint32_t hull_of(struct point *points, uint32_t count, struct point *hull) {
    uint32_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (size >= 2 && turn(hull[size - 2], hull[size - 1], points[i]) <= 0) size--;
        hull[size++] = points[i];
    }
    uint32_t lower = size + 1;
    for (uint32_t i = count - 1; i-- > 0;) {
        while (size >= lower && turn(hull[size - 2], hull[size - 1], points[i]) <= 0) size--;
        hull[size++] = points[i];
    }
    return size > 1 ? size - 1 : size;
}

/* The smallest rectangle around the points of these rows, one side of which lies on a side of their hull; its shorter side
 * is returned. */
static float smallest_box(const struct span *spans, int32_t top, uint32_t rows, struct point corners[4]) {
    struct point *points = sandseal_need((uint64_t)2 * rows * sizeof *points);
    struct point *hull = sandseal_need(((uint64_t)4 * rows + 2) * sizeof *hull);
    uint32_t count = 0;
    for (uint32_t row = 0; row < rows; row++) {
        if (spans[row].left > spans[row].right) continue;
        float y = (float)(top + (int32_t)row);
        points[count++] = (struct point){(float)spans[row].left, y};
        if (spans[row].left < spans[row].right) points[count++] = (struct point){(float)spans[row].right, y};
    }
    if (count < 2) return 0;
    uint32_t size = hull_of(points, count, hull);
    float best = INFINITY, shorter = 0;
    for (uint32_t i = 0; i < size; i++) {
        struct point from = hull[i], to = hull[(i + 1) % size];
        float side = length(from, to), ux = (to.x - from.x) / side, uy = (to.y - from.y) / side;
        float low = INFINITY, high = -INFINITY, near = INFINITY, far = -INFINITY;
        for (uint32_t k = 0; k < size; k++) {
            float along = hull[k].x * ux + hull[k].y * uy, across = hull[k].y * ux - hull[k].x * uy;
            low = fminf(low, along), high = fmaxf(high, along), near = fminf(near, across), far = fmaxf(far, across);
        }
        if ((high - low) * (far - near) >= best) continue;
        best = (high - low) * (far - near), shorter = fminf(high - low, far - near);
        const float ends[4][2] = {{low, near}, {high, near}, {high, far}, {low, far}};
        for (int k = 0; k < 4; k++)
            corners[k] = (struct point){ends[k][0] * ux - ends[k][1] * uy, ends[k][0] * uy + ends[k][1] * ux};
    }
    return shorter;
}

/* Puts the corners into the order of `box`. */
static void order(struct point corners[4]) {
    for (int i = 1; i < 4; i++) {
        struct point corner = corners[i];
        int at = i;
        for (; at > 0 && corners[at - 1].x > corner.x; at--) corners[at] = corners[at - 1];
        corners[at] = corner;
    }
    int left = corners[1].y > corners[0].y ? 0 : 1, right = corners[3].y > corners[2].y ? 2 : 3;
    struct point box[4] = {corners[left], corners[right], corners[5 - right], corners[1 - left]};
    __builtin_memcpy(corners, box, sizeof box);
}

/* The mean of the map within a box whose corners lie on pixels. */
static float mean_within(struct map map, const struct point corners[4]) {
    double sum = 0;
    uint32_t count = 0;
    float low = INFINITY, high = -INFINITY;
    for (int k = 0; k < 4; k++) low = fminf(low, corners[k].y), high = fmaxf(high, corners[k].y);
    for (int32_t y = (int32_t)fmaxf(0, truncf(low)); y <= high && y < map.height; y++) {
        float left = INFINITY, right = -INFINITY;
        for (int k = 0; k < 4; k++) {
            struct point a = {truncf(corners[k].x), truncf(corners[k].y)};
            struct point b = {truncf(corners[(k + 1) % 4].x), truncf(corners[(k + 1) % 4].y)};
            if ((a.y < y && b.y < y) || (a.y > y && b.y > y)) continue;
            float share = a.y == b.y ? 0 : (y - a.y) / (b.y - a.y), x = a.x + share * (b.x - a.x);
            left = fminf(left, x), right = fmaxf(right, x);
            if (a.y == b.y) left = fminf(left, b.x), right = fmaxf(right, b.x);
        }
        for (int32_t x = (int32_t)fmaxf(0, roundf(left)); x <= roundf(right) && x < map.width; x++, count++)
            sum += map.values[(int64_t)y * map.width + x];
    }
    return count ? (float)(sum / count) : 0;
}

/* The box, its sides moved outwards so far that text, which the detector sees as too thin, is within; its shorter side
 * is returned. */
static float grown(const struct point corners[4], float ratio, struct point to[4]) {
    float area = 0, round = 0;
    for (int k = 0; k < 4; k++) {
        struct point a = corners[k], b = corners[(k + 1) % 4];
        area += (a.x * b.y - b.x * a.y) / 2, round += length(a, b);
    }
    float distance = round > 0 ? fabsf(area) * ratio / round : 0, low = INFINITY, high = -INFINITY;
    for (int k = 0; k < 4; k++) low = fminf(low, corners[k].y), high = fmaxf(high, corners[k].y);
    int32_t top = (int32_t)floorf(low - distance) - 1;
    uint32_t rows = (uint32_t)((int32_t)ceilf(high + distance) + 2 - top);
    struct span *spans = sandseal_need((uint64_t)rows * sizeof *spans);
    for (uint32_t row = 0; row < rows; row++) spans[row] = (struct span){1, 0};
    for (int k = 0; k < 4; k++) {
        for (int step = 0; step < 128; step++) { /* rounded corners, on whole pixels as rapidocr has them */
            float angle = (float)step * (float)M_PI / 64;
            int32_t x = (int32_t)roundf(truncf(corners[k].x) + distance * cosf(angle));
            int32_t y = (int32_t)roundf(truncf(corners[k].y) + distance * sinf(angle));
            struct span *span = spans + (y - top);
            if (span->left > span->right) *span = (struct span){x, x};
            if (x < span->left) span->left = x;
            if (x > span->right) span->right = x;
        }
    }
    return smallest_box(spans, top, rows, to);
}

/* Whether text is at a place of the map, or just above or left of it. */
static uint8_t *text_mask(struct map map, float threshold) {
    uint8_t *mask = sandseal_need((uint64_t)map.width * map.height);
    for (int32_t y = 0; y < map.height; y++) {
        for (int32_t x = 0; x < map.width; x++) {
            const float *at = map.values + (int64_t)y * map.width + x;
            mask[(int64_t)y * map.width + x] = at[0] > threshold || (x && at[-1] > threshold) ||
                                               (y && at[-map.width] > threshold) ||
                                               (x && y && at[-map.width - 1] > threshold);
        }
    }
    return mask;
}

/* Takes one connected piece of text out of the mask; `spans` gets its rows, from `*top` on, and their number is returned. */
static uint32_t take_piece(uint8_t *mask, struct map map, int64_t start, int64_t *stack, struct span *spans,
                           int32_t *top) {
    int64_t waiting = 0;
    int32_t first = (int32_t)(start / map.width), last = first; /* found row by row: nothing of it lies above */
    stack[waiting++] = start, mask[start] = 0;
    spans[0] = (struct span){1, 0};
    while (waiting) {
        int64_t at = stack[--waiting];
        int32_t x = (int32_t)(at % map.width), y = (int32_t)(at / map.width);
        for (; last < y; last++) spans[last + 1 - first] = (struct span){1, 0};
        struct span *span = spans + (y - first);
        if (span->left > span->right) *span = (struct span){x, x};
        if (x < span->left) span->left = x;
        if (x > span->right) span->right = x;
        for (int32_t down = -1; down <= 1; down++) {
            for (int32_t right = -1; right <= 1; right++) {
                if (x + right < 0 || x + right >= map.width || y + down < 0 || y + down >= map.height) continue;
                int64_t next = at + (int64_t)down * map.width + right;
                if (mask[next]) stack[waiting++] = next, mask[next] = 0;
            }
        }
    }
    *top = first;
    return (uint32_t)(last + 1 - first);
}

#endif
