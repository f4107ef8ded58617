/* Every part of sandseal.h; test_languages.py says what each stage must answer. */
#include <sandseal.h>

SANDSEAL_STAGE(layout) {
    static const int64_t facts[] = {
        sizeof(struct sandseal_call),
        offsetof(struct sandseal_call, n_inputs), offsetof(struct sandseal_call, inputs),
        offsetof(struct sandseal_call, n_outputs), offsetof(struct sandseal_call, outputs),
        offsetof(struct sandseal_call, params), offsetof(struct sandseal_call, params_len),
        offsetof(struct sandseal_call, config), offsetof(struct sandseal_call, config_len),
        offsetof(struct sandseal_call, error), offsetof(struct sandseal_call, error_len),
        offsetof(struct sandseal_call, flags), offsetof(struct sandseal_call, reserved),
        sizeof(struct sandseal_tensor),
        offsetof(struct sandseal_tensor, dtype), offsetof(struct sandseal_tensor, rank),
        offsetof(struct sandseal_tensor, data), offsetof(struct sandseal_tensor, flags),
        offsetof(struct sandseal_tensor, byte_len), offsetof(struct sandseal_tensor, shape),
        offsetof(struct sandseal_tensor, name), offsetof(struct sandseal_tensor, name_len),
        SANDSEAL_FP32, SANDSEAL_UINT8, SANDSEAL_INT8, SANDSEAL_UINT16, SANDSEAL_INT16, SANDSEAL_INT32, SANDSEAL_INT64,
        SANDSEAL_BYTES, SANDSEAL_BOOL, SANDSEAL_FP16, SANDSEAL_FP64, SANDSEAL_UINT32, SANDSEAL_UINT64, SANDSEAL_BF16,
        SANDSEAL_DEBUG, SANDSEAL_INFO, SANDSEAL_WARNING, SANDSEAL_ERROR,
    };
    int64_t count = sizeof facts / sizeof *facts;
    sandseal_give(sandseal_output(call, 0), &count, facts, sizeof facts);
    return SANDSEAL_DONE;
}

SANDSEAL_STAGE(texts) {
    const struct sandseal_tensor *texts = sandseal_input(call, 0);
    if (sandseal_count(texts) == 0) return sandseal_refuse(call, "keine Wörter");
    struct sandseal_reader reader = sandseal_read(texts);
    struct sandseal_writer writer = {0};
    int64_t count = 1;
    for (struct sandseal_text text; sandseal_next(&reader, &text); count++) {
        char *to = sandseal_element(&writer, text.size);
        for (uint32_t i = 0; i < text.size; i++) to[i] = text.data[text.size - 1 - i];
    }
    sandseal_append(&writer, sandseal_say("end"));
    sandseal_finish(&writer, sandseal_output(call, 0), &count);
    return SANDSEAL_DONE;
}

SANDSEAL_STAGE(numbers) {
    const struct sandseal_tensor *names = sandseal_input(call, 0);
    struct sandseal_reader reader = sandseal_read(names);
    double *y = sandseal_make(sandseal_output(call, 0), names->shape);
    for (struct sandseal_text name; sandseal_next(&reader, &name); y++) {
        char *terminated = sandseal_need((uint64_t)name.size + 1);
        __builtin_memcpy(terminated, name.data, name.size);
        terminated[name.size] = 0;
        *y = sandseal_param(call, terminated, -1) * sandseal_config(call, "scale", 0);
    }
    return SANDSEAL_DONE;
}

SANDSEAL_STAGE(asks) {
    struct sandseal_text asset = sandseal_asset("table.bin");
    if (!asset.data || sandseal_asset("other.bin").data) return sandseal_refuse(call, "the assets are others");
    uint8_t noise[2][16];
    sandseal_random(noise[0], 16);
    sandseal_random(noise[1], 16);
    sandseal_log(SANDSEAL_WARNING, "asked");
    int64_t *y = sandseal_make(sandseal_output(call, 0), (int64_t[]){3});
    y[0] = (int64_t)asset.size * 1000 + asset.data[1];
    y[1] = sandseal_now();
    y[2] = __builtin_memcmp(noise[0], noise[1], 16) != 0;
    return SANDSEAL_DONE;
}

SANDSEAL_STAGE(vectors) {
    const struct sandseal_tensor *x = sandseal_input(call, 0), *pixels = sandseal_input(call, 1);
    size_t n = (size_t)sandseal_count(x);
    const float *from = sandseal_data(x);
    float *sums = sandseal_make(sandseal_output(call, 0), (int64_t[]){2});
    float *scaled = sandseal_make(sandseal_output(call, 1), x->shape);
    float *shown = sandseal_make(sandseal_output(call, 2), x->shape);
    sums[0] = sandseal_sum(from, n);
    sums[1] = sandseal_dot(from, from, n);
    sandseal_scale(scaled, from, n, 0.5F, 1);
    sandseal_scale_u8(shown, sandseal_data(pixels), n, 0.25F, -1);
    return SANDSEAL_DONE;
}

__attribute__((noinline)) static float deep_inside(const float *x, int64_t n) {
    if (n > 1) __builtin_trap();
    return *x;
}

SANDSEAL_STAGE(faulty) {
    const struct sandseal_tensor *x = sandseal_input(call, 0);
    float *y = sandseal_make(sandseal_output(call, 0), (int64_t[]){1});
    *y = deep_inside(sandseal_data(x), x->shape[0]);
    return SANDSEAL_DONE;
}
