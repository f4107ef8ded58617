/* A JPEG or PNG file of a page to its pixels, and to what a PP-OCR text detector takes. */
#include <sandseal_image.h>

/* The size nearest to this one that the network's strides divide. */
static uint32_t whole(double size) {
    double strides = __builtin_rint(__builtin_floor(size) / 32);
    return strides < 1 ? 32 : (uint32_t)strides * 32;
}

SANDSEAL_STAGE(preprocess) {
    struct sandseal_image image;
    const char *why = sandseal_decode_image(sandseal_input(call, 0), &image);
    if (why) return sandseal_refuse(call, why);
    uint64_t pixels = (uint64_t)image.width * image.height;
    if (pixels > sandseal_config(call, "most_pixels", 8000000)) return sandseal_refuse(call, "the page is too large");

    double shorter = image.width < image.height ? image.width : image.height, longer = (double)pixels / shorter;
    double least = sandseal_config(call, "least_side", 736), most = sandseal_config(call, "most_side", 2000);
    double scale = shorter < least ? least / shorter : longer > most ? most / longer : 1;
    uint32_t width = whole(image.width * scale), height = whole(image.height * scale);
    if (width > 4 * most || height > 4 * most) return sandseal_refuse(call, "the page is too long for its width");

    struct sandseal_view view = {.full_width = width, .full_height = height, .width = width, .height = height};
    struct sandseal_image small = sandseal_resize(image, view, (struct sandseal_filter){0});
    const float factor = 2.0f / 255; /* bytes become -1 to 1 */
    struct sandseal_pixels to = {
        .row = width, .column = 1, .channel = width * height, .scale = {factor, factor, factor}, .offset = {-1, -1, -1},
        .flipped = 1};
    to.data = sandseal_make(sandseal_output(call, 1), (int64_t[]){1, 3, height, width});
    sandseal_put_pixels(small, &to);
    int64_t shape[] = {image.height, image.width, 3};
    sandseal_give(sandseal_output(call, 0), shape, image.pixels, 3 * pixels);
    return SANDSEAL_DONE;
}
