/* sandseal.h: write a Sandseal plugin in C (plugin ABI v1; sdk/abi/abi-v1.md is normative). sandseal.hpp is for C++.
 *
 *     #include <sandseal.h>
 *
 *     SANDSEAL_STAGE(scale) {
 *         const struct sandseal_tensor *x = sandseal_input(call, 0);
 *         if (x->shape[0] == 0) return sandseal_refuse(call, "x is empty");
 *         const float *from = sandseal_data(x);
 *         float *to = sandseal_make(sandseal_output(call, 0), x->shape);
 *         SANDSEAL_UNROLL
 *         for (int64_t i = 0; i < x->shape[0]; i++) to[i] = from[i] / 255;
 *         return SANDSEAL_DONE;
 *     }
 *
 * Header only, and needs no libc; with one (`libc = true` in plugin.toml) memory comes from its malloc. The functions
 * of <math.h> are there without one, as __builtin_expf and so on.
 * The host has checked every input against the signed manifest: data type, rank, fixed axes, size, alignment.
 * An instance serves one request, or one stream, and is then dropped, so nothing is freed by hand.
 */
#ifndef SANDSEAL_H
#define SANDSEAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __wasi__
#include <stdlib.h>
#endif

#ifdef __cplusplus
#define SANDSEAL_ASSERT(fact, text) static_assert(fact, text)
extern "C" {
#else
#define SANDSEAL_ASSERT(fact, text) _Static_assert(fact, text)
#endif

SANDSEAL_ASSERT(sizeof(void *) == 4, "build for wasm32: `sandseal build` does");

/* ---- What crosses the border ------------------------------------------------------------------------------ */

/* Data types, by their ONNX TensorProto numbers. */
enum sandseal_dtype {
    SANDSEAL_FP32 = 1,
    SANDSEAL_UINT8 = 2,
    SANDSEAL_INT8 = 3,
    SANDSEAL_UINT16 = 4,
    SANDSEAL_INT16 = 5,
    SANDSEAL_INT32 = 6,
    SANDSEAL_INT64 = 7,
    SANDSEAL_BYTES = 8,
    SANDSEAL_BOOL = 9,
    SANDSEAL_FP16 = 10,
    SANDSEAL_FP64 = 11,
    SANDSEAL_UINT32 = 12,
    SANDSEAL_UINT64 = 13,
    SANDSEAL_BF16 = 16,
};

/* A tensor. Of an output the host has set data type, rank, name and the fixed axes; free axes are -1. */
struct sandseal_tensor {
    uint32_t dtype;
    uint32_t rank;
    uint32_t data;  /* an address: see sandseal_data */
    uint32_t flags; /* 0 */
    uint64_t byte_len;
    int64_t shape[8];
    uint32_t name, name_len; /* UTF-8, not terminated */
};
SANDSEAL_ASSERT(sizeof(struct sandseal_tensor) == 96, "ABI v1: a tensor takes 96 bytes");
SANDSEAL_ASSERT(offsetof(struct sandseal_tensor, shape) == 24, "ABI v1: its shape is at 24");

/* One call of a stage. Its tensors are in the manifest's order. */
struct sandseal_call {
    uint32_t n_inputs, inputs;
    uint32_t n_outputs, outputs;
    uint32_t params, params_len; /* the request's parameters, UTF-8 JSON */
    uint32_t config, config_len; /* the stage's signed config, UTF-8 JSON */
    uint32_t error, error_len;   /* set by sandseal_refuse */
    uint32_t flags;              /* 1 first, 2 last call of a stream */
    uint32_t reserved[5];
};
SANDSEAL_ASSERT(sizeof(struct sandseal_call) == 64, "ABI v1: a call takes 64 bytes");
SANDSEAL_ASSERT(offsetof(struct sandseal_call, error) == 32, "ABI v1: its error is at 32");

/* Bytes somewhere in memory, not terminated. */
struct sandseal_text {
    const char *data;
    uint32_t size;
};

/* What a stage returns. */
#define SANDSEAL_DONE 0

/* ---- Declaring ---------------------------------------------------------------------------------------------- */

#define SANDSEAL_EXPORT(name) __attribute__((export_name(name), used))
#define SANDSEAL_IMPORT(name) __attribute__((import_module("sandseal"), import_name(name)))

/* Starts the definition of the stage function that plugin.toml names; `call` is its argument. */
#define SANDSEAL_STAGE(function)                                          \
    SANDSEAL_EXPORT(#function) int32_t function(struct sandseal_call *call); \
    int32_t function(struct sandseal_call *call)

/* Before a hot loop: the host's time check sits on every jump back, and eight steps per jump make it free. */
#define SANDSEAL_UNROLL _Pragma("clang loop unroll_count(8)")

/* Exported definitions may stand in several files of one plugin; the linker keeps one. */
#define SANDSEAL_SHARED __attribute__((weak))

/* The host's functions. Using one needs its name among the manifest's `imports`. */
SANDSEAL_IMPORT("log") void sandseal_import_log(int32_t level, const void *text, uint32_t size);
SANDSEAL_IMPORT("now") int64_t sandseal_import_now(void);
SANDSEAL_IMPORT("random") void sandseal_import_random(void *to, uint32_t size);
SANDSEAL_IMPORT("asset")
int64_t sandseal_import_asset(const void *name, uint32_t name_size, void *to, uint32_t room);

/* ---- Memory --------------------------------------------------------------------------------------------------- */

SANDSEAL_EXPORT("sandseal_abi") SANDSEAL_SHARED int32_t sandseal_abi(void) { return 1; }

#ifdef __wasi__

/* Every block is chained, so that sandseal_reset finds it. */
struct sandseal_block {
    struct sandseal_block *next;
    uint32_t unused[3]; /* keeps what follows aligned to 16 */
};
SANDSEAL_SHARED struct sandseal_block *sandseal_blocks;

SANDSEAL_EXPORT("sandseal_alloc") SANDSEAL_SHARED void *sandseal_alloc(uint32_t size, uint32_t align) {
    struct sandseal_block *block = NULL;
    if (align <= sizeof *block && size <= UINT32_MAX - sizeof *block)
        block = (struct sandseal_block *)malloc(sizeof *block + size);
    if (!block) return NULL;
    block->next = sandseal_blocks;
    sandseal_blocks = block;
    return block + 1;
}

SANDSEAL_EXPORT("sandseal_reset") SANDSEAL_SHARED void sandseal_reset(void) {
    while (sandseal_blocks) {
        struct sandseal_block *block = sandseal_blocks;
        sandseal_blocks = block->next;
        free(block);
    }
}

#else

extern unsigned char __heap_base; /* from the linker: where static data ends */
SANDSEAL_SHARED uint32_t sandseal_top; /* where free memory starts; 0 before the first allocation */

SANDSEAL_EXPORT("sandseal_alloc") SANDSEAL_SHARED void *sandseal_alloc(uint32_t size, uint32_t align) {
    uint64_t start = sandseal_top ? sandseal_top : (uint32_t)&__heap_base;
    start = (start + align - 1) & ~(uint64_t)(align - 1);
    uint64_t end = start + size, have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end > UINT32_MAX) return NULL;
    if (end > have && __builtin_wasm_memory_grow(0, (size_t)((end - have + 0xFFFF) >> 16)) == SIZE_MAX) return NULL;
    sandseal_top = (uint32_t)end;
    return (void *)(uintptr_t)start;
}

SANDSEAL_SHARED uint32_t sandseal_floor; /* where sandseal_reset leaves it */

SANDSEAL_EXPORT("sandseal_reset") SANDSEAL_SHARED void sandseal_reset(void) { sandseal_top = sandseal_floor; }

#endif

/* The name in the trace when limits.memory_mib is too small. */
__attribute__((noinline, noreturn)) SANDSEAL_SHARED void sandseal_out_of_memory(void) { __builtin_trap(); }

/* `size` bytes, aligned to 16; traps when there is no room, so the result is never null. */
static inline void *sandseal_need(uint64_t size) {
    void *block = size <= UINT32_MAX ? sandseal_alloc((uint32_t)size, 16) : NULL;
    if (!block) sandseal_out_of_memory();
    return block;
}

/* `size` bytes that stay for a stream's calls: ask in the first one, since the call's own block stays with them. */
static inline void *sandseal_keep(uint64_t size) {
#ifdef __wasi__
    void *block = size <= UINT32_MAX ? malloc((size_t)size) : NULL;
    if (!block) sandseal_out_of_memory();
    return block;
#else
    void *block = sandseal_need(size);
    sandseal_floor = sandseal_top;
    return block;
#endif
}

/* Whether a call is its stream's first, or last. */
static inline int sandseal_is_first(const struct sandseal_call *call) { return (call->flags & 1) != 0; }
static inline int sandseal_is_last(const struct sandseal_call *call) { return (call->flags & 2) != 0; }

/* ---- Tensors ---------------------------------------------------------------------------------------------------- */

static inline const struct sandseal_tensor *sandseal_input(const struct sandseal_call *call, uint32_t index) {
    return (const struct sandseal_tensor *)(uintptr_t)call->inputs + index;
}

static inline struct sandseal_tensor *sandseal_output(const struct sandseal_call *call, uint32_t index) {
    return (struct sandseal_tensor *)(uintptr_t)call->outputs + index;
}

/* Its elements, row-major; the caller's pointer says of what type. */
static inline void *sandseal_data(const struct sandseal_tensor *tensor) { return (void *)(uintptr_t)tensor->data; }

/* How many elements it has. */
static inline uint64_t sandseal_count(const struct sandseal_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t axis = 0; axis < tensor->rank; axis++) count *= (uint64_t)tensor->shape[axis];
    return count;
}

