/* Products of few outputs (contract in few_outputs.h).
 *
 * Map: a cluster of blocks has 16 rows of 32 outputs, each block a share of the columns, which it copies to shared
 * memory at once: W's before what comes before it is complete. A warp has 8 rows of 8 outputs, a lane 4 columns of each
 * at a time: 16 loads for 256 products. Lanes' sums are added by halves (a lane gives one half of its sums and keeps
 * the other), then blocks' sums, in the order of blocks. */
#include "kernels/gemm/few_outputs.h"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"

KG_PRELOADED(gemm_few_outputs, KG_SOME_PROMPTS)

enum { TILE = 8, ROWS = 16, OUTPUTS = 32, VECTOR = 4, ALIGNED_COLUMNS = 8, LANES = 32 };
enum { WARPS = ROWS / TILE * (OUTPUTS / TILE), THREADS = WARPS * LANES, SUMS = ROWS * OUTPUTS };
/* Blocks of a cluster: of 512 rows, with four there are as many as multiprocessors. */
enum { LEAST_SPLIT = 4, MOST_SPLIT = 8 };
static_assert(SUMS / LEAST_SPLIT <= THREADS, "a thread adds the blocks' sums of one output of a row");

struct few_outputs_params {
    const __half *x;
    const float *w, *bias;
    float *y;
    uint32_t n_rows, n_cols, n_out;
    uint32_t n_split, share; /* blocks of a cluster; columns of one, the last has the rest */
};

static constexpr uint32_t COLUMN_BYTES = OUTPUTS * sizeof(float) + ROWS * sizeof(__half);

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

/* Copies so many 16 bytes of each of N rows from `first`, a warp to a row; zeros for rows that are not there. */
template <int N, typename T>
static __device__ __forceinline__ void copy_rows(const T *from, uint32_t first, uint32_t n_there, uint32_t n_cols,
                                                 uint32_t n_pieces, T *to, uint32_t share) {
    constexpr uint32_t PIECE = 16 / sizeof(T);
    for (uint32_t row = threadIdx.x / LANES; row < N; row += WARPS) {
        const bool there = first + row < n_there;
        const T *at = from + (there ? (size_t)(first + row) * n_cols : 0);
        const unsigned here = kg_shared_address(to + (size_t)row * share);
        for (uint32_t i = threadIdx.x % LANES; i < n_pieces; i += LANES)
            kg_copy_16(here + 16 * i, at + i * PIECE, there);
    }
}

/* The sums of 8 rows and 8 outputs over so many vectors of columns. */
static __device__ __forceinline__ void multiply(const __half *x, const float *w, uint32_t share, uint32_t n_vectors,
                                                float (&sum)[TILE * TILE]) {
    for (uint32_t at = threadIdx.x % LANES; at < n_vectors; at += LANES) {
        float4 weight[TILE];
#pragma unroll
        for (int j = 0; j < TILE; j++) weight[j] = *reinterpret_cast<const float4 *>(w + j * share + at * VECTOR);
#pragma unroll
        for (int i = 0; i < TILE; i++) {
            const float4 v = four_of(*reinterpret_cast<const uint2 *>(x + i * share + at * VECTOR));
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
    extern __shared__ float4 columns[];
    __shared__ float part[SUMS];
    const uint32_t warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, rank = kg_cluster_rank(),
                   row = blockIdx.x / p.n_split * ROWS, output = blockIdx.y * OUTPUTS,
                   r = warp / (OUTPUTS / TILE) * TILE, o = warp % (OUTPUTS / TILE) * TILE, from = rank * p.share,
                   n_cols = from < p.n_cols ? min(p.share, p.n_cols - from) : 0;
    float *w = reinterpret_cast<float *>(columns);
    __half *x = reinterpret_cast<__half *>(w + OUTPUTS * p.share);
    float sum[TILE * TILE] = {};
    kg_dependents_start();
    copy_rows<OUTPUTS>(p.w + from, output, p.n_out, p.n_cols, n_cols / 4, w, p.share);
    kg_dependency_wait(); /* x is visible; nothing reads y any more */
    copy_rows<ROWS>(p.x + from, row, p.n_rows, p.n_cols, n_cols / 8, x, p.share);
    kg_copies_wait();
    __syncthreads(); /* all threads' copies are there */
    multiply(x + r * p.share, w + o * p.share, p.share, n_cols / VECTOR, sum);
    halve<32>(sum, lane, 16);
    halve<16>(sum, lane, 8);
    halve<8>(sum, lane, 4);
    halve<4>(sum, lane, 2);
    halve<2>(sum, lane, 1); /* a lane has outputs 2 lane % 8 and the next of row lane / 4 */
    float *mine = &part[(r + lane / 4) * OUTPUTS + o + lane % 4 * 2];
    mine[0] = sum[0], mine[1] = sum[1];
    kg_cluster_arrive();
    kg_cluster_wait(); /* the cluster's sums are visible */
    const uint32_t each = SUMS / p.n_split, i = rank * each + threadIdx.x, to_row = row + i / OUTPUTS,
                   to = output + i % OUTPUTS;
    if (threadIdx.x < each && to_row < p.n_rows && to < p.n_out) {
        float all = 0;
        for (uint32_t block = 0; block < p.n_split; block++)
            all += kg_load_peer<float>(kg_peer_address(&part[i], block));
        p.y[(size_t)to_row * p.n_out + to] = all + (p.bias ? p.bias[to] : 0.0f);
    }
    kg_cluster_arrive();
    kg_cluster_wait(); /* no block ends while another reads its sums */
}

/* Columns of a block; the blocks of a cluster: as few as have room. */
static uint32_t share_of(const struct kg_cuda_backend *cuda, uint32_t n_cols, uint32_t *n_split) {
    uint32_t share = 0;
    for (*n_split = LEAST_SPLIT; *n_split <= MOST_SPLIT; *n_split *= 2) {
        share = (kg_blocks_for(n_cols, *n_split) + ALIGNED_COLUMNS - 1) / ALIGNED_COLUMNS * ALIGNED_COLUMNS;
        if ((uint64_t)share * COLUMN_BYTES + SUMS * sizeof(float) <= cuda->shared_bytes) return share;
    }
    return 0;
}

bool kg_cuda_few_outputs_takes(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args) {
    const struct kg_weight *w = &args->weight;
    uint32_t n_split;
    return cuda->compute_capability == 90 && w->dtype == KG_DTYPE_F32 && args->activations == KG_PRECISION_F16 &&
           args->output == KG_PRECISION_F32 && w->n_rows <= KG_FEW_OUTPUTS && w->n_cols % ALIGNED_COLUMNS == 0 &&
           kg_vector_aligned(args->x) && kg_vector_aligned(w->data) && share_of(cuda, w->n_cols, &n_split) > 0;
}

enum kg_status kg_cuda_few_outputs(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                                   struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    few_outputs_params p = { static_cast<const __half *>(args->x),
                             static_cast<const float *>(w->data),
                             args->bias,
                             static_cast<float *>(args->y),
                             args->n_rows,
                             w->n_cols,
                             w->n_rows,
                             0,
                             0 };
    p.share = share_of(cuda, w->n_cols, &p.n_split);
    const dim3 grid(kg_blocks_for(args->n_rows, ROWS) * p.n_split, kg_blocks_for(w->n_rows, OUTPUTS));
    return kg_launch_dependent(cuda, few_outputs_kernel, grid, THREADS, p, "linear of few outputs", err,
                               p.share * COLUMN_BYTES, p.n_split);
}
