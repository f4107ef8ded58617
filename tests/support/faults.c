/* Makes a program's disk and clock fail on demand: LD_PRELOAD, glibc. What fails is read from a mapped file each time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int32_t full;      /* writing below the folder fails with ENOSPC */
    int32_t read_only; /* and changing anything there with EROFS */
    int64_t clock_s;   /* how far the wall clock is off */
};

static const struct faults none;
static const struct faults *faults = &none;
static const char *folder;
static size_t folder_length;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("FAULTS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *mapped = mmap(NULL, sizeof *faults, PROT_READ, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED) faults = mapped;
        close(file);
    }
    folder = getenv("FAULTS_FOLDER");
    folder_length = folder ? strlen(folder) : 0;
}

static int below(const char *path) {
    return folder && path && strncmp(path, folder, folder_length) == 0 && (path[folder_length] == '/' || !path[folder_length]);
}

static int file_below(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return below(path);
}

static int refuses(int file) {
    if (!(faults->full || faults->read_only) || !file_below(file)) return 0;
    errno = faults->full ? ENOSPC : EROFS;
    return 1;
}

static int refuses_path(const char *path) {
    if (!faults->read_only || !below(path)) return 0;
    errno = EROFS;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRITING (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

ssize_t write(int file, const void *data, size_t size) {
    return refuses(file) ? -1 : NEXT(write)(file, data, size);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    return refuses(file) ? -1 : NEXT(pwrite)(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    return refuses(file) ? -1 : NEXT(pwrite64)(file, data, size, at);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    return refuses(file) ? -1 : NEXT(writev)(file, parts, count);
}
int ftruncate64(int file, off64_t size) { return refuses(file) ? -1 : NEXT(ftruncate64)(file, size); }
int posix_fallocate64(int file, off64_t at, off64_t size) {
    return refuses(file) ? errno : NEXT(posix_fallocate64)(file, at, size);
}
int rename(const char *from, const char *to) { return refuses_path(to) ? -1 : NEXT(rename)(from, to); }
int unlink(const char *path) { return refuses_path(path) ? -1 : NEXT(unlink)(path); }
int mkdir(const char *path, mode_t mode) { return refuses_path(path) ? -1 : NEXT(mkdir)(path, mode); }
int link(const char *from, const char *to) { return refuses_path(to) ? -1 : NEXT(link)(from, to); }

#define OPEN(name)                                                                 \
    int name(const char *path, int flags, ...) {                                   \
        va_list more;                                                              \
        va_start(more, flags);                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;    \
        va_end(more);                                                              \
        return flags & WRITING && refuses_path(path) ? -1 : NEXT(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = NEXT(clock_gettime)(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += faults->clock_s;
    return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = NEXT(gettimeofday)(now, zone);
    now->tv_sec += faults->clock_s;
    return result;
}
time_t time(time_t *stored) {
    time_t now = NEXT(time)(NULL) + faults->clock_s;
    if (stored) *stored = now;
    return now;
}
