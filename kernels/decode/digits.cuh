/* A row of x as integers of 16 bits for tensor cores that multiply bytes. 32 neighbours share a step:
 *
 *   x[i] = step v[i],  step = max |x| / 32512,  v[i] = 256 upper[i] + lower[i],
 *
 * where v is x / step rounded to an integer, |v| <= 32512 = 127 * 256, and both digits are signed bytes. So x errs by
 * at most half a step, some max |x| 2^-16 of its 32 neighbours; float16 errs by up to |x| 2^-11. A product with an
 * integer code is two products of bytes, and sums of 32 are exact in int32.
 *
 * In shared memory the 32 upper digits lie before the 32 lower ones. */
#ifndef KIGO_KERNELS_DECODE_DIGITS_CUH
#define KIGO_KERNELS_DECODE_DIGITS_CUH

#include "kernels/cuda_backend.h"

namespace kg_digits {

enum {
    STEP_COLS = 32, /* which share a step */
    STEP_BYTES = 2 * STEP_COLS,
    LOWER_AT = STEP_COLS,
    GROUP_COLS = 16, /* of which the sum of x is kept */
    VECTOR = 8,
};

constexpr float MOST = 127 * 256;

/* Byte in shared memory of the upper digit of element i. */
static __device__ __forceinline__ uint32_t digit_at(uint32_t i) {
    return i / STEP_COLS * STEP_BYTES + i % STEP_COLS;
}

/* max |x| as the bits of a float, of which NaN has the largest. */
static __device__ __forceinline__ unsigned largest_of(const float (&x)[VECTOR]) {
    unsigned largest = 0;
#pragma unroll
    for (int e = 0; e < VECTOR; e++) largest = max(largest, __float_as_uint(x[e]) & 0x7FFFFFFFu);
    return largest;
}

/* Of max |x|; inverse = 1 / step. From 2^126 on, and of infinities and NaN, the step is NaN, and so is what is
 * multiplied with it. */
struct step {
    float step, inverse;
};

static __device__ __forceinline__ step step_of(unsigned largest) {
    const float most = __uint_as_float(largest);
    return { most < 0x1p126f ? most * (1 / MOST) : __uint_as_float(0x7FC00000u),
             most > 0x1p-100f ? __fdividef(MOST, most) : 0.0f };
}

struct digits {
    uint2 upper, lower;
    int sum; /* of v */
};

/* 1.5 2^23 + n has n's two's complement in its low bits. With 128 added to v, its upper byte is the upper digit, and
 * its lower byte the lower one plus 128. */
static __device__ __forceinline__ digits digits_of(const float (&x)[VECTOR], float inverse) {
    constexpr float SHIFT = 12582912.0f + 128;
    constexpr unsigned SHIFT_BITS = 0x4B400000u + 128;
    unsigned v[VECTOR], sum = 0, both[VECTOR / 2];
#pragma unroll
    for (int e = 0; e < VECTOR; e++) v[e] = __float_as_uint(fmaf(x[e], inverse, SHIFT)), sum += v[e];
#pragma unroll
    for (int i = 0; i < VECTOR / 2; i++) both[i] = __byte_perm(v[2 * i], v[2 * i + 1], 0x4051); /* upper, then lower */
    return { make_uint2(__byte_perm(both[0], both[1], 0x5410), __byte_perm(both[2], both[3], 0x5410)),
             make_uint2(__byte_perm(both[0], both[1], 0x7632) ^ 0x80808080u,
                        __byte_perm(both[2], both[3], 0x7632) ^ 0x80808080u),
             (int)(sum - VECTOR * SHIFT_BITS) };
}

/* A sum of products by v of those by its digits; |it| < 2^31. */
static __device__ __forceinline__ float value_of(int upper, int lower) {
    return (float)(256 * upper + lower);
}

} // namespace kg_digits

#endif
