/* Where a PP-OCR detector sees text on a page, cut out of it: lines of one height, as a recogniser takes them. */
#include "cut.h"

/* By the top left corner: `down` from top to bottom, else from left to right. */
static void sort(struct box *boxes, uint32_t count, int down) {
    for (uint32_t i = 1; i < count; i++) {
        struct box box = boxes[i];
        float key = down ? box.corners[0].y : box.corners[0].x;
        uint32_t at = i;
        for (; at > 0 && (down ? boxes[at - 1].corners[0].y : boxes[at - 1].corners[0].x) > key; at--)
            boxes[at] = boxes[at - 1];
        boxes[at] = box;
    }
}

/* In reading order: boxes that begin less than ten pixels below the one before stand in one line. */
static void sort_lines(struct box *boxes, uint32_t count) {
    sort(boxes, count, 1);
    for (uint32_t start = 0, end = 1; start < count; start = end++) {
        while (end < count && boxes[end].corners[0].y - boxes[end - 1].corners[0].y < 10) end++;
        sort(boxes + start, end - start, 0);
    }
}

/* The box of one piece of text, on the page's pixels; whether there is one. */
static int box_of(const struct sandseal_call *call, struct map map, struct sandseal_image page,
                  const struct span *spans, int32_t top, uint32_t rows, struct box *box) {
    struct point small[4], *corners = box->corners;
    if (smallest_box(spans, top, rows, small) < 3) return 0;
    order(small);
    box->score = mean_within(map, small);
    if (box->score < sandseal_config(call, "least_score", 0.5)) return 0;
    if (grown(small, (float)sandseal_config(call, "grow", 1.6), corners) < 5) return 0;
    for (int k = 0; k < 4; k++) {
        corners[k].x = clamp(rintf(corners[k].x / map.width * page.width), 0, page.width - 1.0f);
        corners[k].y = clamp(rintf(corners[k].y / map.height * page.height), 0, page.height - 1.0f);
    }
    order(corners);
    return (int)length(corners[0], corners[1]) > 3 && (int)length(corners[0], corners[3]) > 3;
}

static uint32_t find(const struct sandseal_call *call, struct map map, struct sandseal_image page, struct box *boxes,
                     uint32_t most) {
    uint8_t *mask = text_mask(map, (float)sandseal_config(call, "threshold", 0.3));
    int64_t places = (int64_t)map.width * map.height, *stack = sandseal_need((uint64_t)places * sizeof *stack);
    struct span *spans = sandseal_need((uint64_t)map.height * sizeof *spans);
    uint32_t count = 0;
    for (int64_t at = 0; at < places && count < most; at++) {
        if (!mask[at]) continue;
        int32_t top;
        uint32_t rows = take_piece(mask, map, at, stack, spans, &top);
        count += (uint32_t)box_of(call, map, page, spans, top, rows, boxes + count);
    }
    return count;
}

SANDSEAL_STAGE(cut) {
    const struct sandseal_tensor *pixels = sandseal_input(call, 0), *seen = sandseal_input(call, 1);
    struct sandseal_image page = {sandseal_data(pixels), (uint32_t)pixels->shape[1], (uint32_t)pixels->shape[0]};
    struct map map = {sandseal_data(seen), (int32_t)seen->shape[3], (int32_t)seen->shape[2]};
    uint32_t most = (uint32_t)sandseal_config(call, "most_lines", 200), height = 48;
    struct box *boxes = sandseal_need((uint64_t)(most + 1) * sizeof *boxes);
    uint32_t count = page.width && page.height && map.width && map.height ? find(call, map, page, boxes, most) : 0;
    sort_lines(boxes, count);

    struct sandseal_image *lines = sandseal_need((uint64_t)(count + 1) * sizeof *lines);
    uint32_t width = (uint32_t)sandseal_config(call, "least_width", 320);
    uint32_t most_width = (uint32_t)sandseal_config(call, "most_width", 3200);
    for (uint32_t i = 0; i < count; i++) {
        lines[i] = cut_out(page, boxes[i].corners);
        uint64_t wanted = (uint64_t)height * lines[i].width / lines[i].height;
        if (wanted > width) width = wanted < most_width ? (uint32_t)wanted : most_width;
    }

    uint32_t size = 3 * height * width;
    float *x = sandseal_make(sandseal_output(call, 0), (int64_t[]){count, 3, height, width});
    float *box = sandseal_make(sandseal_output(call, 1), (int64_t[]){count, 4, 2});
    float *score = sandseal_make(sandseal_output(call, 2), (int64_t[]){count});
    __builtin_memset(x, 0, (uint64_t)4 * count * size);
    const float factor = 2.0f / 255; /* bytes become -1 to 1, and the room beside a line 0 */
    for (uint32_t i = 0; i < count; i++) {
        uint64_t full = ((uint64_t)height * lines[i].width + lines[i].height - 1) / lines[i].height;
        uint32_t line = full < width ? (uint32_t)full : width;
        struct sandseal_view view = {.full_width = line, .full_height = height, .width = line, .height = height};
        struct sandseal_pixels to = {
            .data = x + (uint64_t)i * size, .row = width, .column = 1, .channel = width * height,
            .scale = {factor, factor, factor}, .offset = {-1, -1, -1}, .flipped = 1};
        sandseal_put_pixels(sandseal_resize(lines[i], view, (struct sandseal_filter){0}), &to);
        __builtin_memcpy(box + 8 * i, boxes[i].corners, sizeof boxes[i].corners);
        score[i] = boxes[i].score;
    }
    return SANDSEAL_DONE;
}
