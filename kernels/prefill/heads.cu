/* A block has one row. Its threads first make the row's cosines and sines, as rope does; then each takes N dims of a
 * head and the N that they are rotated with, or N dims that are copied. What a thread writes it alone reads. */
#include "kernels/prefill/heads.h"
#include "kernels/block/precision.cuh"

constexpr int THREADS = 256;

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

    /* Heads of `of`, rotated: head h's dims to to + h * stride. */
    template <typename Y, typename Of>
    __device__ __forceinline__ void rotate(const Of &of, uint32_t n_heads, Y *to, size_t stride) const {
        const uint32_t n_pairs = p.angles.n_rot / 2, n_items = n_pairs / N, width = n_heads * p.head_dim;
        const size_t row = (size_t)blockIdx.x * width;
        for (uint32_t item = threadIdx.x; item < n_heads * n_items; item += THREADS) {
            const uint32_t h = item / n_items, i = item % n_items * N; /* pairs i, i + 1, ..., i + N - 1 */
            const uint32_t first = p.half ? i : 2 * i, second = p.half ? i + n_pairs : first + N;
            float a[N], b[N];
            load<A, X>(a, of.x, of.bias, row, h * p.head_dim + first);
            load<A, X>(b, of.x, of.bias, row, h * p.head_dim + second);
            rotate_pairs(a, b, i);
            kg_store_some<N>(to + h * stride + first, a);
            kg_store_some<N>(to + h * stride + second, b);
        }
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

    /* Heads of `of` from dim `first` on, as they are. */
    template <typename Y, typename Of>
    __device__ __forceinline__ void copy(const Of &of, uint32_t n_heads, uint32_t first, Y *to, size_t stride) const {
        const uint32_t n_items = (p.head_dim - first) / N;
        const size_t row = (size_t)blockIdx.x * n_heads * p.head_dim;
        for (uint32_t item = threadIdx.x; item < n_heads * n_items; item += THREADS) {
            const uint32_t h = item / n_items, d = first + item % n_items * N;
            float v[N];
            load<A, X>(v, of.x, of.bias, row, h * p.head_dim + d);
            kg_store_some<N>(to + h * stride + d, v);
        }
    }
};

template <typename A, typename X, typename C, int N>
static __global__ void __launch_bounds__(THREADS) row_heads_kernel(const __grid_constant__ kg_row_heads p) {
    extern __shared__ float2 cos_sin[];
    const uint32_t position = p.position + blockIdx.x;
    for (uint32_t i = threadIdx.x; i < p.angles.n_rot / 2; i += THREADS) cos_sin[i] = kg_cos_sin(p.angles, position, i);
    __syncthreads(); /* the table is visible */
    const row_of_heads<A, X, C, N> row = { p, cos_sin };
    const size_t at = (size_t)position * p.head_dim, stride = (size_t)p.n_ctx * p.head_dim;
    A *y = static_cast<A *>(p.y) + (size_t)blockIdx.x * p.n_heads * p.head_dim;
    C *k = static_cast<C *>(p.k_cache) + at;
    row.rotate(p.q, p.n_heads, y, p.head_dim);
    row.rotate(p.k, p.n_kv_heads, k, stride);
    row.copy(p.q, p.n_heads, p.angles.n_rot, y, p.head_dim);
    row.copy(p.k, p.n_kv_heads, p.angles.n_rot, k, stride);
    row.copy(p.v, p.n_kv_heads, 0, static_cast<C *>(p.v_cache) + at, stride);
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
            kernel<<<p->n_rows, THREADS, p->angles.n_rot / 2 * sizeof(float2), cuda->stream>>>(*p);
            return kg_cuda_launched(err, WHAT);
        });
    };
    return kg_for_rows(WHAT, p->activations, p->n_rows, p->head_dim, arrays, err, launch);
}
