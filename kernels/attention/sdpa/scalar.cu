/* sdpa, variant scalar: online softmax in float32 on the CUDA cores (contract in ops/sdpa.h). Any head size up to
 * 256, any strides and lengths: the plain twin of the reference that the faster variants are measured against.
 *
 *     y[i] = sum_j exp(s[i][j] - m) v[j] / (sum_j exp(s[i][j] - m) + exp(sink - m)),   s[i][j] = scale q[i] . k[j]
 *
 * Threads to data: a block is WARPS warps, a warp a query. The queries of a block share a KV head: query `item` of it
 * is row item / group of head item % group, so that grouped heads of a single row fill a block as well as many rows do.
 * Keys and values come in tiles of 32, staged in shared memory as halves (E4M3 and int8 numbers are halves without
 * their scale). Lane l has the score of key l, by a product over the whole head; the weights then go round by shuffles,
 * and the lane sums dimensions l, l + 32, ... of the values. Rows of keys are an odd number of words apart: 32 lanes,
 * 32 banks.
 *
 * Numerics: float32 in one order a shape: each score a chain of head_dim fused products, the maximum and the weights'
 * sum a butterfly over the tile, values in the order of keys. Only keys that the query sees are summed, whatever lies
 * beside them. A query that sees none keeps a maximum of -infinity and gives zeros. */
#include "kernels/block/reduce.cuh"
#include "kernels/attention/sdpa/fragment.cuh"
#include <cuda_fp8.h>
#include <limits.h>

constexpr uint32_t WARPS = 8, MAX_HEAD_DIM = 256;
constexpr int KEYS = KG_WARP;
static_assert(WARPS * KG_WARP == 256, "eight queries a block");

struct scalar_call : kg_sdpa::call_params {
    struct kg_sdpa_args args;
    uint32_t n_items;  /* queries of a KV head */
    uint32_t n_blocks; /* of a KV head */
    uint32_t k_words;  /* of a staged row of keys, odd */
};

static __device__ __forceinline__ __half to_half(__half x) {
    return x;
}

static __device__ __forceinline__ __half to_half(uint8_t e4m3) {
    return __half(__nv_cvt_fp8_to_halfraw(e4m3, __NV_E4M3));
}

static __device__ __forceinline__ __half to_half(int8_t x) {
    return __short2half_rn(x);
}

/* Rows [begin, begin + KEYS) of a head to shared memory, `pitch` halves apart; those from `end` on become zeros, and so
 * does the half after a row of odd length. */
template <typename T>
static __device__ __forceinline__ void stage(const T *from, uint64_t stride, uint32_t begin, uint32_t end,
                                             uint32_t head_dim, uint32_t pitch, __half *to) {
    const uint32_t even = (head_dim + 1) / 2 * 2;
    for (uint32_t i = threadIdx.x; i < KEYS * even; i += WARPS * KG_WARP) {
        const uint32_t row = i / even, d = i % even;
        const bool there = begin + row < end && d < head_dim;
        to[row * pitch + d] = there ? to_half(from[(begin + row) * stride + d]) : __half(0);
    }
}

/* q: the query as floats, in shared memory. k: the lane's key. */
static __device__ __forceinline__ float score_of(const float2 *q, const __half2 *k, uint32_t head_dim) {
    float score = 0;
    for (uint32_t w = 0; w < (head_dim + 1) / 2; w++) {
        const float2 key = __half22float2(k[w]);
        score = fmaf(q[w].x, key.x, score);
        score = fmaf(q[w].y, key.y, score);
    }
    return score;
}

