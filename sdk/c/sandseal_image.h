/* sandseal_image.h: JPEG and PNG bytes to the image tensor that a model takes.
 *
 *     #include <sandseal_image.h>
 *
 *     struct sandseal_image image;
 *     const char *why = sandseal_decode_image(sandseal_input(call, 0), &image);
 *     if (why) return sandseal_refuse(call, why);
 *     struct sandseal_view view = {.full_width = 256, .full_height = 256, .width = 256, .height = 256};
 *     image = sandseal_resize(image, view, (struct sandseal_filter){.cubic = 1, .antialias = 1});
 *
 * Needs `libc = true`, and beside the plugin's source the file wuffs.c, the decoders of the Wuffs library (Apache-2.0 or
 * MIT). What it decodes, sandseal_resize.h resizes.
 */
#ifndef SANDSEAL_IMAGE_H
#define SANDSEAL_IMAGE_H

#include <sandseal_resize.h>

#if !__has_include("wuffs.c")
#error "the image decoder wuffs.c is missing: `python fetch.py` in the plugin's folder brings it from PyPI"
#endif
#define WUFFS_IMPLEMENTATION
#define WUFFS_CONFIG__STATIC_FUNCTIONS
#define WUFFS_CONFIG__ENABLE_DROP_IN_REPLACEMENT__STB
#define WUFFS_CONFIG__MODULES
#define WUFFS_CONFIG__MODULE__ADLER32
#define WUFFS_CONFIG__MODULE__BASE
#define WUFFS_CONFIG__MODULE__CRC32
#define WUFFS_CONFIG__MODULE__DEFLATE
#define WUFFS_CONFIG__MODULE__JPEG
#define WUFFS_CONFIG__MODULE__PNG
#define WUFFS_CONFIG__MODULE__ZLIB
#define STBI_NO_STDIO
#include "wuffs.c"

/* Decodes a UINT8 tensor that holds a JPEG or PNG file (transparent pixels as over black); the result says why it
 * cannot be, or is null. */
static inline const char *sandseal_decode_image(const struct sandseal_tensor *file, struct sandseal_image *image) {
    int width = 0, height = 0;
    if (!file->byte_len) return "the image is empty";
    image->pixels =
        stbi_load_from_memory((const uint8_t *)sandseal_data(file), (int)file->byte_len, &width, &height, NULL, 3);
    image->width = (uint32_t)width, image->height = (uint32_t)height;
    if (image->pixels) return width && height ? NULL : "the image has no pixels";
    const char *why = stbi_failure_reason();
    return *why == '#' ? why + 1 : why;
}

#endif
