/* kv_write: k_cache[h][position + r] = k[r][h], the same for v (contract in ops/kv_write.h).
 *
 * k, v (n_rows, n_kv_heads, head_dim) of TA, caches (n_kv_heads, n_ctx, head_dim) of TC; a value is converted at most
 * once, by rounding to nearest even. A thread copies one vector of 8 dims (or one dim, where the head size is no
 * multiple of 8) of a key and of its value: neighbouring threads are neighbouring dims, then heads, then rows. */
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_kv_write, KG_FIRST_TOKEN)

constexpr int THREADS = 256;

struct kv_write_params {
    const void *k, *v;
    void *k_cache, *v_cache;
    uint32_t n_rows, n_kv_heads, head_dim, n_ctx, position;
    const struct kg_cuda_step *step;
};

template <typename TA, typename TC, int N>
static __global__ void __launch_bounds__(THREADS) kv_write_kernel(const kv_write_params p) {
    const size_t item = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const uint32_t n_vectors = p.head_dim / N; /* of a head */
    const size_t row_head = item / n_vectors, r = row_head / p.n_kv_heads, h = row_head % p.n_kv_heads;
    const size_t position = (p.step ? p.step->position : p.position) + r;
    if (r >= p.n_rows || position >= p.n_ctx) return;
    const size_t from = item * N;
    const size_t to = (h * p.n_ctx + position) * p.head_dim + item % n_vectors * N;
    float k[N], v[N];
    kg_load_some<N>((const TA *)p.k + from, k);
    kg_load_some<N>((const TA *)p.v + from, v);
    kg_store_some<N>((TC *)p.k_cache + to, k);
    kg_store_some<N>((TC *)p.v_cache + to, v);
}

extern "C" enum kg_status kg_cuda_kv_write(struct kg_backend *backend, const struct kg_kv_write_args *args,
                                           struct kg_error *err) {
    const enum kg_status status = kg_kv_write_check(args, err);
    if (status) return status;
    const struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    const kv_write_params p = { args->k,          args->v,        args->k_cache, args->v_cache,  args->n_rows,
                                args->n_kv_heads, args->head_dim, args->n_ctx,   args->position, cuda->step };
    const auto launch = [&](auto from, auto n) {
        return kg_for_precision("kv_write", "KV cache", args->kv, err, [&](auto to) {
            constexpr int N = decltype(n)::value;
            const unsigned n_blocks = kg_blocks_for((size_t)p.n_rows * p.n_kv_heads * p.head_dim / N, THREADS);
            kv_write_kernel<decltype(from), decltype(to), N><<<n_blocks, THREADS, 0, cuda->stream>>>(p);
            return kg_cuda_launched(err, "kv_write");
        });
    };
    return kg_for_rows("kv_write", args->activations, args->n_rows, args->head_dim,
                       { args->k, args->v, args->k_cache, args->v_cache }, err, launch);
}
