/* The system calls that libc knows, answered inside the module, so that no WASI import is left in it.
 *
 * Output goes to the host's log where the manifest asks for `log`, and nowhere else; clocks and randomness come
 * through `now` and `random` where it asks for them; the rest is refused as a closed file would be.
 * The build defines SANDSEAL_IMPORTS_LOG, SANDSEAL_IMPORTS_NOW and SANDSEAL_IMPORTS_RANDOM.
 */
#ifndef SANDSEAL_WASI_H
#define SANDSEAL_WASI_H

#include <sandseal.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SANDSEAL_WASI(name) __imported_wasi_snapshot_preview1_##name
enum { SANDSEAL_EBADF = 8, SANDSEAL_ENOSYS = 52 }; /* WASI errno */

struct sandseal_iovec {
    uint32_t data, size;
};

/* A line without its end: libc sends text and newline apart. */
static void sandseal_log_line(int32_t file, const char *text, uint32_t size) {
#ifdef SANDSEAL_IMPORTS_LOG
    while (size && text[size - 1] == '\n') size--;
    if (size) sandseal_import_log(file == 2 ? SANDSEAL_WARNING : SANDSEAL_INFO, text, size);
#else
    (void)file, (void)text, (void)size;
#endif
}

int32_t SANDSEAL_WASI(fd_write)(int32_t file, int32_t vectors, int32_t count, int32_t written) {
    const struct sandseal_iovec *vector = (const struct sandseal_iovec *)(uintptr_t)vectors;
    uint32_t total = 0;
    if (file != 1 && file != 2) return SANDSEAL_EBADF;
    for (int32_t i = 0; i < count; i++) {
        sandseal_log_line(file, (const char *)(uintptr_t)vector[i].data, vector[i].size);
        total += vector[i].size;
    }
    *(uint32_t *)(uintptr_t)written = total;
    return 0;
}

int32_t SANDSEAL_WASI(fd_read)(int32_t file, int32_t vectors, int32_t count, int32_t read) {
    (void)file, (void)vectors, (void)count, (void)read;
    return SANDSEAL_EBADF;
}

int32_t SANDSEAL_WASI(fd_close)(int32_t file) {
    (void)file;
    return SANDSEAL_EBADF;
}

/* The part of zig's libc that is written in Zig links under names of this kind. */
int32_t sandseal_zig_fd_close(int32_t file) __asm__("fd_close|wasi_snapshot_preview1");
int32_t sandseal_zig_fd_close(int32_t file) { return SANDSEAL_WASI(fd_close)(file); }

int32_t SANDSEAL_WASI(fd_seek)(int32_t file, int64_t offset, int32_t whence, int32_t position) {
    (void)file, (void)offset, (void)whence, (void)position;
    return SANDSEAL_EBADF;
}

int32_t SANDSEAL_WASI(fd_fdstat_get)(int32_t file, int32_t status) {
    (void)file, (void)status;
    return SANDSEAL_EBADF;
}

int32_t SANDSEAL_WASI(environ_sizes_get)(int32_t count, int32_t size) {
    *(uint32_t *)(uintptr_t)count = *(uint32_t *)(uintptr_t)size = 0;
    return 0;
}

int32_t SANDSEAL_WASI(environ_get)(int32_t entries, int32_t text) {
    (void)entries, (void)text;
    return 0;
}

int32_t SANDSEAL_WASI(args_sizes_get)(int32_t count, int32_t size) {
    return SANDSEAL_WASI(environ_sizes_get)(count, size);
}

int32_t SANDSEAL_WASI(args_get)(int32_t entries, int32_t text) {
    return SANDSEAL_WASI(environ_get)(entries, text);
}

int32_t SANDSEAL_WASI(clock_time_get)(int32_t clock, int64_t precision, int32_t time) {
    (void)clock, (void)precision;
#ifdef SANDSEAL_IMPORTS_NOW
    *(int64_t *)(uintptr_t)time = sandseal_import_now() * 1000000;
    return 0;
#else
    (void)time;
    return SANDSEAL_ENOSYS;
#endif
}

int32_t SANDSEAL_WASI(random_get)(int32_t to, int32_t size) {
#ifdef SANDSEAL_IMPORTS_RANDOM
    sandseal_import_random((void *)(uintptr_t)to, (uint32_t)size);
    return 0;
#else
    (void)to, (void)size;
    return SANDSEAL_ENOSYS;
#endif
}

__attribute__((noreturn)) void SANDSEAL_WASI(proc_exit)(int32_t status) {
    (void)status;
    __builtin_trap();
}

#ifdef __cplusplus
}
#endif

#endif