/* Bytes of one element; 0 for BYTES, whose elements differ. */
static inline uint32_t sandseal_size_of(uint32_t dtype) {
    static const uint8_t sizes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2};
    return dtype < sizeof sizes ? sizes[dtype] : 0;
}

/* Points an output at data that is already there (an input's data, too). */
static inline void sandseal_give(struct sandseal_tensor *output, const int64_t *shape, const void *data,
                                 uint64_t size) {
    for (uint32_t axis = 0; axis < output->rank; axis++) output->shape[axis] = shape[axis];
    output->data = (uint32_t)(uintptr_t)data;
    output->byte_len = size;
}

/* Room for a numeric output of this shape, for the caller to fill:
 * float *y = sandseal_make(sandseal_output(call, 0), (int64_t[]){1, 3, height, width}); */
static inline void *sandseal_make(struct sandseal_tensor *output, const int64_t *shape) {
    uint64_t size = sandseal_size_of(output->dtype);
    for (uint32_t axis = 0; axis < output->rank; axis++) {
        if (__builtin_mul_overflow(size, (uint64_t)shape[axis], &size)) sandseal_out_of_memory();
    }
    void *data = sandseal_need(size);
    sandseal_give(output, shape, data, size);
    return data;
}

/* ---- Text, and BYTES tensors ------------------------------------------------------------------------------------- */

