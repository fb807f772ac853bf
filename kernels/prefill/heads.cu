/* A block has one row. Its threads make the row's cosines and sines, as rope does, which takes as long as memory: what
 * a thread rotates first is on its way meanwhile, and what is only copied comes before. An item is N dims of a head and
 * the N that they are rotated with, or N dims that are copied. What a thread writes it alone reads. */
#include "kernels/prefill/heads.h"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/dependent.cuh"

KG_PRELOADED(prefill_heads, KG_FIRST_TOKEN)

constexpr uint32_t LEAST_THREADS = 64, MOST_THREADS = 384;

template <typename A> static __device__ __forceinline__ float rounded(float v) {
    return static_cast<float>(static_cast<A>(v));
}

/* x[at + j] + bias[at + j], rounded to A. */
template <typename A, typename X, int N>
static __device__ __forceinline__ void load(float (&v)[N], const void *x, const float *bias, size_t row, uint32_t at) {
    kg_load_some<N>(static_cast<const X *>(x) + row + at, v);
#pragma unroll
    for (uint32_t j = 0; j < N; j++) v[j] = rounded<A>(bias ? v[j] + bias[at + j] : v[j]);
}

/* The heads of q, k or v that a row has, and where they go: head h's dims to to + h * stride. */
template <typename Y> struct head_rows {
    const void *x;
    const float *bias;
    uint32_t n_heads;
    Y *to;
    size_t stride;
};

template <typename A, typename X, int N> struct rotated_item {
    float a[N], b[N];
    uint32_t i, at, first, second; /* its first pair; the head's first dim, the dims' places in it */

    template <typename Y>
    __device__ __forceinline__ void load_pairs(const kg_row_heads &p, const head_rows<Y> &of, uint32_t item) {
        const uint32_t n_pairs = p.angles.n_rot / 2, n_items = n_pairs / N;
        i = item % n_items * N, at = item / n_items * p.head_dim;
        first = p.half ? i : 2 * i, second = p.half ? i + n_pairs : first + N;
        const size_t row = (size_t)blockIdx.x * of.n_heads * p.head_dim;
        load<A, X>(a, of.x, of.bias, row, at + first);
        load<A, X>(b, of.x, of.bias, row, at + second);
    }
    template <typename Y>
    __device__ __forceinline__ void store_pairs(const kg_row_heads &p, const head_rows<Y> &of) const {
        Y *to = of.to + at / p.head_dim * of.stride;
        kg_store_some<N>(to + first, a);
        kg_store_some<N>(to + second, b);
    }

    /* By halves, pair i + j is a[j] and b[j]; else the pairs are neighbours in a, then in b. */
    __device__ __forceinline__ void rotate(const kg_row_heads &p, const float2 *cos_sin) {
        if (p.half || N == 1) {
#pragma unroll
            for (int j = 0; j < N; j++) rotate_pair(a[j], b[j], cos_sin[i + j]);
        } else {
#pragma unroll
            for (int j = 0; j < N; j += 2) {
                rotate_pair(a[j], a[j + 1 < N ? j + 1 : j], cos_sin[i + j / 2]);
                rotate_pair(b[j], b[j + 1 < N ? j + 1 : j], cos_sin[i + N / 2 + j / 2]);
            }
        }
    }
    static __device__ __forceinline__ void rotate_pair(float &a, float &b, const float2 &r) {
        const float x = a;
        a = rounded<A>(x * r.x - b * r.y);
        b = rounded<A>(x * r.y + b * r.x);
    }
};

/* Heads' dims from `first` on, as they are. The last threads begin: the first have cosines to make. */
template <typename A, typename X, int N, typename Y>
static __device__ __forceinline__ void copy_heads(const kg_row_heads &p, const head_rows<Y> &of, uint32_t first) {
    const uint32_t n_items = (p.head_dim - first) / N;
    const size_t row = (size_t)blockIdx.x * of.n_heads * p.head_dim;
    for (uint32_t item = blockDim.x - 1 - threadIdx.x; item < of.n_heads * n_items; item += blockDim.x) {
        const uint32_t h = item / n_items, d = first + item % n_items * N;
        float v[N];
        load<A, X>(v, of.x, of.bias, row, h * p.head_dim + d);
        kg_store_some<N>(of.to + h * of.stride + d, v);
    }
}

