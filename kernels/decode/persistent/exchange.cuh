/* How blocks of one launch exchange values: packets in global memory with flag and data in one word, as in the
 * low-latency (LL) protocol of NCCL.
 *
 * A packet is 64 bits: a value (low half) and the epoch of the layer that wrote it (high half). Stores and loads of 8
 * aligned bytes are single-copy atomic, so a reader that sees its epoch has the value, too. There is no fence, no
 * separate flag and no grid-wide barrier; a value takes one trip to L2 and one back. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_EXCHANGE_CUH
#define KIGO_KERNELS_DECODE_PERSISTENT_EXCHANGE_CUH

#include "kernels/ptx/memory.cuh"
#include <cuda_fp16.h>
#include <cstdint>

namespace kg_persistent {

__device__ __forceinline__ void publish(uint64_t *packet, uint32_t bits, uint32_t epoch) {
    kg_store_relaxed(packet, (uint64_t)epoch << 32 | bits);
}

__device__ __forceinline__ void publish(uint64_t *packet, float value, uint32_t epoch) {
    publish(packet, __float_as_uint(value), epoch);
}

/* Two neighbouring packets; each is atomic by itself. */
struct packet_pair {
    uint64_t low, high;
    __device__ __forceinline__ void load(const uint64_t *packets) {
        kg_load_relaxed(low, high, packets);
    }
    __device__ __forceinline__ bool is_from(uint32_t epoch) const {
        return (uint32_t)(low >> 32) == epoch && (uint32_t)(high >> 32) == epoch;
    }
    __device__ __forceinline__ float2 floats() const {
        return make_float2(__uint_as_float((uint32_t)low), __uint_as_float((uint32_t)high));
    }
    __device__ __forceinline__ uint2 bits() const {
        return make_uint2((uint32_t)low, (uint32_t)high);
    }
};

/* A packet that does not come means a broken device or program: after about ten seconds the launch fails. */
constexpr uint32_t MAX_POLLS = 1u << 24;

/* Long waits pause between polls: L2 has other work. */
__device__ __forceinline__ void count_poll(uint32_t &n_polls) {
    enum { IMPATIENT_POLLS = 4, PAUSE_NS = 20 };
    if (++n_polls > IMPATIENT_POLLS) __nanosleep(PAUSE_NS);
    if (n_polls > MAX_POLLS) __trap();
}

/* Waits until the N pairs of packets at, at + stride, ... are from the epoch. All loads are in flight together; past
 * the end (> 0) they repeat the last pair. */
template <int N>
__device__ __forceinline__ void wait_packet_pairs(packet_pair (&pair)[N], const uint64_t *packets, uint32_t at,
                                                  uint32_t stride, uint32_t end, uint32_t epoch) {
    uint32_t n_polls = 0;
    bool all = false;
    while (!all) {
        all = true;
#pragma unroll
        for (int k = 0; k < N; k++) pair[k].load(packets + 2 * min(at + k * stride, end - 1));
#pragma unroll
        for (int k = 0; k < N; k++) all = all && pair[k].is_from(epoch);
        if (!all) count_poll(n_polls);
    }
}

__device__ __forceinline__ uint32_t wait_packet(const uint64_t *packet, uint32_t epoch) {
    uint64_t bits;
    uint32_t n_polls = 0;
    bool there = false;
    while (!there) {
        bits = kg_load_relaxed(packet);
        there = (uint32_t)(bits >> 32) == epoch;
        if (!there) count_poll(n_polls);
    }
    return (uint32_t)bits;
}

/* Two packets at any addresses; both loads are in flight together. */
__device__ __forceinline__ uint2 wait_two_packets(const uint64_t *first, const uint64_t *second, uint32_t epoch) {
    uint64_t a, b;
    uint32_t n_polls = 0;
    bool there = false;
    while (!there) {
        a = kg_load_relaxed(first);
        b = kg_load_relaxed(second);
        there = (uint32_t)(a >> 32) == epoch && (uint32_t)(b >> 32) == epoch;
        if (!there) count_poll(n_polls);
    }
    return make_uint2((uint32_t)a, (uint32_t)b);
}

/* Activations of a packet. */
template <typename T> constexpr uint32_t PACKET_ELEMS = sizeof(uint32_t) / sizeof(T);

/* Element i of a vector, from the value of its packet. */
template <typename T> __device__ __forceinline__ float element(uint32_t bits, uint32_t i) {
    if constexpr (sizeof(T) == sizeof(__half))
        return __half2float(__ushort_as_half((unsigned short)(i % 2 ? bits >> 16 : bits)));
    else return __uint_as_float(bits);
}

} // namespace kg_persistent

#endif
