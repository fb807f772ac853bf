/* How blocks of one launch hand values to one another: 64-bit words in global memory that carry their own proof of
 * being new.
 *
 * A word is a value (low 32 bits) and the number of the run that wrote it (high 32 bits). Stores and loads of 8 aligned
 * bytes are single-copy atomic, so a reader that sees the number it waits for has the value too: no fence, no flag
 * beside the data and no grid-wide barrier; one trip to the second-level cache and one back. (The idea is that of the
 * LL protocol of NCCL.) */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_EXCHANGE_CUH
#define KIGO_KERNELS_DECODE_PERSISTENT_EXCHANGE_CUH

#include <cuda_fp16.h>
#include <cstdint>

namespace kg_persistent {

__device__ __forceinline__ void publish(uint64_t *word, uint32_t bits, uint32_t run) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"((uint64_t)run << 32 | bits) : "memory");
}

__device__ __forceinline__ void publish(uint64_t *word, float value, uint32_t run) {
    publish(word, __float_as_uint(value), run);
}

/* Two neighbouring words; each is atomic by itself. */
struct word_pair {
    uint64_t low, high;
    __device__ __forceinline__ void load(const uint64_t *words) {
        asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(words) : "memory");
    }
    __device__ __forceinline__ bool is_of(uint32_t run) const {
        return (uint32_t)(low >> 32) == run && (uint32_t)(high >> 32) == run;
    }
    __device__ __forceinline__ float2 floats() const {
        return make_float2(__uint_as_float((uint32_t)low), __uint_as_float((uint32_t)high));
    }
    __device__ __forceinline__ uint2 bits() const {
        return make_uint2((uint32_t)low, (uint32_t)high);
    }
};

/* A word that never comes means a broken device or program: about ten seconds, then the launch fails. */
constexpr uint32_t MOST_POLLS = 1u << 24;

/* Who waits long leaves the second-level cache to those who work. */
__device__ __forceinline__ void count_poll(uint32_t &n_polls) {
    enum { IMPATIENT_POLLS = 4, PAUSE_NS = 20 };
    if (++n_polls > IMPATIENT_POLLS) __nanosleep(PAUSE_NS);
    if (n_polls > MOST_POLLS) __trap();
}

/* Waits until the N pairs of words at, at + stride, ... are of the run; all loads are under way together. Past the end
 * (> 0) it is the last pair. */
template <int N>
__device__ __forceinline__ void wait_pairs(word_pair (&pair)[N], const uint64_t *words, uint32_t at, uint32_t stride,
                                           uint32_t end, uint32_t run) {
    uint32_t n_polls = 0;
    bool all = false;
    while (!all) {
        all = true;
#pragma unroll
        for (int k = 0; k < N; k++) pair[k].load(words + 2 * min(at + k * stride, end - 1));
#pragma unroll
        for (int k = 0; k < N; k++) all = all && pair[k].is_of(run);
        if (!all) count_poll(n_polls);
    }
}

__device__ __forceinline__ uint32_t wait_bits(const uint64_t *word, uint32_t run) {
    uint64_t bits;
    uint32_t n_polls = 0;
    bool there = false;
    while (!there) {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(word) : "memory");
        there = (uint32_t)(bits >> 32) == run;
        if (!there) count_poll(n_polls);
    }
    return (uint32_t)bits;
}

__device__ __forceinline__ float wait_word(const uint64_t *word, uint32_t run) {
    return __uint_as_float(wait_bits(word, run));
}

/* Two words anywhere; both loads are under way together. */
__device__ __forceinline__ uint2 wait_two(const uint64_t *first, const uint64_t *second, uint32_t run) {
    uint64_t a, b;
    uint32_t n_polls = 0;
    bool there = false;
    while (!there) {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(a) : "l"(first) : "memory");
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(b) : "l"(second) : "memory");
        there = (uint32_t)(a >> 32) == run && (uint32_t)(b >> 32) == run;
        if (!there) count_poll(n_polls);
    }
    return make_uint2((uint32_t)a, (uint32_t)b);
}

/* How many activations a word holds, and which they are. */
template <typename T> constexpr uint32_t WORD_ELEMS = sizeof(uint32_t) / sizeof(T);

/* Element i, of the word that has it. */
template <typename T> __device__ __forceinline__ float element(uint32_t bits, uint32_t i) {
    if constexpr (sizeof(T) == sizeof(__half))
        return __half2float(__ushort_as_half((unsigned short)(i % 2 ? bits >> 16 : bits)));
    else return __uint_as_float(bits);
}

} // namespace kg_persistent

#endif