/* A terminated string as a text. */
static inline struct sandseal_text sandseal_say(const char *terminated) {
    struct sandseal_text text = {terminated, 0};
    while (terminated[text.size]) text.size++;
    return text;
}

/* Refuses the input: the client gets this text. `return sandseal_refuse(call, "the image is empty");` */
static inline int32_t sandseal_refuse(struct sandseal_call *call, const char *terminated) {
    struct sandseal_text text = sandseal_say(terminated);
    call->error = (uint32_t)(uintptr_t)text.data;
    call->error_len = text.size;
    return 1;
}

/* Walks the elements of a BYTES tensor:
 * struct sandseal_reader reader = sandseal_read(x);
 * struct sandseal_text element;
 * while (sandseal_next(&reader, &element)) ... */
struct sandseal_reader {
    const char *at, *end;
};

static inline struct sandseal_reader sandseal_read(const struct sandseal_tensor *tensor) {
    const char *data = (const char *)sandseal_data(tensor);
    struct sandseal_reader reader = {data, data + tensor->byte_len};
    return reader;
}

static inline int sandseal_next(struct sandseal_reader *reader, struct sandseal_text *element) {
    if (reader->at == reader->end) return 0;
    __builtin_memcpy(&element->size, reader->at, 4);
    element->data = reader->at + 4;
    reader->at = element->data + element->size;
    return 1;
}

