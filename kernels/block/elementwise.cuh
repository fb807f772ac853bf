/* y[i] = op(a[i], b[i]), or op(a[i]), over n elements, y may be a or b; op may carry numbers.
 *
 * Each thread takes 8 elements by 16-byte accesses and reads them before it writes; what is left past the last vector
 * (or everything, where a pointer is not aligned) is taken one element a thread. Float32 arithmetic in both precisions.
 */
#ifndef KIGO_KERNELS_BLOCK_ELEMENTWISE_CUH
#define KIGO_KERNELS_BLOCK_ELEMENTWISE_CUH

#include "kernels/block/precision.cuh"

constexpr int KG_ELEMENTWISE_THREADS = 256;

/* Whether the operation has one operand; b is not read then and may be NULL. */
template <typename Op> constexpr bool KG_UNARY = std::is_invocable_v<Op, float>;

template <typename Op> static __device__ __forceinline__ float kg_apply(const Op &op, float u, float v) {
    if constexpr (KG_UNARY<Op>) return op(u);
    else return op(u, v);
}

template <typename Op, typename T>
static __global__ void __launch_bounds__(KG_ELEMENTWISE_THREADS)
    kg_elementwise_kernel(const Op op, const T *a, const T *b, T *y, size_t n, size_t n_vectors) {
    const size_t item = (size_t)blockIdx.x * KG_ELEMENTWISE_THREADS + threadIdx.x;
    if (item < n_vectors) {
        const size_t at = item * KG_VECTOR;
        float u[KG_VECTOR], v[KG_VECTOR] = {};
        kg_load_vector(a + at, u);
        if constexpr (!KG_UNARY<Op>) kg_load_vector(b + at, v);
#pragma unroll
        for (int i = 0; i < KG_VECTOR; i++) u[i] = kg_apply(op, u[i], v[i]);
        kg_store_vector(y + at, u);
        return;
    }
    const size_t at = n_vectors * KG_VECTOR + (item - n_vectors);
    if (at >= n) return;
    float v = 0;
    if constexpr (!KG_UNARY<Op>) v = kg_load(b + at);
    kg_store(y + at, kg_apply(op, kg_load(a + at), v));
}

/* Launches for f32 or f16; n may be 0. */
template <typename Op>
static enum kg_status kg_elementwise(struct kg_backend *backend, const char *name, const Op &op,
                                     enum kg_precision precision, const void *a, const void *b, void *y, size_t n,
                                     struct kg_error *err) {
    constexpr int THREADS = KG_ELEMENTWISE_THREADS;
    const bool aligned = kg_vector_aligned(a) && kg_vector_aligned(b) && kg_vector_aligned(y);
    const size_t n_vectors = aligned ? n / KG_VECTOR : 0, n_items = n_vectors + (n - n_vectors * KG_VECTOR);
    return kg_for_precision(name, "activations", precision, err, [&](auto t) {
        using T = decltype(t);
        if (n == 0) return KG_OK;
        kg_elementwise_kernel<Op, T><<<kg_blocks_for(n_items, THREADS), THREADS, 0, kg_cuda_of(backend)->stream>>>(
            op, (const T *)a, (const T *)b, (T *)y, n, n_vectors);
        return kg_cuda_launched(err, name);
    });
}

#endif
