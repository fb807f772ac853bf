/* Products of few outputs (contract in few_outputs.h).
 *
 * Map: a cluster of SPLIT blocks has 16 rows of 32 outputs; its blocks share the columns, 32 vectors of 4 at a time in
 * turn. A warp of a block has 8 rows of 8 outputs, a lane a vector of 4 columns of each: 16 loads in flight, 256
 * products. Lanes' sums are added by halves (a lane gives one half of its sums and keeps the other), then blocks'
 * sums, in the order of blocks. */
#include "kernels/gemm/few_outputs.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"

enum { TILE = 8, ROWS = 16, OUTPUTS = 32, SPLIT = 4, VECTOR = 4, LANES = 32 };
enum { WARPS = ROWS / TILE * (OUTPUTS / TILE), THREADS = WARPS * LANES, SUMS = ROWS * OUTPUTS };
static_assert(SUMS / SPLIT <= THREADS, "a thread adds the blocks' sums of one output of a row");

struct few_outputs_params {
    const __half *x;
    const float *w, *bias;
    float *y;
    uint32_t n_rows, n_cols, n_out;
};

static __device__ __forceinline__ float4 four_of(uint2 halves) {
    const float2 low = __half22float2(*reinterpret_cast<const __half2 *>(&halves.x)),
                 high = __half22float2(*reinterpret_cast<const __half2 *>(&halves.y));
    return make_float4(low.x, low.y, high.x, high.y);
}

/* Of 2 N sums that all lanes have a part of, lanes with the bit `apart` keep the upper half, the others the lower. */
template <int N> static __device__ __forceinline__ void halve(float *sum, uint32_t lane, int apart) {
    const bool upper = lane & (uint32_t)apart;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float gives = upper ? sum[i] : sum[i + N], keeps = upper ? sum[i + N] : sum[i];
        sum[i] = keeps + __shfl_xor_sync(0xFFFFFFFFu, gives, apart);
    }
}

/* The sums of rows from r and outputs from o over the block's columns. Those that are not there are of the last. */
static __device__ __forceinline__ void multiply(const few_outputs_params &p, uint32_t r, uint32_t o, uint32_t lane,
                                                float (&sum)[TILE * TILE]) {
    const __half *x[TILE];
    const float *w[TILE];
#pragma unroll
    for (uint32_t i = 0; i < TILE; i++) {
        x[i] = p.x + (size_t)min(r + i, p.n_rows - 1) * p.n_cols;
        w[i] = p.w + (size_t)min(o + i, p.n_out - 1) * p.n_cols;
    }
    for (uint32_t at = (kg_cluster_rank() * LANES + lane) * VECTOR; at < p.n_cols; at += SPLIT * LANES * VECTOR) {
        float4 weight[TILE];
        uint2 halves[TILE];
#pragma unroll
        for (int i = 0; i < TILE; i++) weight[i] = *reinterpret_cast<const float4 *>(w[i] + at);
#pragma unroll
        for (int i = 0; i < TILE; i++) halves[i] = *reinterpret_cast<const uint2 *>(x[i] + at);
#pragma unroll
        for (int i = 0; i < TILE; i++) {
            const float4 v = four_of(halves[i]);
#pragma unroll
            for (int j = 0; j < TILE; j++) {
                float *s = &sum[i * TILE + j];
                *s = fmaf(v.x, weight[j].x, *s), *s = fmaf(v.y, weight[j].y, *s);
                *s = fmaf(v.z, weight[j].z, *s), *s = fmaf(v.w, weight[j].w, *s);
            }
        }
    }
}

/* Grid: (blocks of a cluster and clusters of rows, clusters of outputs). */
static __global__ void __launch_bounds__(THREADS) few_outputs_kernel(const few_outputs_params p) {
    __shared__ float part[SUMS];
    const uint32_t warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, rank = kg_cluster_rank(),
                   row = blockIdx.x / SPLIT * ROWS, output = blockIdx.y * OUTPUTS, r = warp / (OUTPUTS / TILE) * TILE,
                   o = warp % (OUTPUTS / TILE) * TILE;
    float sum[TILE * TILE] = {};
    kg_dependents_start();
    kg_dependency_wait(); /* x is visible; nothing reads y any more */
    multiply(p, row + r, output + o, lane, sum);
    halve<32>(sum, lane, 16);
    halve<16>(sum, lane, 8);
    halve<8>(sum, lane, 4);
    halve<4>(sum, lane, 2);
    halve<2>(sum, lane, 1); /* a lane has outputs 2 lane % 8 and the next of row lane / 4 */
    float *mine = &part[(r + lane / 4) * OUTPUTS + o + lane % 4 * 2];
    mine[0] = sum[0], mine[1] = sum[1];
    kg_cluster_arrive();
    kg_cluster_wait(); /* the cluster's sums are visible */
    const uint32_t i = rank * (SUMS / SPLIT) + threadIdx.x, to_row = row + i / OUTPUTS, to = output + i % OUTPUTS;
    if (threadIdx.x < SUMS / SPLIT && to_row < p.n_rows && to < p.n_out) {
        float all = 0;
        for (uint32_t block = 0; block < SPLIT; block++) all += kg_load_peer<float>(kg_peer_address(&part[i], block));
        p.y[(size_t)to_row * p.n_out + to] = all + (p.bias ? p.bias[to] : 0.0f);
    }
    kg_cluster_arrive();
    kg_cluster_wait(); /* no block ends while another reads its sums */
}

bool kg_cuda_few_outputs_takes(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args) {
    const struct kg_weight *w = &args->weight;
    const auto lies_on = [](const void *p, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; };
    return cuda->compute_capability == 90 && w->dtype == KG_DTYPE_F32 && args->activations == KG_PRECISION_F16 &&
           args->output == KG_PRECISION_F32 && w->n_rows <= KG_FEW_OUTPUTS && w->n_cols % VECTOR == 0 &&
           lies_on(args->x, VECTOR * sizeof(__half)) && lies_on(w->data, VECTOR * sizeof(float));
}

enum kg_status kg_cuda_few_outputs(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                                   struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    const few_outputs_params p = { static_cast<const __half *>(args->x),
                                   static_cast<const float *>(w->data),
                                   args->bias,
                                   static_cast<float *>(args->y),
                                   args->n_rows,
                                   w->n_cols,
                                   w->n_rows };
    const dim3 grid((args->n_rows + ROWS - 1) / ROWS * SPLIT, (w->n_rows + OUTPUTS - 1) / OUTPUTS);
    return kg_launch_dependent(cuda, few_outputs_kernel, grid, THREADS, p, "linear of few outputs", err, 0, SPLIT);
}
