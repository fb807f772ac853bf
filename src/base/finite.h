/* Tests whether float32 values are finite by their bits, so that compilers vectorise the test of a row. */
#ifndef KIGO_BASE_FINITE_H
#define KIGO_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KG_FINITE_MAGNITUDE UINT32_C(0x7FFFFFFF)
#define KG_FINITE_INFINITY UINT32_C(0x7F800000) /* magnitudes from here on are infinity, then NaNs */

static inline uint32_t kg_finite_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline bool kg_finite_all(const float *x, size_t n) {
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) found |= (kg_finite_bits(x[i]) & KG_FINITE_MAGNITUDE) >= KG_FINITE_INFINITY;
    return found == 0;
}

#endif
