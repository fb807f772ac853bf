/* Device code on the host: a warp's arithmetic in registers and its matrix instruction, without CUDA's headers. A file
 * includes this in the place of kernels/cuda_backend.h and kernels/ptx/mma.cuh, then the headers it runs.
 *
 * Lanes run one after another, in two passes: the first keeps the operands that each lane gives to the instruction, the
 * second has them all and multiplies. So what a lane gives may not depend on what the instruction returned. */
#ifndef KIGO_SUITES_HOST_WARP_CUH
#define KIGO_SUITES_HOST_WARP_CUH

#define KIGO_KERNELS_CUDA_BACKEND_H
#define KIGO_KERNELS_PTX_MMA_CUH

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" {
#include "backend/backend.h"
#include "model/weights.h"
#include "ops/check.h"
}

#define __host__
#define __device__
#define __forceinline__ inline

struct uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
};

static inline unsigned max(unsigned a, unsigned b) {
    return a > b ? a : b;
}
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return { x, y };
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return { x, y, z, w };
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return { x, y, z, w };
}

struct __half {
    uint16_t bits;
    __half() = default;
    explicit __half(float x) : bits(kg_f32_to_f16(x)) {
    }
    operator float() const {
        return kg_f16_to_f32(bits);
    }
};
struct __half2_raw {
    uint16_t x, y;
};
struct __half2 {
    __half2_raw raw;
    explicit __half2(const __half2_raw &from) : raw(from) {
    }
    operator __half2_raw() const {
        return raw;
    }
};

static inline float __half2float(__half x) {
    return x;
}
static inline float __low2float(__half2 v) {
    return kg_f16_to_f32(v.raw.x);
}
static inline float __high2float(__half2 v) {
    return kg_f16_to_f32(v.raw.y);
}
static inline float2 __half22float2(__half2 v) {
    return { __low2float(v), __high2float(v) };
}
static inline __half2 __floats2half2_rn(float low, float high) {
    return __half2(__half2_raw{ kg_f32_to_f16(low), kg_f32_to_f16(high) });
}
static inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __fdividef(float a, float b) {
    return a / b;
}
/* Selectors of bytes only, no sign. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t both = (uint64_t)b << 32 | a;
    unsigned of = 0;
    for (int i = 0; i < 4; i++) of |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
    return of;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline float __fsub_rn(float a, float b) {
    return a - b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
template <typename T> static inline T __ldg(const T *from) {
    return *from;
}

static dim3 threadIdx;

/* Headers that are not run here call it. */
void kg_mma_16x8x16_free(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1);

namespace kg_host_warp {

enum { LANES = 32, FIRST = 3 * LANES, MAX_CALLS = 128 }; /* FIRST: a thread of a later warp of the block */

static struct state {
    bool multiplies; /* the second pass */
    bool is_good;    /* lanes called the instruction equally often, and gave the same in both passes */
    int n_calls;     /* of the lane so far */
    int n_calls_of_all;
    unsigned given[MAX_CALLS][LANES][6]; /* a[0..3], b[0..1] */
} warp;

/* Byte i of a word. */
template <typename T> static inline int byte_of(unsigned word, int i) {
    return (T)(uint8_t)(word >> 8 * i);
}

/* c of the lane += a b: the layout of kernels/ptx/mma.cuh. */
template <typename A> static void multiply(int (&c)[4], const unsigned (&given)[LANES][6], unsigned lane) {
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 32; k++) {
            const unsigned t = k % 16 / 4, upper = k / 16;
            const unsigned a = given[row % 8 * 4 + t][2 * upper + row / 8], b = given[col * 4 + t][4 + upper];
            c[i] += byte_of<A>(a, k % 4) * byte_of<int8_t>(b, k % 4);
        }
    }
}

/* lane() for each lane, twice; what it writes counts the second time. False if lanes differ in how often they call the
 * instruction, call it too often, or give other operands the second time. */
template <typename F> static bool run(const F &lane) {
    warp.is_good = true;
    for (int pass = 0; pass < 2; pass++) {
        warp.multiplies = pass == 1;
        for (threadIdx = { FIRST, 0, 0 }; threadIdx.x < FIRST + LANES; threadIdx.x++) {
            warp.n_calls = 0;
            lane();
            if (pass == 0 && threadIdx.x == FIRST) warp.n_calls_of_all = warp.n_calls;
            if (warp.n_calls != warp.n_calls_of_all) warp.is_good = false;
        }
    }
    return warp.is_good;
}

} // namespace kg_host_warp

template <typename A>
static void kg_mma_16x8x32_free(int (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                unsigned b1) {
    kg_host_warp::state &warp = kg_host_warp::warp;
    const unsigned lane = threadIdx.x % kg_host_warp::LANES, operands[6] = { a0, a1, a2, a3, b0, b1 };
    const int call = warp.n_calls++;
    if (call >= kg_host_warp::MAX_CALLS) {
        warp.is_good = false;
    } else if (!warp.multiplies) {
        memcpy(warp.given[call][lane], operands, sizeof operands);
    } else {
        if (memcmp(warp.given[call][lane], operands, sizeof operands) != 0) warp.is_good = false;
        kg_host_warp::multiply<A>(c, warp.given[call], lane);
    }
}

#endif