template <typename A, typename X, typename C, int N>
static __global__ void __launch_bounds__(MOST_THREADS) row_heads_kernel(const __grid_constant__ kg_row_heads p) {
    extern __shared__ float2 cos_sin[];
    const uint32_t position = p.position + blockIdx.x, n_of_head = p.angles.n_rot / 2 / N,
                   n_queries = p.n_heads * n_of_head, n_rotated = n_queries + p.n_kv_heads * n_of_head;
    const size_t at = (size_t)position * p.head_dim, stride = (size_t)p.n_ctx * p.head_dim;
    const head_rows<A> q = { p.q.x, p.q.bias, p.n_heads,
                             static_cast<A *>(p.y) + (size_t)blockIdx.x * p.n_heads * p.head_dim, p.head_dim };
    const head_rows<C> k = { p.k.x, p.k.bias, p.n_kv_heads, static_cast<C *>(p.k_cache) + at, stride },
                       v = { p.v.x, p.v.bias, p.n_kv_heads, static_cast<C *>(p.v_cache) + at, stride };
    rotated_item<A, X, N> own;
    const auto load_item = [&](uint32_t item) {
        if (item < n_queries) own.load_pairs(p, q, item);
        else own.load_pairs(p, k, item - n_queries);
    };
    kg_dependents_start();
    kg_dependency_wait(); /* q, k and v are visible; nothing reads y and the cache's slots any more */
    if (threadIdx.x < n_rotated) load_item(threadIdx.x);
    for (uint32_t i = threadIdx.x; i < p.angles.n_rot / 2; i += blockDim.x)
        cos_sin[i] = kg_cos_sin(p.angles, position, i);
    copy_heads<A, X, N>(p, v, 0);
    copy_heads<A, X, N>(p, q, p.angles.n_rot);
    copy_heads<A, X, N>(p, k, p.angles.n_rot);
    __syncthreads(); /* the table is visible */
    for (uint32_t item = threadIdx.x; item < n_rotated; item += blockDim.x) {
        if (item != threadIdx.x) load_item(item);
        own.rotate(p, cos_sin);
        if (item < n_queries) own.store_pairs(p, q);
        else own.store_pairs(p, k);
    }
}

/* A thread to each rotated item, where there are enough. */
static uint32_t threads_for(const kg_row_heads &p, uint32_t n) {
    const uint32_t n_items = (p.n_heads + p.n_kv_heads) * (p.angles.n_rot / 2 / n);
    return std::clamp((n_items + 31) / 32 * 32, LEAST_THREADS, MOST_THREADS);
}

enum kg_status kg_cuda_row_heads(const struct kg_cuda_backend *cuda, const struct kg_row_heads *p,
                                 struct kg_error *err) {
    static const char WHAT[] = "q, k, v + rope + kv_write";
    const bool vectors = p->angles.n_rot % (2 * KG_VECTOR) == 0;
    const auto arrays = { p->q.x,
                          p->k.x,
                          p->v.x,
                          static_cast<const void *>(p->y),
                          static_cast<const void *>(p->k_cache),
                          static_cast<const void *>(p->v_cache) };
    const auto launch = [&](auto a, auto n) {
        return kg_for_precision(WHAT, "KV cache", p->kv, err, [&](auto c) {
            using A = decltype(a);
            using C = decltype(c);
            constexpr int N = decltype(n)::value;
            const auto kernel = p->wide ? vectors ? row_heads_kernel<A, float, C, N> : row_heads_kernel<A, float, C, 1>
                                : vectors ? row_heads_kernel<A, A, C, N>
                                          : row_heads_kernel<A, A, C, 1>;
            return kg_launch_dependent(cuda, kernel, dim3(p->n_rows), threads_for(*p, vectors ? N : 1), *p, WHAT, err,
                                       p->angles.n_rot / 2 * sizeof(float2));
        });
    };
    return kg_for_rows(WHAT, p->activations, p->n_rows, p->head_dim, arrays, err, launch);
}
