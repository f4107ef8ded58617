/* sandseal_resize.h: pixels to the image tensor that a model takes; sandseal_image.h decodes files to pixels.
 *
 *     struct sandseal_view view = {.full_width = 256, .full_height = 256, .width = 256, .height = 256};
 *     image = sandseal_resize(image, view, (struct sandseal_filter){.cubic = 1, .antialias = 1});
 *
 * With `antialias` the pixels are Pillow's, bilinear without it OpenCV's, both to the last bit.
 */
#ifndef SANDSEAL_RESIZE_H
#define SANDSEAL_RESIZE_H

#include <sandseal.h>

/* RGB pixels, row by row. */
struct sandseal_image {
    const uint8_t *pixels;
    uint32_t width, height;
};

/* A window of an image that is thought of as scaled to full_width x full_height. */
struct sandseal_view {
    uint32_t full_width, full_height, left, top, width, height;
};

/* Bilinear, or cubic; `antialias` widens the filter where an image shrinks. */
struct sandseal_filter {
    int cubic, antialias;
};

/* Where the pixels of a tensor go, and what stands for a byte: value * scale[c] + offset[c], c in RGB. */
struct sandseal_pixels {
    float *data;
    uint32_t row, column, channel; /* steps */
    float scale[3], offset[3];
    int flipped; /* the channels are blue, green, red, as OpenCV has them */
};

/* ---- Resizing: two passes of weighted sums, in fixed point as Pillow does it ---------------------------------------- */

#define SANDSEAL_WEIGHT_BITS 22

/* What one output row or column is made of. */
struct sandseal_taps {
    uint32_t first, count;
    int32_t *weights;
};

