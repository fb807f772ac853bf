/* A block of the persistent kernel: its warps, its shared memory, its share of a product, and how it receives a vector
 * that other blocks computed. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_BLOCK_CUH
#define KIGO_KERNELS_DECODE_PERSISTENT_BLOCK_CUH

#include "kernels/decode/persistent/exchange.cuh"
#include "kernels/decode/persistent/program.h"
#include "kernels/decode/persistent/ring.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/ptx/compiler.cuh"

namespace kg_persistent {

enum {
    WARP = 32,
    CONSUMER_WARPS = 14, /* 16 warps with the two others: 128 registers a thread */
    CONSUMERS = CONSUMER_WARPS * WARP,
    PRODUCER_WARP = CONSUMER_WARPS, /* fills the ring with weights */
    PREFETCH_WARP,                  /* prefetches norm weights, biases, and cos/sin of the position */
    N_WARPS,
    THREADS = N_WARPS * WARP,
    CONSUMER_BARRIER = 1,
    BATCH_ROWS = 256, /* weight rows whose sums have one epilogue */
    MAX_GROUP = KG_PERSISTENT_MAX_GROUP
};

/* A block's part of a product: outputs [begin, begin + n), and how their weight rows go through the ring. */
struct part {
    uint32_t begin, n;
    uint32_t n_rows; /* weight rows: n, or 2 n where gated */
    uint32_t n_cols, slot_rows, piece_cols, block_bits;
};

/* Per warp, for the query heads of a KV head: largest score, sum of weights. */
struct attention_shared {
    float largest[MAX_GROUP][CONSUMER_WARPS], weight[MAX_GROUP][CONSUMER_WARPS];
};

/* The counters of a consumer warp. */
struct counters {
    uint32_t layer, n_params, slot, parity;
};

/* D is head_dim, rounded up. */
template <typename T, int D> struct __align__(16) block_shared {
    attention_shared attention;
    T q[MAX_GROUP][D], k_new[D], v_new[D]; /* zeros past the number of heads and head_dim */
    float2 cos_sin[D / 2];                 /* cosine, sine */
    float sums[CONSUMER_WARPS];
    float residual[BATCH_ROWS]; /* the block's part of the residual stream, an element a thread */
    counters saved[CONSUMER_WARPS];
    part parts[KG_PERSISTENT_PRODUCTS];
    uint32_t merge_begin, merge_n; /* pairs of elements of attention whose splits this block merges */
    uint64_t cos_sin_full, params_full[2], params_empty[2];
};

/* Behind block_shared: partial sums of the warps. */
constexpr uint32_t PARTIAL_SUMS = CONSUMER_WARPS * BATCH_ROWS;

/* The warps' values of a KV head's query heads: during attention, in the place of the vector of a product. */
inline uint32_t partial_values(uint32_t group, uint32_t dim) {
    return CONSUMER_WARPS * group * dim;
}

template <typename T, int D> struct consumer {
    const kg_persistent_program &p;
    block_shared<T, D> &s;
    uint32_t n_params; /* products so far */
    ring slots;
    uint32_t thread, warp, lane;
    uint32_t layer;

    __device__ __forceinline__ void sync() const { /* all consumer warps of the block */
        kg_barrier_sync(CONSUMER_BARRIER, CONSUMERS);
    }

    /* An address in the block's memory, computed at each use: opaque, or the compiler would keep it in a register
     * through all layers. */
    template <typename U> __device__ __forceinline__ U *at(uint32_t offset) const {
        return reinterpret_cast<U *>(reinterpret_cast<unsigned char *>(&s) + kg_opaque(offset));
    }

    /* shared: the vector that the next product reads */
    __device__ __forceinline__ T *x() const {
        return at<T>(p.shared.x);
    }

    /* shared: of this product */
    __device__ __forceinline__ const float *norm_weight() const {
        return at<const float>(p.shared.norm);
    }
    __device__ __forceinline__ const float *biases() const {
        return at<const float>(p.shared.biases + n_params % 2 * p.shared.bias_bytes);
    }

    /* shared: sums of `of_warp` of a batch's rows */
    __device__ __forceinline__ float *sums(uint32_t of_warp) const {
        return reinterpret_cast<float *>(&s + 1) + of_warp * BATCH_ROWS;
    }

    /* shared: values (D) of `of_warp` of head h of the group */
    __device__ __forceinline__ float *values(uint32_t of_warp, uint32_t h) const {
        return at<float>(p.shared.x) + (of_warp * p.group + h) * D;
    }

    /* Makes the thread's indices opaque: else the compiler keeps a layer's many addresses in registers from one layer
     * to the next. */
    __device__ __forceinline__ void make_opaque() {
        kg_make_opaque(thread, warp, lane);
    }

    /* Moves the warp's counters to shared memory and back, so that attention has their registers. */
    __device__ __forceinline__ void save_counters() const {
        if (lane == 0) s.saved[warp] = { layer, n_params, slots.slot, slots.parity };
        __syncwarp(); /* visible to all lanes */
    }
    __device__ __forceinline__ void restore_counters() {
        thread = kg_opaque(threadIdx.x), warp = thread / WARP, lane = thread % WARP;
        const volatile counters &of = s.saved[warp];
        layer = of.layer, n_params = of.n_params, slots.slot = of.slot, slots.parity = of.parity;
    }
};

