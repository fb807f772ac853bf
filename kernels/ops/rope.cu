/* rope: rotates pairs of the first n_rot dims of every head by an angle that grows with the position (equation,
 * pairings and layout in ops/rope.h).
 *
 * x, y (n_rows, n_heads, head_dim) of T. A block has one row and up to MAX_PAIRS / (n_rot / 2) of its heads. Its
 * threads first make the row's cosines and sines, with angles in double, rounded once to float32 (block/rotation.cuh);
 * then each rotates pairs (head, i), both products in float32. A thread writes only elements that it alone reads, so y
 * may be x. */
#include "kernels/block/precision.cuh"
#include "kernels/block/rotation.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_rope, KG_FIRST_TOKEN)

constexpr int THREADS = 256;
constexpr unsigned MAX_PAIRS = 512; /* of a block: two a thread */
static_assert(KG_ROPE_MAX_ROT / 2 * sizeof(float2) <= 48 * 1024, "a row's cosines and sines fit shared memory");

struct rope_params {
    uint32_t n_heads, heads_per_block, head_dim, position, n_rot;
    bool half; /* pairs (i, i + n_rot/2), else (2i, 2i + 1) */
    struct kg_rope_angles angles;
    const struct kg_cuda_step *step;
};

template <typename T> static __global__ void __launch_bounds__(THREADS) rope_kernel(const T *x, T *y, rope_params p) {
    extern __shared__ float2 cos_sin[]; /* (n_rot / 2): cosine, sine */
    const uint32_t n_pairs = p.n_rot / 2;
    const uint32_t position = (p.step ? p.step->position : p.position) + blockIdx.x;
    for (uint32_t i = threadIdx.x; i < n_pairs; i += THREADS) cos_sin[i] = kg_cos_sin(p.angles, position, i);
    __syncthreads(); /* the table is visible */

    const uint32_t first_head = blockIdx.y * p.heads_per_block;
    const uint32_t n_heads = min(p.heads_per_block, p.n_heads - first_head);
    const size_t base = ((size_t)blockIdx.x * p.n_heads + first_head) * p.head_dim;
    const uint32_t step = p.half ? 1 : 2, apart = p.half ? n_pairs : 1;
    for (uint32_t item = threadIdx.x; item < n_heads * n_pairs; item += THREADS) {
        const uint32_t i = item % n_pairs;
        const size_t at = base + (size_t)(item / n_pairs) * p.head_dim + i * step;
        const float a = kg_load(x + at), b = kg_load(x + at + apart);
        const float2 r = cos_sin[i];
        kg_store(y + at, a * r.x - b * r.y);
        kg_store(y + at + apart, a * r.y + b * r.x);
    }
    if (x == y) return;
    const uint32_t n_kept = p.head_dim - p.n_rot;
    for (uint32_t item = threadIdx.x; item < n_heads * n_kept; item += THREADS) {
        const size_t at = base + (size_t)(item / n_kept) * p.head_dim + p.n_rot + item % n_kept;
        y[at] = x[at];
    }
}

extern "C" enum kg_status kg_cuda_rope(struct kg_backend *backend, const struct kg_rope_args *args,
                                       struct kg_error *err) {
    const enum kg_status status = kg_rope_check(args, err);
    if (status) return status;
    const struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    const uint32_t n_pairs = args->n_rot / 2, per_block = n_pairs > 0 ? std::max(MAX_PAIRS / n_pairs, 1u) : 1;
    const dim3 grid(args->n_rows, kg_blocks_for(args->n_heads, per_block));
    const rope_params p = { args->n_heads,
                            per_block,
                            args->head_dim,
                            args->position,
                            args->n_rot,
                            args->pairing == KG_ROPE_HALF,
                            kg_rope_angles_of(args, args->freq_factors),
                            cuda->step };
    return kg_for_precision("rope", "activations", args->activations, err, [&](auto t) {
        using T = decltype(t);
        if (args->n_rows == 0) return KG_OK;
        rope_kernel<T><<<grid, THREADS, n_pairs * sizeof(float2), cuda->stream>>>((const T *)args->x, (T *)args->y, p);
        return kg_cuda_launched(err, "rope");
    });
}
