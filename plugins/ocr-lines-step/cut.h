/* A box cut out of a page and set upright, as OpenCV does it: cubic, places to a 32nd of a pixel. */
#ifndef CUT_H
#define CUT_H

#include <sandseal_resize.h>

#include "boxes.h"

/* Where the unit square's points lie in a box: x = (a u + b v + c) / (g u + h v + 1), y likewise (Heckbert 1989). */
struct mapping {
    double a, b, c, d, e, f, g, h;
};

static struct mapping mapping_to(const struct point *p) {
    double sx = p[0].x - p[1].x + p[2].x - p[3].x, sy = p[0].y - p[1].y + p[2].y - p[3].y;
    double x1 = p[1].x - p[2].x, x2 = p[3].x - p[2].x, y1 = p[1].y - p[2].y, y2 = p[3].y - p[2].y;
    double area = x1 * y2 - x2 * y1;
    double g = area != 0 ? (sx * y2 - x2 * sy) / area : 0, h = area != 0 ? (x1 * sy - sx * y1) / area : 0;
    return (struct mapping){
        p[1].x - p[0].x + g * p[1].x, p[3].x - p[0].x + h * p[3].x, p[0].x,
        p[1].y - p[0].y + g * p[1].y, p[3].y - p[0].y + h * p[3].y, p[0].y, g, h};
}

static const uint8_t *pixel(struct sandseal_image page, int64_t x, int64_t y) {
    x = x < 0 ? 0 : x >= page.width ? page.width - 1 : x;
    y = y < 0 ? 0 : y >= page.height ? page.height - 1 : y;
    return page.pixels + 3 * (y * page.width + x);
}

static void weigh(double place, double weights[4]) {
    for (int k = 0; k < 4; k++) weights[k] = sandseal_weigh((struct sandseal_filter){.cubic = 1}, place - (k - 1));
}

/* The page's pixels at a place between pixels. */
static void sample(struct sandseal_image page, double x, double y, uint8_t to[3]) {
    double across[4], down[4], sums[3] = {0, 0, 0};
    x = __builtin_rint(x * 32) / 32, y = __builtin_rint(y * 32) / 32;
    double left = __builtin_floor(x), top = __builtin_floor(y);
    weigh(x - left, across), weigh(y - top, down);
    for (int row = 0; row < 4; row++) {
        for (int column = 0; column < 4; column++) {
            const uint8_t *from = pixel(page, (int64_t)left + column - 1, (int64_t)top + row - 1);
            for (int c = 0; c < 3; c++) sums[c] += down[row] * across[column] * from[c];
        }
    }
    for (int c = 0; c < 3; c++) to[c] = (uint8_t)(sums[c] < 0 ? 0 : sums[c] > 255 ? 255 : __builtin_rint(sums[c]));
}

/* The box upright; one that is much higher than wide is turned by a quarter, to the left. */
static struct sandseal_image cut_out(struct sandseal_image page, const struct point corners[4]) {
    uint32_t width = (uint32_t)fmaxf(length(corners[0], corners[1]), length(corners[2], corners[3]));
    uint32_t height = (uint32_t)fmaxf(length(corners[0], corners[3]), length(corners[1], corners[2]));
    int lying = height >= 1.5 * width;
    struct mapping m = mapping_to(corners);
    uint8_t *pixels = sandseal_need((uint64_t)3 * width * height);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            double u = (double)x / width, v = (double)y / height, depth = m.g * u + m.h * v + 1;
            uint64_t at = lying ? (uint64_t)(width - 1 - x) * height + y : (uint64_t)y * width + x;
            sample(page, (m.a * u + m.b * v + m.c) / depth, (m.d * u + m.e * v + m.f) / depth, pixels + 3 * at);
        }
    }
    return lying ? (struct sandseal_image){pixels, height, width} : (struct sandseal_image){pixels, width, height};
}

#endif
