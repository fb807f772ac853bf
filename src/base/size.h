/* Overflow-checked products and sums, for counts from untrusted input. */
#ifndef KIGO_BASE_SIZE_H
#define KIGO_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a * b; false on overflow, *out is then undefined. */
static inline bool kg_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* *out = a + b; false on overflow. */
static inline bool kg_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* *out = x rounded up to a multiple of align (a power of two); false on overflow. */
static inline bool kg_align_u64(uint64_t x, uint64_t align, uint64_t *out) {
    if (!kg_add_u64(x, align - 1, out)) return false;
    *out &= ~(align - 1);
    return true;
}

static inline size_t kg_min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

#define KG_COUNT_OF(array) (sizeof(array) / sizeof *(array))

#endif
