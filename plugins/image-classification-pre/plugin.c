/* A JPEG or PNG file to what an image classifier takes: resized, cut to the centre, standardised. */
#include <sandseal_image.h>

static uint32_t scaled(uint32_t side, uint32_t shorter, uint32_t wanted) {
    return (uint32_t)((uint64_t)side * wanted / shorter);
}

/* The centre of the image, after its shorter side is `resize` pixels; the crop never exceeds it. */
static struct sandseal_view centre_of(struct sandseal_image image, uint32_t resize, uint32_t width, uint32_t height) {
    uint32_t shorter = image.width < image.height ? image.width : image.height;
    struct sandseal_view view = {scaled(image.width, shorter, resize), scaled(image.height, shorter, resize),
                                 0, 0, width, height};
    view.left = (uint32_t)__builtin_nearbyint((view.full_width - width) / 2.0);
    view.top = (uint32_t)__builtin_nearbyint((view.full_height - height) / 2.0);
    return view;
}

static void set_colour(struct sandseal_pixels *pixels, uint32_t colour, double mean, double deviation) {
    pixels->scale[colour] = (float)(1 / (255 * deviation));
    pixels->offset[colour] = (float)(-mean / deviation);
}

SANDSEAL_STAGE(preprocess) {
    struct sandseal_image image;
    const char *why = sandseal_decode_image(sandseal_input(call, 0), &image);
    if (why) return sandseal_refuse(call, why);

    struct sandseal_tensor *output = sandseal_output(call, 0);
    int channels_last = output->shape[3] == 3;
    int64_t *side = output->shape + (channels_last ? 1 : 2), crop = (int64_t)sandseal_config(call, "crop", 224);
    uint32_t height = (uint32_t)(side[0] < 0 ? crop : side[0]), width = (uint32_t)(side[1] < 0 ? crop : side[1]);
    uint32_t resize = (uint32_t)sandseal_config(call, "resize", 256), least = width > height ? width : height;
    struct sandseal_view view = centre_of(image, resize > least ? resize : least, width, height);
    struct sandseal_filter filter = {sandseal_config(call, "cubic", 1) != 0, sandseal_config(call, "antialias", 1) != 0};
    image = sandseal_resize(image, view, filter);

    struct sandseal_pixels pixels = {.row = width, .column = 1, .channel = width * height};
    pixels.flipped = sandseal_config(call, "bgr", 0) != 0;
    int64_t shape[] = {1, 3, height, width};
    if (channels_last) {
        pixels.row = 3 * width, pixels.column = 3, pixels.channel = 1;
        shape[1] = height, shape[2] = width, shape[3] = 3;
    }
    set_colour(&pixels, 0, sandseal_config(call, "mean_red", 0.485), sandseal_config(call, "std_red", 0.229));
    set_colour(&pixels, 1, sandseal_config(call, "mean_green", 0.456), sandseal_config(call, "std_green", 0.224));
    set_colour(&pixels, 2, sandseal_config(call, "mean_blue", 0.406), sandseal_config(call, "std_blue", 0.225));
    pixels.data = sandseal_make(output, shape);
    sandseal_put_pixels(image, &pixels);
    return SANDSEAL_DONE;
}
