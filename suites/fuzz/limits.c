#include "suites/fuzz/limits.h"
#include "suites/fuzz/targets.h"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

static struct {
    bool armed;
    int64_t live, peak, max;
} memory;

static void added(size_t n) {
    const int64_t live = __atomic_add_fetch(&memory.live, (int64_t)n, __ATOMIC_RELAXED);
    if (live > memory.peak) memory.peak = live;
    if (!memory.armed || live <= memory.max) return;
    memory.armed = false; /* the report allocates */
    kg_fuzz_give_up("%" PRId64 " bytes are in use, %" PRId64 " are allowed, with an allocation of %zu", live,
                    memory.max, n);
}

static void removed(size_t n) {
    __atomic_sub_fetch(&memory.live, (int64_t)n, __ATOMIC_RELAXED);
}

#ifdef HAS_ASAN
size_t __sanitizer_get_allocated_size(const volatile void *p);
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *p, size_t n) {
    (void)p;
    added(n);
}

static void on_free(const volatile void *p) {
    if (p) removed(__sanitizer_get_allocated_size(p));
}

__attribute__((constructor)) static void count_allocations(void) {
    (void)__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}
#else
/* glibc's own, below its names that a program may define (The GNU C Library, "Replacing malloc"). */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *p);

static void *counted(void *p) {
    if (p) added(malloc_usable_size(p));
    return p;
}

void *malloc(size_t n) {
    return counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size) {
    return counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n) {
    const size_t before = p ? malloc_usable_size(p) : 0;
    void *moved = __libc_realloc(p, n);
    if (moved || n == 0) removed(before);
    return counted(moved);
}

void *memalign(size_t align, size_t n) {
    return counted(__libc_memalign(align, n));
}

void *aligned_alloc(size_t align, size_t n) {
    return memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n) {
    *p = memalign(align, n);
    return *p ? 0 : ENOMEM;
}

void free(void *p) {
    if (p) removed(malloc_usable_size(p));
    __libc_free(p);
}
#endif

void kg_fuzz_memory_begin(uint64_t max_bytes) {
    memory.live = memory.peak = 0;
    memory.max = (int64_t)max_bytes;
    memory.armed = true;
}

int64_t kg_fuzz_memory_end(int64_t *peak_bytes) {
    memory.armed = false;
    *peak_bytes = memory.peak;
    return memory.live;
}