/* Rows of a slot that begins with weight row `first` of n: slots do not cross batches. */
__device__ __forceinline__ uint32_t rows_of_slot(const part &m, uint32_t first) {
    return min(min(m.slot_rows, m.n_rows - first), BATCH_ROWS - first % BATCH_ROWS);
}

/* The first of n_rows rows of block `index`, where `unit` rows stay together. */
__device__ __forceinline__ uint32_t begin_of(uint32_t index, uint32_t n_rows, uint32_t unit) {
    return (uint32_t)(index * (uint64_t)(n_rows / unit) / gridDim.x) * unit;
}

__device__ __forceinline__ part part_of(const kg_persistent_matrix &m) {
    const uint32_t begin = begin_of(blockIdx.x, m.n_rows, m.unit);
    const uint32_t n = begin_of(blockIdx.x + 1, m.n_rows, m.unit) - begin;
    return { begin, n, n * m.weight_rows, m.n_cols, m.slot_rows, m.piece_cols, m.block_bits };
}

template <typename T> __device__ __forceinline__ float rounded(float value) {
    if constexpr (sizeof(T) == sizeof(__half)) return __half2float(__float2half_rn(value));
    else return value;
}

__device__ __forceinline__ void put_pair(__half *x, uint32_t i, float low, float high) {
    reinterpret_cast<__half2 *>(x)[i] = __floats2half2_rn(low, high);
}

__device__ __forceinline__ void put_pair(float *x, uint32_t i, float low, float high) {
    reinterpret_cast<float2 *>(x)[i] = make_float2(low, high);
}

__device__ __forceinline__ float2 get_pair(const __half *x, uint32_t i) {
    return __half22float2(reinterpret_cast<const __half2 *>(x)[i]);
}

__device__ __forceinline__ float2 get_pair(const float *x, uint32_t i) {
    return reinterpret_cast<const float2 *>(x)[i];
}

/* Index of elements 2i and 2i + 1 of a product's vector in c.x. Float16: of 16 pairs, the four (4 apart) that a lane
 * multiplies in a step are neighbours (matrix.cuh). */
template <typename T> __device__ __forceinline__ uint32_t place_of_pair(uint32_t i) {
    return sizeof(T) == sizeof(__half) ? (i & ~15u) | (i & 3) << 2 | (i >> 2 & 3) : i;
}

/* Packets 2i and 2i + 1 of a vector to c.x. */
__device__ __forceinline__ void put_packets(__half *x, uint32_t i, uint2 bits) {
    reinterpret_cast<uint32_t *>(x)[place_of_pair<__half>(2 * i)] = bits.x;
    reinterpret_cast<uint32_t *>(x)[place_of_pair<__half>(2 * i + 1)] = bits.y;
}

__device__ __forceinline__ void put_packets(float *x, uint32_t i, uint2 bits) {
    reinterpret_cast<uint2 *>(x)[i] = bits;
}

/* 1 / sqrt(mean of squares + eps) from each thread's sum of squares. Added by lanes, then warps, in order, the same in
 * every block. */
template <typename T, int D> __device__ __forceinline__ float inverse_rms(const consumer<T, D> &c, float squares) {
#pragma unroll
    for (int mask = WARP / 2; mask > 0; mask /= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, mask);
    if (c.lane == 0) c.s.sums[c.warp] = squares;
    c.sync(); /* all warps' sums are visible */
    float total = 0;
#pragma unroll
    for (int i = 0; i < CONSUMER_WARPS; i++) total += c.s.sums[i];
    return 1.0f / sqrtf(total / (float)c.p.n_embd + c.p.norm_eps);
}