static inline double sandseal_weigh(struct sandseal_filter filter, double x) {
    x = x < 0 ? -x : x;
    if (!filter.cubic) return x < 1 ? 1 - x : 0;
    const double a = filter.antialias ? -0.5 : -0.75; /* Pillow's cubic, and OpenCV's */
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* The taps of `count` outputs from `start` on, where `from` pixels become `to`. */
static inline struct sandseal_taps *sandseal_plan(struct sandseal_filter filter, uint32_t from, uint32_t to,
                                                  uint32_t start, uint32_t count) {
    double scale = (double)from / to, stretch = filter.antialias && scale > 1 ? scale : 1;
    double reach = (filter.cubic ? 2 : 1) * stretch;
    struct sandseal_taps *plan = (struct sandseal_taps *)sandseal_need((uint64_t)count * sizeof *plan);
    double *exact = (double *)sandseal_need((uint64_t)(2 * reach + 3) * sizeof *exact);
    for (uint32_t i = 0; i < count; i++) {
        double centre = (start + i + 0.5) * scale, sum = 0;
        int64_t first = (int64_t)(centre - reach + 0.5), last = (int64_t)(centre + reach + 0.5);
        first = first < 0 ? 0 : first, last = last > from ? from : last;
        struct sandseal_taps *taps = plan + i;
        taps->first = (uint32_t)first, taps->count = (uint32_t)(last - first);
        taps->weights = (int32_t *)sandseal_need((uint64_t)taps->count * sizeof *taps->weights);
        for (uint32_t k = 0; k < taps->count; k++) {
            exact[k] = sandseal_weigh(filter, ((double)first + k - centre + 0.5) / stretch);
            sum += exact[k];
        }
        for (uint32_t k = 0; k < taps->count; k++) {
            double weight = exact[k] / sum * (1 << SANDSEAL_WEIGHT_BITS);
            taps->weights[k] = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
        }
    }
    return plan;
}

static inline uint8_t sandseal_round(int32_t sum) {
    sum >>= SANDSEAL_WEIGHT_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Weighted sums of pixels that lie `step` bytes apart, for each of the three bytes of a pixel. */
static inline void sandseal_mix(const uint8_t *from, uint32_t step, const struct sandseal_taps *taps, uint8_t *to) {
    int32_t red = 1 << (SANDSEAL_WEIGHT_BITS - 1), green = red, blue = red;
    for (uint32_t k = 0; k < taps->count; k++, from += step) {
        red += from[0] * taps->weights[k];
        green += from[1] * taps->weights[k];
        blue += from[2] * taps->weights[k];
    }
    to[0] = sandseal_round(red), to[1] = sandseal_round(green), to[2] = sandseal_round(blue);
}

/* One row of weighted sums over the rows below each other: `bytes` columns at once, which the compiler vectorises. */
static inline void sandseal_mix_rows(const uint8_t *from, uint32_t bytes, const struct sandseal_taps *taps,
                                     int32_t *sums, uint8_t *to) {
    for (uint32_t x = 0; x < bytes; x++) sums[x] = 1 << (SANDSEAL_WEIGHT_BITS - 1);
    for (uint32_t k = 0; k < taps->count; k++, from += bytes) {
        int32_t weight = taps->weights[k];
        SANDSEAL_UNROLL
        for (uint32_t x = 0; x < bytes; x++) sums[x] += from[x] * weight;
    }
    for (uint32_t x = 0; x < bytes; x++) to[x] = sandseal_round(sums[x]);
}

static inline struct sandseal_image sandseal_resize_wide(struct sandseal_image image, struct sandseal_view view,
                                                         struct sandseal_filter filter) {
    uint32_t bytes = 3 * view.width;
    struct sandseal_taps *across = sandseal_plan(filter, image.width, view.full_width, view.left, view.width);
    struct sandseal_taps *down = sandseal_plan(filter, image.height, view.full_height, view.top, view.height);
    struct sandseal_taps *last = down + view.height - 1;
    uint32_t first = down->first, rows = last->first + last->count - first;
    uint8_t *narrow = (uint8_t *)sandseal_need((uint64_t)rows * bytes);
    for (uint32_t y = 0; y < rows; y++) {
        const uint8_t *row = image.pixels + (uint64_t)(first + y) * image.width * 3;
        for (uint32_t x = 0; x < view.width; x++)
            sandseal_mix(row + 3 * across[x].first, 3, across + x, narrow + y * bytes + 3 * x);
    }
    int32_t *sums = (int32_t *)sandseal_need((uint64_t)bytes * sizeof *sums);
    uint8_t *small = (uint8_t *)sandseal_need((uint64_t)view.height * bytes);
    for (uint32_t y = 0; y < view.height; y++)
        sandseal_mix_rows(narrow + (down[y].first - first) * bytes, bytes, down + y, sums, small + y * bytes);
    return (struct sandseal_image){small, view.width, view.height};
}

/* ---- Resizing from two neighbours a side, in fixed point as OpenCV does it --------------------------------------------- */

struct sandseal_pair {
    uint32_t first, second;
    int32_t weights[2]; /* of 2048 */
};

/* OpenCV clamps a column together with its weight, and of a row only the place: the last bit shows it. */
static inline struct sandseal_pair *sandseal_pairs(uint32_t from, uint32_t to, uint32_t start, uint32_t count,
                                                   int columns) {
    struct sandseal_pair *pairs = (struct sandseal_pair *)sandseal_need((uint64_t)count * sizeof *pairs);
    for (uint32_t i = 0; i < count; i++) {
        float place = (float)((start + i + 0.5) * ((double)from / to) - 0.5), whole = __builtin_floorf(place);
        float share = place - whole;
        int64_t first = (int64_t)whole, last = (int64_t)from - 1;
        if (columns && (first < 0 || first >= last)) share = 0;
        pairs[i].first = (uint32_t)(first < 0 ? 0 : first > last ? last : first);
        pairs[i].second = (uint32_t)(first + 1 < 0 ? 0 : first + 1 > last ? last : first + 1);
        pairs[i].weights[0] = (int32_t)__builtin_rintf((1 - share) * 2048);
        pairs[i].weights[1] = (int32_t)__builtin_rintf(share * 2048);
    }
    return pairs;
}

static inline void sandseal_blend_columns(const uint8_t *row, const struct sandseal_pair *across, uint32_t width,
                                          int32_t *to) {
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *a = row + 3 * across[x].first, *b = row + 3 * across[x].second;
        for (uint32_t c = 0; c < 3; c++) to[3 * x + c] = a[c] * across[x].weights[0] + b[c] * across[x].weights[1];
    }
}

static inline struct sandseal_image sandseal_resize_linear(struct sandseal_image image, struct sandseal_view view) {
    uint32_t values = 3 * view.width;
    struct sandseal_pair *across = sandseal_pairs(image.width, view.full_width, view.left, view.width, 1);
    struct sandseal_pair *down = sandseal_pairs(image.height, view.full_height, view.top, view.height, 0);
    int32_t *upper = (int32_t *)sandseal_need((uint64_t)values * sizeof *upper);
    int32_t *lower = (int32_t *)sandseal_need((uint64_t)values * sizeof *lower);
    uint8_t *pixels = (uint8_t *)sandseal_need((uint64_t)view.height * values);
    for (uint32_t y = 0; y < view.height; y++) {
        const struct sandseal_pair *rows = down + y;
        sandseal_blend_columns(image.pixels + (uint64_t)rows->first * image.width * 3, across, view.width, upper);
        sandseal_blend_columns(image.pixels + (uint64_t)rows->second * image.width * 3, across, view.width, lower);
        uint8_t *to = pixels + y * values;
        SANDSEAL_UNROLL
        for (uint32_t x = 0; x < values; x++) {
            int32_t above = (upper[x] >> 4) * rows->weights[0] >> 16, below = (lower[x] >> 4) * rows->weights[1] >> 16;
            to[x] = (uint8_t)((above + below + 2) >> 2);
        }
    }
    return (struct sandseal_image){pixels, view.width, view.height};
}

/* The pixels of the view; only what its window needs is computed. */
static inline struct sandseal_image sandseal_resize(struct sandseal_image image, struct sandseal_view view,
                                                    struct sandseal_filter filter) {
    int linear = !filter.cubic && !filter.antialias;
    return linear ? sandseal_resize_linear(image, view) : sandseal_resize_wide(image, view, filter);
}

/* ---- Into the tensor ------------------------------------------------------------------------------------------------- */

/* Writes an image's pixels as floats. */
static inline void sandseal_put_pixels(struct sandseal_image image, const struct sandseal_pixels *to) {
    for (uint32_t c = 0; c < 3; c++) {
        float scale = to->scale[c], offset = to->offset[c];
        for (uint32_t y = 0; y < image.height; y++) {
            const uint8_t *from = image.pixels + (uint64_t)y * image.width * 3 + c;
            float *at = to->data + (uint64_t)(to->flipped ? 2 - c : c) * to->channel + (uint64_t)y * to->row;
            SANDSEAL_UNROLL
            for (uint32_t x = 0; x < image.width; x++) at[x * to->column] = from[3 * x] * scale + offset;
        }
    }
}

#endif
