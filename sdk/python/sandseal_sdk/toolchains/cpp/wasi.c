/* What C plugins with libc are linked with. */
#include "heap.h"
#include "wasi.h"