/* Elements 2i and 2i + 1 of the vector to normalise: from `row`, or packets of the epoch if it is NULL. */
__device__ __forceinline__ float2 wait_row(const __half *row, const uint64_t *packets, uint32_t i, uint32_t epoch) {
    if (row) return get_pair(row, i);
    const uint32_t bits = wait_packet(packets + i, epoch);
    return make_float2(element<__half>(bits, 0), element<__half>(bits, 1));
}

__device__ __forceinline__ float2 wait_row(const float *row, const uint64_t *packets, uint32_t i, uint32_t epoch) {
    if (row) return get_pair(row, i);
    packet_pair got[1];
    wait_packet_pairs(got, packets, i, 0, i + 1, epoch);
    return got[0].floats();
}

/* Copies a long vector to c.x; the sum of squares of this thread's elements. A thread has the pairs of packets at `at`,
 * at + CONSUMERS, .... */
template <typename T, int D>
__device__ __forceinline__ float fetch_row(const consumer<T, D> &c, const T *row, const uint64_t *packets,
                                           uint32_t epoch) {
    constexpr int PAIRS = sizeof(T) == sizeof(__half) ? 2 : 4; /* in flight together */
    const uint32_t n_pairs = c.p.n_embd / (2 * PACKET_ELEMS<T>);
    T *x = c.x();
    float squares = 0;
#pragma unroll 1
    for (uint32_t at = c.thread; at < n_pairs; at += PAIRS * CONSUMERS) {
        packet_pair got[PAIRS];
        if (!row) wait_packet_pairs(got, packets, at, CONSUMERS, n_pairs, epoch);
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            const uint32_t i = at + k * CONSUMERS;
            if (i >= n_pairs) break;
            const uint2 bits = row ? reinterpret_cast<const uint2 *>(row)[i] : got[k].bits();
            put_packets(x, i, bits);
#pragma unroll
            for (uint32_t e = 0; e < PACKET_ELEMS<T>; e++) {
                const float low = element<T>(bits.x, e), high = element<T>(bits.y, e);
                squares = fmaf(low, low, fmaf(high, high, squares));
            }
        }
    }
    return squares;
}

/* c.x = v * weight / rms(v). */
template <typename T, int D>
__device__ __forceinline__ void stage_norm(const consumer<T, D> &c, const T *row, const uint64_t *packets,
                                           uint32_t epoch) {
    const uint32_t n_pairs = c.p.n_embd / 2;
    T *x = c.x();
    if (n_pairs <= CONSUMERS) { /* a pair of elements a thread */
        const bool active = c.thread < n_pairs;
        const float2 v = active ? wait_row(row, packets, c.thread, epoch) : make_float2(0, 0);
        const float inverse = inverse_rms(c, fmaf(v.x, v.x, v.y * v.y));
        if (active) {
            const float2 w = get_pair(c.norm_weight(), c.thread);
            put_pair(x, place_of_pair<T>(c.thread), v.x * inverse * w.x, v.y * inverse * w.y);
        }
    } else { /* v is in x meanwhile */
        const float inverse = inverse_rms(c, fetch_row(c, row, packets, epoch));
        const float *weight = c.norm_weight();
#pragma unroll 1
        for (uint32_t i = c.thread; i < n_pairs; i += CONSUMERS) {
            const uint32_t place = place_of_pair<T>(i);
            const float2 v = get_pair(x, place), w = get_pair(weight, i);
            put_pair(x, place, v.x * inverse * w.x, v.y * inverse * w.y);
        }
    }
    c.sync(); /* x is visible to all */
}

/* c.x = n_elems (a multiple of 4) activations of the epoch. */
template <typename T, int D>
__device__ __forceinline__ void stage_packets(const consumer<T, D> &c, const uint64_t *packets, uint32_t n_elems,
                                              uint32_t epoch) {
    constexpr int PAIRS = 3;
    const uint32_t n_pairs = n_elems / (2 * PACKET_ELEMS<T>);
    T *x = c.x();
    for (uint32_t at = c.thread; at < n_pairs; at += PAIRS * CONSUMERS) {
        packet_pair got[PAIRS];
        wait_packet_pairs(got, packets, at, CONSUMERS, n_pairs, epoch);
#pragma unroll
        for (int k = 0; k < PAIRS; k++)
            if (at + k * CONSUMERS < n_pairs) put_packets(x, at + k * CONSUMERS, got[k].bits());
    }
    c.sync(); /* x is visible to all */
}

} // namespace kg_persistent

#endif
