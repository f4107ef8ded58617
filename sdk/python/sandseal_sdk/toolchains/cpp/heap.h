/* malloc for an instance that lives for one call: small, and close together in memory.
 *
 * The host zeroes the first pages of a used memory instead of returning them, and every growth is a system call, so a
 * fresh instance is cheapest when it stays low in the memory that it starts with. Blocks are cut from the top; freed
 * ones wait in a list per size class (four to each power of two) for the next of their class.
 */
#ifndef SANDSEAL_HEAP_H
#define SANDSEAL_HEAP_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A list lies in the blocks that callers had, so neither function may be mixed with the callers' code. */
#define SANDSEAL_APART __attribute__((noinline))

enum { SANDSEAL_UNIT = 16, SANDSEAL_CLASSES = 128, SANDSEAL_GROWTH = 1 << 20 };

/* Stands before every block, eight bytes off a multiple of 16; a free block begins with the next of its list. */
struct sandseal_chunk {
    uint32_t units;                       /* of 16 bytes, this header included */
    uint32_t shift;                       /* bytes from the chunk's own header to this one (aligned blocks) */
};

extern unsigned char __heap_base; /* from the linker: where static data ends */
static uintptr_t sandseal_heap_top;
static struct sandseal_chunk *sandseal_free_chunks[SANDSEAL_CLASSES];

/* Rounds up to the units of a size class: at most a quarter is wasted. */
static uint32_t sandseal_class_units(uint32_t units) {
    if (units < 8) return units;
    uint32_t step = 1u << (29 - __builtin_clz(units));
    return (units + step - 1) & ~(step - 1);
}

static uint32_t sandseal_class(uint32_t class_units) {
    if (class_units < 8) return class_units;
    uint32_t log = 31 - __builtin_clz(class_units);
    return 4 * log + (class_units >> (log - 2) & 3);
}

/* Makes memory reach up to `end`, by large steps where the host allows them. */
static int sandseal_reach(uint64_t end) {
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end <= have) return 1;
    if (end > UINT32_MAX) return 0;
    size_t needed = (size_t)((end - have + 0xFFFF) >> 16), step = SANDSEAL_GROWTH >> 16;
    if (needed < step && __builtin_wasm_memory_grow(0, step) != SIZE_MAX) return 1;
    return __builtin_wasm_memory_grow(0, needed) != SIZE_MAX;
}

SANDSEAL_APART void *malloc(size_t size) {
    if (size > UINT32_MAX - SANDSEAL_GROWTH) return NULL;
    uint32_t units = sandseal_class_units((uint32_t)(size + sizeof(struct sandseal_chunk) - 1) / SANDSEAL_UNIT + 1);
    struct sandseal_chunk **list = &sandseal_free_chunks[sandseal_class(units)], *chunk = *list;
    if (chunk) {
        *list = *(struct sandseal_chunk **)(chunk + 1);
        return chunk + 1;
    }
    if (!sandseal_heap_top) sandseal_heap_top = ((uintptr_t)&__heap_base | (SANDSEAL_UNIT - 1)) + 1 + sizeof *chunk;
    uint64_t end = (uint64_t)sandseal_heap_top + (uint64_t)units * SANDSEAL_UNIT;
    if (!sandseal_reach(end)) return NULL;
    chunk = (struct sandseal_chunk *)sandseal_heap_top;
    sandseal_heap_top = (uintptr_t)end;
    chunk->units = units;
    chunk->shift = 0;
    return chunk + 1;
}

SANDSEAL_APART void free(void *block) {
    if (!block) return;
    struct sandseal_chunk *chunk = (struct sandseal_chunk *)block - 1;
    chunk = (struct sandseal_chunk *)((uintptr_t)chunk - chunk->shift);
    if ((uintptr_t)chunk + (uintptr_t)chunk->units * SANDSEAL_UNIT == sandseal_heap_top) {
        sandseal_heap_top = (uintptr_t)chunk;
        return;
    }
    struct sandseal_chunk **list = &sandseal_free_chunks[sandseal_class(chunk->units)];
    *(struct sandseal_chunk **)(chunk + 1) = *list;
    *list = chunk;
}

size_t malloc_usable_size(void *block) {
    struct sandseal_chunk *chunk = (struct sandseal_chunk *)block - 1;
    return block ? (size_t)chunk->units * SANDSEAL_UNIT - sizeof *chunk - chunk->shift : 0;
}

void *calloc(size_t count, size_t size) {
    size_t total;
    void *block = __builtin_mul_overflow(count, size, &total) ? NULL : malloc(total);
    if (block) __builtin_memset(block, 0, total);
    return block;
}

void *realloc(void *block, size_t size) {
    size_t room = malloc_usable_size(block);
    if (block && size <= room) return block;
    void *larger = malloc(size);
    if (larger && block) {
        __builtin_memcpy(larger, block, room);
        free(block);
    }
    return larger;
}

void *aligned_alloc(size_t alignment, size_t size) {
    if (alignment <= SANDSEAL_UNIT) return malloc(size);
    char *block = (char *)(size + alignment < size ? NULL : malloc(size + alignment));
    if (!block) return NULL;
    uint32_t shift = (uint32_t)(-(uintptr_t)block & (alignment - 1));
    if (!shift) return block;
    struct sandseal_chunk *chunk = (struct sandseal_chunk *)block - 1;
    struct sandseal_chunk *aligned = (struct sandseal_chunk *)((char *)chunk + shift);
    aligned->units = chunk->units;
    aligned->shift = shift;
    return aligned + 1;
}

void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = aligned_alloc(alignment, size);
    return *block ? 0 : ENOMEM;
}

#ifdef __cplusplus
}
#endif

#endif
