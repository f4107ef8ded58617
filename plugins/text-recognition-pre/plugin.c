/* A JPEG or PNG file with one line of text to what a PP-OCR recogniser takes: 48 pixels high, as wide as it comes. */
#include <sandseal_image.h>

/* As wide as the line is at this height; PaddleOCR rounds up what it pads, and down what it does not. */
static uint32_t width_at(struct sandseal_image image, uint32_t height, uint32_t padded) {
    uint64_t width = (uint64_t)image.width * height;
    uint64_t up = (width + image.height - 1) / image.height, down = width / image.height;
    uint64_t fitting = up <= padded ? up : down > padded ? down : padded;
    return fitting > UINT32_MAX ? UINT32_MAX : (uint32_t)fitting;
}

SANDSEAL_STAGE(preprocess) {
    struct sandseal_image image;
    const char *why = sandseal_decode_image(sandseal_input(call, 0), &image);
    if (why) return sandseal_refuse(call, why);

    struct sandseal_tensor *output = sandseal_output(call, 0);
    uint32_t height = (uint32_t)output->shape[2], least = (uint32_t)sandseal_config(call, "least_width", 320);
    uint32_t line = width_at(image, height, least), width = line > least ? line : least;
    if (width > sandseal_config(call, "most_width", 3200)) return sandseal_refuse(call, "the line of text is too long");

    struct sandseal_view view = {.full_width = line, .full_height = height, .width = line, .height = height};
    image = sandseal_resize(image, view, (struct sandseal_filter){0});
    const float scale = 2.0f / 255; /* bytes become -1 to 1, and the room beside the line 0 */
    struct sandseal_pixels pixels = {
        .row = width, .column = 1, .channel = width * height, .scale = {scale, scale, scale}, .offset = {-1, -1, -1},
        .flipped = 1};
    pixels.data = sandseal_make(output, (int64_t[]){1, 3, height, width});
    __builtin_memset(pixels.data, 0, output->byte_len);
    sandseal_put_pixels(image, &pixels);
    return SANDSEAL_DONE;
}
