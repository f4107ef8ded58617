/* What an image plugin takes of sandseal.h, for the machine that the benchmark runs on; the config is plugin.toml's. */
#pragma once
#include <stdint.h>
#include <stdlib.h>

struct sandseal_tensor {
    void *data;
    uint64_t byte_len;
    int64_t shape[4];
};
struct sandseal_call {
    struct sandseal_tensor input, output;
};

#define SANDSEAL_UNROLL
#define SANDSEAL_DONE 0
#define SANDSEAL_STAGE(function) static int function(struct sandseal_call *call)

/* Rooms for one call, given back all at once, as a plugin's memory is. */
static void *rooms[4096];
static unsigned taken;

static void *sandseal_need(uint64_t size) { return rooms[taken++] = malloc(size); }
static struct sandseal_tensor *sandseal_input(struct sandseal_call *call, int index) { return &call->input + index; }
static struct sandseal_tensor *sandseal_output(struct sandseal_call *call, int index) { return &call->output + index; }
static void *sandseal_data(const struct sandseal_tensor *tensor) { return tensor->data; }
static int sandseal_refuse(struct sandseal_call *call, const char *why) { return (void)call, (void)why, 1; }
static double sandseal_config(struct sandseal_call *call, const char *name, double value) {
    return (void)call, (void)name, value;
}
static void *sandseal_make(struct sandseal_tensor *output, const int64_t *shape) {
    for (int axis = 0; axis < 4; axis++) output->shape[axis] = shape[axis];
    return output->data = sandseal_need(4 * (uint64_t)(shape[0] * shape[1] * shape[2] * shape[3]));
}
