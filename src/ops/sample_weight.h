/* The weight of an id in a draw: round(exp(x) * 2^bits) for x <= 0, the same integer on host and device.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2), |r| <= ln 2 / 2, and exp(r) by its Taylor series up to r^13 (the next
 * term is below 2^-57). Every multiplication and addition is a separately rounded IEEE 754 double operation, in the
 * written order. Contraction into fused multiply-adds would change bits: -ffp-contract=off on the host and the
 * intrinsics below on the device prevent it. */
#ifndef KIGO_OPS_SAMPLE_WEIGHT_H
#define KIGO_OPS_SAMPLE_WEIGHT_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define KG_SAMPLE_FUNCTION static __host__ __device__ __forceinline__
#else
#define KG_SAMPLE_FUNCTION static inline
#endif

KG_SAMPLE_FUNCTION double kg_sample_mul(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
}

KG_SAMPLE_FUNCTION double kg_sample_add(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dadd_rn(a, b);
#else
    return a + b;
#endif
}

/* The largest number of bits for which n weights sum to at most 2^62. */
KG_SAMPLE_FUNCTION int kg_sample_weight_bits(uint32_t n) {
    int bits = 62;
    while (n > (UINT64_C(1) << 62) >> bits) bits--;
    return bits;
}

/* x <= 0, bits in [0, 62]. NaN and x <= -46 give weight 0. */
KG_SAMPLE_FUNCTION uint64_t kg_sample_weight(double x, int bits) {
    const double least = -46;                /* exp of less is below 2^-66 */
    const double whole = 0x1.8p52;           /* adding it rounds a small number to an integer */
    const double ln2_high = 0x1.62e42feep-1; /* 32 bits, so that n * ln2_high is exact */
    const double ln2_low = 0x1.a39ef35793c76p-33;
    if (!(x > least)) return 0;
    const double n = kg_sample_add(kg_sample_add(kg_sample_mul(x, 0x1.71547652b82fep+0), whole), -whole);
    const double r = kg_sample_add(kg_sample_add(x, -kg_sample_mul(n, ln2_high)), -kg_sample_mul(n, ln2_low));
    double sum = 1 / 6227020800.0; /* 13! */
    const double rest[] = {
        1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0, 1 / 40320.0, 1 / 5040.0, 1 / 720.0,
        1 / 120.0,       1 / 24.0,       1 / 6.0,       1 / 2.0,      1,           1
    };
    for (int k = 0; k < 13; k++) sum = kg_sample_add(kg_sample_mul(sum, r), rest[k]);
    const uint64_t power_bits = (uint64_t)(1023 + (int)n + bits) << 52;
    double power;
    memcpy(&power, &power_bits, sizeof power);
    return (uint64_t)kg_sample_add(kg_sample_mul(sum, power), 0.5);
}

#endif