/* Collects the elements of a BYTES output:
 * struct sandseal_writer writer = {0};
 * sandseal_append(&writer, text);
 * sandseal_finish(&writer, sandseal_output(call, 0), (int64_t[]){1}); */
struct sandseal_writer {
    char *data;
    uint32_t size, room;
};

/* Adds an element of `size` bytes and returns where to write them; the address is good until the next element. */
static inline char *sandseal_element(struct sandseal_writer *writer, uint32_t size) {
    uint64_t wanted = (uint64_t)writer->size + 4 + size;
    if (wanted > writer->room) {
        char *larger = (char *)sandseal_need(wanted + wanted / 2);
        if (writer->size) __builtin_memcpy(larger, writer->data, writer->size);
        writer->data = larger;
        writer->room = (uint32_t)(wanted + wanted / 2);
    }
    char *element = writer->data + writer->size;
    __builtin_memcpy(element, &size, 4);
    writer->size = (uint32_t)wanted;
    return element + 4;
}

static inline void sandseal_append(struct sandseal_writer *writer, struct sandseal_text text) {
    char *element = sandseal_element(writer, text.size);
    __builtin_memcpy(element, text.data, text.size);
}

static inline void sandseal_finish(const struct sandseal_writer *writer, struct sandseal_tensor *output,
                                   const int64_t *shape) {
    sandseal_give(output, shape, writer->data, writer->size);
}

/* ---- Numbers from the config and the request's parameters -------------------------------------------------------- */

/* A decimal number at `at`, without libc; exact for integers up to 2^53, else within a few units of the last place. */
static inline double sandseal_decimal(const char *at, const char *end) {
    double value = 0, sign = 1;
    int exponent = 0, given = 0, given_sign = 1, fraction = 0;
    if (at < end && *at == '-') sign = -1, at++;
    for (; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !fraction)); at++) {
        if (*at == '.') fraction = 1;
        else value = value * 10 + (*at - '0'), exponent -= fraction;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) given_sign = *at++ == '-' ? -1 : 1;
        for (; at < end && *at >= '0' && *at <= '9' && given < 400; at++) given = given * 10 + (*at - '0');
    }
    for (exponent += given_sign * given; exponent > 0 && value < 1e308; exponent--) value *= 10;
    for (; exponent < 0 && value > 0; exponent++) value /= 10;
    return sign * value;
}

/* The number that member `name` of a JSON object holds; `otherwise` when it is absent or no number. */
static inline double sandseal_number(uint32_t json, uint32_t size, const char *name, double otherwise) {
    const char *at = (const char *)(uintptr_t)json, *end = at + size, *key = NULL;
    struct sandseal_text wanted = sandseal_say(name);
    int depth = 0;
    for (; at < end; at++) {
        if (*at == '{' || *at == '[') depth++;
        else if (*at == '}' || *at == ']') depth--;
        else if (*at == '"') {
            const char *open = ++at;
            while (at < end && *at != '"') at += *at == '\\' ? 2 : 1;
            key = depth == 1 && (uint32_t)(at - open) == wanted.size ? open : NULL;
            for (uint32_t i = 0; key && i < wanted.size; i++) key = open[i] == name[i] ? key : NULL;
        } else if (*at == ':' && key) {
            do at++;
            while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'));
            int number = at < end && (*at == '-' || (*at >= '0' && *at <= '9'));
            return number ? sandseal_decimal(at, end) : otherwise;
        } else if (*at == ',') key = NULL;
    }
    return otherwise;
}

/* From the stage's signed config: int top_k = sandseal_config(call, "top_k", 5); */
static inline double sandseal_config(const struct sandseal_call *call, const char *name, double otherwise) {
    return sandseal_number(call->config, call->config_len, name, otherwise);
}

