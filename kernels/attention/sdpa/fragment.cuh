/* Rows of a tile of attention in the registers of a warpgroup: masks, online softmax, the result.
 *
 * A warpgroup has 64 queries. A thread of warp w, g = lane / 4, t = lane % 4, has rows 16 w + g and 16 w + g + 8 (half
 * 0 and 1); of those, the columns 8 i + 2 t and 8 i + 2 t + 1 (as accumulators of products, wgmma.cuh). A row's four
 * threads are neighbours (a quad). */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_FRAGMENT_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_FRAGMENT_CUH

#include "kernels/attention/sdpa/call.h"
#include "kernels/ptx/math.cuh"
#include <math_constants.h>

namespace kg_sdpa {

constexpr float LOG2_E = 1.44269504f;

/* Params: hopper_params, or what else is a call_params; as the base class its members take other registers.
 *
 * The keys [begin, end) that any of the queries [first, first + n) sees, and those that all of them see. */
struct key_range {
    int begin, end, all_begin, all_end;

    template <typename Params> __device__ __forceinline__ key_range(const Params &p, int first, int n) {
        const int past = p.n_keys - p.n_queries, last = min(first + n, p.n_queries) - 1;
        begin = all_begin = 0;
        end = all_end = p.n_keys;
        if (p.causal) end = max(past + last + 1, 0), all_end = max(past + first + 1, 0);
        if (p.window > 0) begin = max(past + first - p.window + 1, 0), all_begin = max(past + last - p.window + 1, 0);
    }
};

/* The first and last key that each of the thread's two rows sees. */
template <typename Params>
__device__ __forceinline__ void row_limits(const Params &p, int row, int (&first)[2], int (&last)[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int position = p.n_keys - p.n_queries + row + 8 * half;
        first[half] = p.window > 0 ? position - p.window + 1 : 0;
        last[half] = p.causal ? min(position, p.n_keys - 1) : p.n_keys - 1;
    }
}

/* Item w of the n_row_tiles * n_heads * n_batch, and the tiles of keys it needs; causal ones longest first. */
template <typename Shape> struct work_item {
    int head, batch, first, tile_begin, tile_end;
    template <typename Params> __device__ __forceinline__ work_item(const Params &p, int w) {
        const int planes = p.n_heads * p.n_batch;
        int plane, row_tile;
        if (p.causal) row_tile = p.n_row_tiles - 1 - w / planes, plane = w % planes;
        else row_tile = w % p.n_row_tiles, plane = w / p.n_row_tiles;
        head = plane % p.n_heads;
        batch = plane / p.n_heads;
        first = row_tile * Shape::QUERIES;
        const key_range keys(p, first, Shape::QUERIES);
        tile_begin = keys.begin / Shape::KEYS;
        tile_end = (keys.end + Shape::KEYS - 1) / Shape::KEYS;
    }
};

/* Of both rows of a thread: the reference that weights are relative to (a score of the row), and the sum of weights (of
 * what the thread has of the row). A reference of -inf: no key has been seen. */
struct row_sums {
    float reference[2], weight[2];

    __device__ __forceinline__ void clear() {
        reference[0] = reference[1] = -CUDART_INF_F;
        weight[0] = weight[1] = 0;
    }
};

/* Scores of keys outside [first, last] of the thread's rows become -inf; key: of column 0. */
template <int N>
__device__ __forceinline__ void mask_scores(float (&score)[N], int key, const int (&first)[2], const int (&last)[2]) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < N / 4; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int at = key + 8 * i + 2 * t + e % 2;
            if (at < first[e / 2] || at > last[e / 2]) score[4 * i + e] = -CUDART_INF_F;
        }
}

/* From here on a score of so many powers of two costs the fused product too many bits: scores are shifted first. */
constexpr float LARGE_EXPONENT = 4096;
/* The most that a thread's weights of a row and a tile may sum up to: none is beyond f16's range then. */
constexpr float MOST_WEIGHT = 32768;

/* weight = 2^((score - reference) scale), rounded to f16, as left operands: word 4 k .. for keys 16 k to 16 k + 15;
 * sum: of both rows, of what the thread has. */
