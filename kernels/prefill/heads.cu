/* A block has one row. Its threads first make the row's cosines and sines, as rope does; then each takes items: N dims
 * of a head and the N that they are rotated with, or N dims that are copied. What a thread writes it alone reads. */
#include "kernels/prefill/heads.h"
#include "kernels/block/precision.cuh"
#include "kernels/ptx/dependent.cuh"

constexpr uint32_t MAX_THREADS = 512;

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

template <typename A, typename X, typename C, int N> struct row_of_heads {
    const kg_row_heads &p;
    const float2 *cos_sin; /* (n_rot / 2) */

    /* An item of heads of `of`, rotated: head h's dims to to + h * stride. */
    template <typename Y, typename Of>
    __device__ __forceinline__ void rotate(const Of &of, uint32_t n_heads, uint32_t item, Y *to, size_t stride) const {
        const uint32_t n_pairs = p.angles.n_rot / 2, n_items = n_pairs / N;
        const uint32_t h = item / n_items, i = item % n_items * N; /* pairs i, i + 1, ..., i + N - 1 */
        const uint32_t first = p.half ? i : 2 * i, second = p.half ? i + n_pairs : first + N;
        const size_t row = (size_t)blockIdx.x * n_heads * p.head_dim;
        float a[N], b[N];
        load<A, X>(a, of.x, of.bias, row, h * p.head_dim + first);
        load<A, X>(b, of.x, of.bias, row, h * p.head_dim + second);
        rotate_pairs(a, b, i);
        kg_store_some<N>(to + h * stride + first, a);
        kg_store_some<N>(to + h * stride + second, b);
    }

    /* By halves, pair i + j is a[j] and b[j]; else the pairs are neighbours in a, then in b. */
    __device__ __forceinline__ void rotate_pairs(float (&a)[N], float (&b)[N], uint32_t i) const {
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

    /* An item of heads of `of` from dim `first` on, as it is. */
    template <typename Y, typename Of>
    __device__ __forceinline__ void copy(const Of &of, uint32_t n_heads, uint32_t first, uint32_t item, Y *to,
                                         size_t stride) const {
        const uint32_t n_items = (p.head_dim - first) / N, h = item / n_items, d = first + item % n_items * N;
        float v[N];
        load<A, X>(v, of.x, of.bias, (size_t)blockIdx.x * n_heads * p.head_dim, h * p.head_dim + d);
        kg_store_some<N>(to + h * stride + d, v);
    }
};

/* Items of a head: rotated, and of the dims behind those. */
static __host__ __device__ __forceinline__ uint32_t rotated_of(const kg_row_heads &p, uint32_t n) {
    return p.angles.n_rot / 2 / n;
}
static __host__ __device__ __forceinline__ uint32_t copied_of(const kg_row_heads &p, uint32_t n) {
    return (p.head_dim - p.angles.n_rot) / n;
}
static __host__ __device__ __forceinline__ uint32_t items_of(const kg_row_heads &p, uint32_t n) {
    return (p.n_heads + p.n_kv_heads) * (rotated_of(p, n) + copied_of(p, n)) + p.n_kv_heads * (p.head_dim / n);
}

template <typename A, typename X, typename C, int N>
static __global__ void __launch_bounds__(MAX_THREADS) row_heads_kernel(const __grid_constant__ kg_row_heads p) {
    extern __shared__ float2 cos_sin[];
    const uint32_t position = p.position + blockIdx.x;
    for (uint32_t i = threadIdx.x; i < p.angles.n_rot / 2; i += blockDim.x)
        cos_sin[i] = kg_cos_sin(p.angles, position, i);
    kg_dependents_start();
    kg_dependency_wait(); /* q, k and v are visible; nothing reads y and the cache's slots any more */
    __syncthreads();      /* the table is visible */
    const row_of_heads<A, X, C, N> row = { p, cos_sin };
    const size_t at = (size_t)position * p.head_dim, stride = (size_t)p.n_ctx * p.head_dim;
    A *y = static_cast<A *>(p.y) + (size_t)blockIdx.x * p.n_heads * p.head_dim;
    C *k = static_cast<C *>(p.k_cache) + at;
    const uint32_t rotated_q = p.n_heads * rotated_of(p, N), rotated = rotated_q + p.n_kv_heads * rotated_of(p, N),
                   copied_q = rotated + p.n_heads * copied_of(p, N), keys = copied_q + p.n_kv_heads * copied_of(p, N);
    for (uint32_t item = threadIdx.x; item < items_of(p, N); item += blockDim.x) {
        if (item < rotated_q) row.rotate(p.q, p.n_heads, item, y, p.head_dim);
        else if (item < rotated) row.rotate(p.k, p.n_kv_heads, item - rotated_q, k, stride);
        else if (item < copied_q) row.copy(p.q, p.n_heads, p.angles.n_rot, item - rotated, y, p.head_dim);
        else if (item < keys) row.copy(p.k, p.n_kv_heads, p.angles.n_rot, item - copied_q, k, stride);
        else row.copy(p.v, p.n_kv_heads, 0, item - keys, static_cast<C *>(p.v_cache) + at, stride);
    }
}

static uint32_t threads_for(uint32_t n_items) {
    return n_items < MAX_THREADS ? (n_items + 31) / 32 * 32 : MAX_THREADS;
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
            return kg_launch_dependent(cuda, kernel, dim3(p->n_rows), threads_for(items_of(*p, vectors ? N : 1)), *p,
                                       WHAT, err, p->angles.n_rot / 2 * sizeof(float2));
        });
    };
    return kg_for_rows(WHAT, p->activations, p->n_rows, p->head_dim, arrays, err, launch);
}