/* From the request's parameters. The client chooses them: check the range. */
static inline double sandseal_param(const struct sandseal_call *call, const char *name, double otherwise) {
    return sandseal_number(call->params, call->params_len, name, otherwise);
}

/* ---- Many numbers at once ---------------------------------------------------------------------------------------- */

/* Four floats in one SIMD register, at any address of FP32 data: + - * / work on them, and [i] gives one. */
typedef float sandseal_f32x4 __attribute__((vector_size(16), aligned(4), may_alias));

/* The sum of x[i] * y[i], in sixteen partial sums: what -O3 may not make of a loop, since it rounds otherwise. */
static inline float sandseal_dot(const float *x, const float *y, size_t n) {
    sandseal_f32x4 sums[4] = {{0}, {0}, {0}, {0}};
    size_t i = 0;
    for (; n - i >= 16; i += 16) {
        SANDSEAL_UNROLL
        for (size_t lane = 0; lane < 4; lane++)
            sums[lane] += *(const sandseal_f32x4 *)(x + i + 4 * lane) * *(const sandseal_f32x4 *)(y + i + 4 * lane);
    }
    sums[0] += sums[1] + (sums[2] + sums[3]);
    float sum = sums[0][0] + sums[0][1] + (sums[0][2] + sums[0][3]);
    for (; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* The sum of x[i], likewise. */
static inline float sandseal_sum(const float *x, size_t n) {
    sandseal_f32x4 sums[4] = {{0}, {0}, {0}, {0}};
    size_t i = 0;
    for (; n - i >= 16; i += 16) {
        SANDSEAL_UNROLL
        for (size_t lane = 0; lane < 4; lane++) sums[lane] += *(const sandseal_f32x4 *)(x + i + 4 * lane);
    }
    sums[0] += sums[1] + (sums[2] + sums[3]);
    float sum = sums[0][0] + sums[0][1] + (sums[0][2] + sums[0][3]);
    for (; i < n; i++) sum += x[i];
    return sum;
}

/* to[i] = from[i] * factor + offset; `to` may be `from`. */
static inline void sandseal_scale(float *to, const float *from, size_t n, float factor, float offset) {
    SANDSEAL_UNROLL
    for (size_t i = 0; i < n; i++) to[i] = from[i] * factor + offset;
}

/* Likewise from bytes: pixels to what a model takes. */
static inline void sandseal_scale_u8(float *to, const uint8_t *from, size_t n, float factor, float offset) {
    SANDSEAL_UNROLL
    for (size_t i = 0; i < n; i++) to[i] = (float)from[i] * factor + offset;
}

/* ---- The host's functions ---------------------------------------------------------------------------------------- */

enum sandseal_level { SANDSEAL_DEBUG, SANDSEAL_INFO, SANDSEAL_WARNING, SANDSEAL_ERROR };

/* A line in the host's log (import "log"); the host limits the rate and escapes control characters. */
static inline void sandseal_log(enum sandseal_level level, const char *terminated) {
    struct sandseal_text text = sandseal_say(terminated);
    sandseal_import_log((int32_t)level, text.data, text.size);
}

/* Milliseconds since 1970 (import "now"). */
static inline int64_t sandseal_now(void) { return sandseal_import_now(); }

/* Fills with random bytes, at most 65,536 (import "random"). */
static inline void sandseal_random(void *to, uint32_t size) { sandseal_import_random(to, size); }

/* A signed file that the manifest lists under `assets` (import "asset"); data is null when it does not. */
static inline struct sandseal_text sandseal_asset(const char *name) {
    struct sandseal_text path = sandseal_say(name), asset = {NULL, 0};
    int64_t size = sandseal_import_asset(path.data, path.size, NULL, 0);
    if (size < 0) return asset;
    void *room = sandseal_need((uint64_t)size);
    sandseal_import_asset(path.data, path.size, room, (uint32_t)size);
    asset.data = (const char *)room;
    asset.size = (uint32_t)size;
    return asset;
}

#ifdef __cplusplus
}
#endif

#endif