template <int N>
__device__ __forceinline__ void make_weights(const row_sums &r, const float (&score)[N], unsigned (&weight)[N / 2],
                                             float (&sum)[2], float scale) {
    constexpr int CHAINS = 2; /* sums of each row, side by side */
    float chain[2][CHAINS];
    const float shift[2] = { r.reference[0] * scale, r.reference[1] * scale };
#pragma unroll
    for (int i = 0; i < N / 2; i++) { /* word i: row half i % 2 */
        const int half = i % 2;
        const float low = kg_exp2_fast(fmaf(score[2 * i], scale, -shift[half])),
                    high = kg_exp2_fast(fmaf(score[2 * i + 1], scale, -shift[half]));
        chain[half][0] = i < 2 ? low : chain[half][0] + low;
        chain[half][1] = i < 2 ? high : chain[half][1] + high;
        weight[i] = kg_convert_to_halves(low, high);
    }
    sum[0] = chain[0][0] + chain[0][1], sum[1] = chain[1][0] + chain[1][1];
}

/* Of each row, whether it holds in all its threads. */
__device__ __forceinline__ void whole_rows(bool (&holds)[2]) {
    const int quad = threadIdx.x % 32 / 4 * 4;
#pragma unroll
    for (int half = 0; half < 2; half++) holds[half] = (__ballot_sync(0xFFFFFFFF, holds[half]) >> quad & 0xF) == 0xF;
}

/* make_weights by the references there are, for the whole warp; false, and sums stay as they are, if a row has none, or
 * one too large for the fused product, or a weight that is out of range. good: of the thread's part of each row. */
template <int N>
__device__ __forceinline__ bool try_weights(row_sums &r, const float (&score)[N], unsigned (&weight)[N / 2],
                                            float scale, bool (&good)[2]) {
    float sum[2];
    make_weights(r, score, weight, sum, scale);
    const float limit = LARGE_EXPONENT / scale;
#pragma unroll
    for (int half = 0; half < 2; half++) good[half] = sum[half] <= MOST_WEIGHT && fabsf(r.reference[half]) <= limit;
    const bool all_good = __all_sync(0xFFFFFFFF, good[0] && good[1]);
    if (all_good) r.weight[0] += sum[0], r.weight[1] += sum[1];
    return all_good;
}

/* The references become the rows' largest scores so far, but of rows to keep; what was summed before is to be
 * multiplied by shrink. Scores become relative to them if they are too large for the fused product, and so does the
 * reference for make_weights. */
template <int N>
__device__ __forceinline__ row_sums new_reference(row_sums &r, float (&score)[N], float (&shrink)[2], float scale,
                                                  const bool (&keep)[2]) {
    constexpr int CHAINS = 4;
    float largest[2][CHAINS];
#pragma unroll
    for (int i = 0; i < N / 2; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float s = score[i / 2 * 4 + 2 * half + i % 2];
            largest[half][i % CHAINS] = i < CHAINS ? s : fmaxf(largest[half][i % CHAINS], s);
        }
#pragma unroll
    for (int half = 0; half < 2; half++)
        largest[half][0] = fmaxf(fmaxf(fmaxf(largest[half][0], largest[half][1]), r.reference[half]),
                                 fmaxf(largest[half][2], largest[half][3]));
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2)
#pragma unroll
        for (int half = 0; half < 2; half++)
            largest[half][0] = fmaxf(largest[half][0], __shfl_xor_sync(0xFFFFFFFF, largest[half][0], lanes));
    row_sums relative = r;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (keep[half]) largest[half][0] = r.reference[half];
        const float zero = largest[half][0] == -CUDART_INF_F ? 0.0f : largest[half][0];
        shrink[half] = kg_exp2_fast((r.reference[half] - zero) * scale);
        r.reference[half] = largest[half][0];
        r.weight[half] *= shrink[half];
        relative.reference[half] = zero;
        if (fabsf(zero) * scale > LARGE_EXPONENT) {
            relative.reference[half] = 0;
#pragma unroll
            for (int i = 0; i < N / 4; i++) score[4 * i + 2 * half] -= zero, score[4 * i + 2 * half + 1] -= zero;
        }
    }
    return relative;
}

/* Both in one: the weights of scores relative to the largest so far, but of rows to keep. A row's bits do not hang on
 * what the warp's other rows need. */