/* PER_LANE dimensions a lane. */
template <typename T, int PER_LANE>
static __global__ void __launch_bounds__(WARPS *KG_WARP) sdpa_scalar_kernel(const struct scalar_call c) {
    extern __shared__ float2 shared[];
    const struct kg_sdpa_args &a = c.args;
    const uint32_t lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP, head_dim = a.head_dim;
    const uint32_t plane = blockIdx.x / c.n_blocks, batch = plane / a.n_kv_heads, kv_head = plane % a.n_kv_heads;
    const uint32_t first_item = blockIdx.x % c.n_blocks * WARPS, item = first_item + warp;
    const uint32_t last_item = min(first_item + WARPS, c.n_items) - 1;
    const uint32_t row = item / c.group, head = kv_head * c.group + item % c.group;
    const bool is_query = item < c.n_items;
    float2 *q = shared + warp * ((head_dim + 1) / 2);
    __half *k = (__half *)(shared + WARPS * ((head_dim + 1) / 2)), *v = k + KEYS * c.k_words * 2;

    /* What the warp's query sees, and what any query of the block does. */
    const int first_row = first_item / c.group, n_rows = last_item / c.group - first_row + 1;
    const kg_sdpa::key_range mine(c, row, 1), any(c, first_row, n_rows);
    const int first = mine.begin, last = is_query ? mine.end : 0;

    if (is_query) {
        const T *from = (const T *)a.q + batch * a.q_strides.batch + head * a.q_strides.head + row * a.q_strides.row;
        for (uint32_t d = lane; d < (head_dim + 1) / 2 * 2; d += KG_WARP)
            ((float *)q)[d] = d < head_dim ? __half2float(to_half(from[d])) : 0.0f;
    }
    const T *keys = (const T *)a.k + batch * a.k_strides.batch + kv_head * a.k_strides.head;
    const T *values = (const T *)a.v + batch * a.v_strides.batch + kv_head * a.v_strides.head;
    const float scale =
        a.q_scale ? a.scale * a.q_scale[batch * a.n_heads + min(head, a.n_heads - 1)] * a.k_scale[plane] : a.scale;
    float largest = -CUDART_INF_F, weight = 0, sum[PER_LANE] = {};
    for (int tile = any.begin / KEYS * KEYS; tile < any.end; tile += KEYS) {
        __syncthreads(); /* the last tile has been read */
        stage(keys, a.k_strides.row, tile, any.end, head_dim, c.k_words * 2, k);
        stage(values, a.v_strides.row, tile, any.end, head_dim, (head_dim + 1) / 2 * 2, v);
        __syncthreads(); /* tile, and before the first the queries, are visible */
        const int from = max(first, tile), to = min(last, tile + KEYS); /* of the tile's keys, those it sees */
        if (from >= to) continue;
        const int at = tile + (int)lane;
        const bool seen = at >= from && at < to;
        const float score = seen ? score_of(q, (const __half2 *)k + lane * c.k_words, head_dim) * scale : -CUDART_INF_F;
        const float next = fmaxf(largest, kg_warp_reduce<kg_max>(score));
        const float shrink = expf(largest - next); /* 0 before the first key */
        const float p = seen ? expf(score - next) : 0.0f;
        weight = weight * shrink + kg_warp_reduce<kg_sum>(p);
        largest = next;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) sum[i] *= shrink;
        for (int j = from - tile; j < to - tile; j++) {
            const float pj = __shfl_sync(0xFFFFFFFF, p, j);
            const __half *value = v + j * ((head_dim + 1) / 2 * 2);
#pragma unroll
            for (int i = 0; i < PER_LANE; i++) {
                const uint32_t d = lane + i * KG_WARP;
                if (d < head_dim) sum[i] = fmaf(pj, __half2float(value[d]), sum[i]);
            }
        }
    }
    if (!is_query) return;

    float share = 0;
    if (first < last) {
        const float sink = a.sinks ? a.sinks[head] : -CUDART_INF_F, most = fmaxf(largest, sink);
        const float shrink = expf(largest - most);
        share = __fdiv_rn(shrink, weight * shrink + expf(sink - most));
    }
    if (a.v_scale) share *= a.v_scale[plane];
    __half *y = (__half *)a.y + batch * a.y_strides.batch + head * a.y_strides.head + row * a.y_strides.row;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        const uint32_t d = lane + i * KG_WARP;
        if (d < head_dim) y[d] = __float2half_rn(sum[i] * share);
    }
}

static uint64_t blocks_of(const struct kg_sdpa_args *args) {
    const uint64_t n_items = (uint64_t)args->n_queries * (args->n_heads / args->n_kv_heads);
    return (n_items + WARPS - 1) / WARPS * args->n_batch * args->n_kv_heads;
}

const char *kg_sdpa_scalar_refuses(const struct kg_cuda_backend *, const struct kg_sdpa_args *args) {
    static_assert(MAX_HEAD_DIM == 256, "the message names it");
    if (args->head_dim > MAX_HEAD_DIM) return "heads are larger than 256";
    if ((uint64_t)args->n_queries * (args->n_heads / args->n_kv_heads) > UINT32_MAX - WARPS ||
        blocks_of(args) > INT_MAX)
        return "more than 2^31 - 1 blocks of 8 queries";
    return NULL;
}

template <typename T> static void launch(cudaStream_t stream, const struct kg_sdpa_args *args) {
    const uint32_t n_items = args->n_queries * (args->n_heads / args->n_kv_heads);
    const uint32_t words = (args->head_dim + 1) / 2, k_words = words | 1;
    const struct scalar_call call = { kg_sdpa::call_params_make(args, 1), *args, n_items, (n_items + WARPS - 1) / WARPS,
                                      k_words };
    const size_t shared_bytes = WARPS * words * sizeof(float2) + KEYS * (k_words + words) * sizeof(__half2);
    constexpr uint32_t WIDTHS[] = { 64, 96, 128, MAX_HEAD_DIM };
    static_assert((KEYS * (MAX_HEAD_DIM + 1) * sizeof(__half2)) + WARPS * MAX_HEAD_DIM * sizeof(float) <= 48 * 1024,
                  "shared memory that every block may have");
    void (*const kernels[])(struct scalar_call) = { sdpa_scalar_kernel<T, 2>, sdpa_scalar_kernel<T, 3>,
                                                    sdpa_scalar_kernel<T, 4>, sdpa_scalar_kernel<T, 8> };
    size_t width = 0;
    while (WIDTHS[width] < args->head_dim) width++;
    kernels[width]<<<(unsigned)blocks_of(args), WARPS * KG_WARP, shared_bytes, stream>>>(call);
}

enum kg_status kg_sdpa_scalar_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                     struct kg_error *err) {
    return kg_sdpa::launch_inputs(args, [=](auto in) {
        launch<decltype(in)>(cuda->stream, args);
        return kg_cuda_launched(err, "sdpa scalar");
    });
}