template <int N>
__device__ __forceinline__ void softmax_exact(row_sums &r, float (&score)[N], unsigned (&weight)[N / 2],
                                              float (&shrink)[2], float scale, const bool (&keep)[2]) {
    float sum[2];
    const row_sums relative = new_reference(r, score, shrink, scale, keep);
    make_weights(relative, score, weight, sum, scale);
    r.weight[0] += sum[0], r.weight[1] += sum[1];
}

template <int N> __device__ __forceinline__ void scale_rows(float (&value)[N], const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < N / 4; i++) {
        value[4 * i] *= factor[0], value[4 * i + 1] *= factor[0];
        value[4 * i + 2] *= factor[1], value[4 * i + 3] *= factor[1];
    }
}

/* What follows where try_weights is false: relative to the largest scores so far, but of rows that are good. */
template <int N, int M>
__device__ __forceinline__ void redo_weights(row_sums &r, float (&score)[N], unsigned (&weight)[N / 2],
                                             float (&value)[M], float scale, bool (&good)[2]) {
    float shrink[2];
    whole_rows(good);
    softmax_exact(r, score, weight, shrink, scale, good);
    scale_rows(value, shrink);
}

/* The thread's values of columns 8 i to 8 i + 7, of both rows. */
template <int N> __device__ __forceinline__ float4 vector_of(const float (&value)[N], int i) {
    return make_float4(value[4 * i], value[4 * i + 1], value[4 * i + 2], value[4 * i + 3]);
}

/* The whole row's sum of weights in each of its threads. */
__device__ __forceinline__ float row_weight(float weight) {
    weight += __shfl_xor_sync(0xFFFFFFFF, weight, 1);
    return weight + __shfl_xor_sync(0xFFFFFFFF, weight, 2);
}

/* What the row's values are to be multiplied by, with the head's sink, a logit in powers of two (-inf: none). */
__device__ __forceinline__ float row_share(float reference, float weight, float scale, float sink) {
    const float share =
        kg_reciprocal_fast(weight + kg_exp2_fast(sink - reference * scale)); /* no branch: a merge waits */
    return reference == -CUDART_INF_F ? 0.0f : share;
}

/* What the values of N parts of a row's keys are to be multiplied by to be merged, parts in their order. part:
 * references and whole sums of weights; unit: of the values. */
template <int N>
__device__ __forceinline__ void merge_factors(float (&factor)[N], const float2 (&part)[N], float scale, float sink,
                                              float unit) {
    float reference = part[0].x, total = 0;
#pragma unroll
    for (int i = 1; i < N; i++) reference = fmaxf(reference, part[i].x);
    const float zero = reference == -CUDART_INF_F ? 0.0f : reference;
#pragma unroll
    for (int i = 0; i < N; i++) {
        factor[i] = kg_exp2_fast((part[i].x - zero) * scale);
        total = i == 0 ? part[i].y * factor[i] : fmaf(part[i].y, factor[i], total);
    }
    const float share = unit * row_share(reference, total, scale, sink);
#pragma unroll
    for (int i = 0; i < N; i++) factor[i] *= share;
}

/* A quad's four words of four groups (word i of group j in thread i) to thread i having group i's four words. */
__device__ __forceinline__ void transpose_quad(unsigned (&w)[4]) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int bit = 2; bit > 0; bit /= 2) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            const bool upper = t & bit;
            const unsigned give = upper ? w[i] : w[i | bit];
            const unsigned got = __shfl_xor_sync(0xFFFFFFFF, give, bit);
            if (upper) w[i] = got;
            else w[i | bit] = got;
        }
    }
}

/* Stores the values of both rows, 16 bytes at a time; `row` is the first of the thread's two. */
template <int N>
__device__ __forceinline__ void store_rows(__half *y, uint64_t row_stride, int row, int n_rows, int head_dim,
                                           const float (&value)[N]) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = row + 8 * half;
#pragma unroll
        for (int i = 0; i < N / 4; i += 4) { /* 32 columns */
            unsigned w[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                w[j] = kg_convert_to_halves(value[4 * (i + j) + 2 * half], value[4 * (i + j) + 2 * half + 1]);
            transpose_quad(w);
            const int d = 8 * (i + t);
            if (r < n_rows && d < head_dim)
                *reinterpret_cast<uint4 *>(y + r * row_stride + d) = make_uint4(w[0], w[1], w[2], w[3]);
        }
    }
}

} // namespace kg_sdpa

#endif
