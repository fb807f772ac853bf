/* Few rows of float32 (contract in few_rows_f32.h).
 *
 * Map: a block has 64 outputs of all rows, a thread 4 outputs of 4 rows. 64 columns at a time come to shared memory,
 * a thread's chunks of 8 by way of its registers, which decode W; columns lie there one below the other, so that a
 * thread reads its 4 outputs, and its 4 rows, by one load each. The next columns are fetched while these are
 * multiplied. The blocks of a cluster split the columns (split-K), so that all multiprocessors read W. */
#include "kernels/gemm/few_rows_f32.h"
#include "kernels/block/dequant.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"
#include <algorithm>

KG_PRELOADED(gemm_few_rows_f32, KG_FIRST_TOKEN)

namespace kg_few_rows_f32 {

using kg_dequant::CHUNK;

enum {
    WARP = 32,
    THREADS = 128,
    PER_SM = 4,
    ROWS = KG_FEW_ROWS_F32,
    OUTPUTS = 64,
    STEP = 64, /* columns */
    OWN = 4,   /* outputs, and rows, of a thread */
    ROW_GROUPS = ROWS / OWN,
    CHUNKS = STEP / CHUNK,
    /* Chunks of a thread: neighbours of one row of W, or of x. */
    W_CHUNKS = OUTPUTS * CHUNKS / THREADS,
    X_CHUNKS = ROWS * CHUNKS / THREADS,
    /* A column of outputs and one of rows; a result's row. Padded: a vector load begins on 16 bytes. */
    W_COLUMN = OUTPUTS + 4,
    X_COLUMN = ROWS + 4,
    SUM_ROW = OUTPUTS + 4,
    STAGE_FLOATS = STEP * (W_COLUMN + X_COLUMN),
    BYTES = 2 * STAGE_FLOATS * 4
};
static_assert(ROW_GROUPS * (OUTPUTS / OWN) == THREADS, "threads have all outputs of all rows");
static_assert(ROWS * SUM_ROW <= STAGE_FLOATS, "sums take a stage's place");
static_assert(PER_SM * (BYTES + 1024) <= 228 * 1024, "so many blocks on a multiprocessor");
static const char WHAT[] = "linear: few rows of f32";

struct params {
    const float *x;
    const uint8_t *weight;
    size_t row_bytes;
    const float *bias; /* NULL for none */
    float *y;
    uint32_t n_rows, n_cols, n_out, n_split;
    bool adds;
};

/* A thread's chunks of the next step, and where they go: W's row (an output), x's row, and their first chunks. */
template <enum kg_dtype D, bool WHOLE> struct fetched {
    float w[W_CHUNKS][CHUNK], x[X_CHUNKS][CHUNK];
    uint32_t output, w_chunk, row, x_chunk;

    __device__ __forceinline__ fetched() {
        constexpr uint32_t OUTPUT_WARPS = OUTPUTS / WARP;
        const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        output = warp % OUTPUT_WARPS * WARP + lane, w_chunk = warp / OUTPUT_WARPS * W_CHUNKS;
        row = lane, x_chunk = warp * X_CHUNKS;
    }

    /* Outputs past the last repeat it; columns past the last are zeros. */
    __device__ __forceinline__ void load_w(const params &p, uint32_t first_output, uint32_t step) {
        const auto from = kg_dequant::row_of<D>(p.weight, (size_t)min(first_output + output, p.n_out - 1), p.row_bytes);
#pragma unroll
        for (uint32_t c = 0; c < W_CHUNKS; c++) {
            const uint32_t i = step * STEP + (w_chunk + c) * CHUNK;
#pragma unroll
            for (uint32_t j = 0; j < CHUNK; j++) w[c][j] = 0;
            if (i < p.n_cols) kg_dequant::decode_chunk<D, WHOLE>(from, i, p.n_cols, w[c]);
        }
    }

    __device__ __forceinline__ void load_x(const params &p, uint32_t step) {
        const float *from = p.x + (size_t)min(row, p.n_rows - 1) * p.n_cols;
#pragma unroll
        for (uint32_t c = 0; c < X_CHUNKS; c++) {
            const uint32_t i = step * STEP + (x_chunk + c) * CHUNK;
#pragma unroll
            for (uint32_t j = 0; j < CHUNK; j++) x[c][j] = 0;
            if constexpr (WHOLE) {
                if (i < p.n_cols) kg_load_vector(from + i, x[c]);
            } else {
#pragma unroll
                for (uint32_t j = 0; j < CHUNK; j++)
                    if (i + j < p.n_cols) x[c][j] = from[i + j];
            }
        }
    }

    __device__ __forceinline__ void put(float *stage) const {
#pragma unroll
        for (uint32_t c = 0; c < W_CHUNKS; c++)
#pragma unroll
            for (uint32_t j = 0; j < CHUNK; j++) stage[((w_chunk + c) * CHUNK + j) * W_COLUMN + output] = w[c][j];
        stage += STEP * W_COLUMN;
#pragma unroll
        for (uint32_t c = 0; c < X_CHUNKS; c++)
#pragma unroll
            for (uint32_t j = 0; j < CHUNK; j++) stage[((x_chunk + c) * CHUNK + j) * X_COLUMN + row] = x[c][j];
    }
};

/* sum[r][o] += of the thread's rows and outputs. */
static __device__ __forceinline__ void multiply(const float *stage, float (&sum)[OWN][OWN]) {
    const float *w = stage + threadIdx.x / ROW_GROUPS * OWN,
                *x = stage + STEP * W_COLUMN + threadIdx.x % ROW_GROUPS * OWN;
#pragma unroll 8
    for (uint32_t i = 0; i < STEP; i++) {
        const float4 wi = *reinterpret_cast<const float4 *>(w + i * W_COLUMN),
                     xi = *reinterpret_cast<const float4 *>(x + i * X_COLUMN);
        const float own_w[OWN] = { wi.x, wi.y, wi.z, wi.w }, own_x[OWN] = { xi.x, xi.y, xi.z, xi.w };
#pragma unroll
        for (int r = 0; r < OWN; r++)
#pragma unroll
            for (int o = 0; o < OWN; o++) sum[r][o] = fmaf(own_x[r], own_w[o], sum[r][o]);
    }
}

/* Sums cross shared memory; the cluster's blocks divide the rows. */
static __device__ __forceinline__ void store_outputs(const params &p, float *memory, uint32_t rank,
                                                     uint32_t first_output, const float (&sum)[OWN][OWN]) {
#pragma unroll
    for (int r = 0; r < OWN; r++)
        *reinterpret_cast<float4 *>(memory + (threadIdx.x % ROW_GROUPS * OWN + r) * SUM_ROW +
                                    threadIdx.x / ROW_GROUPS * OWN) =
            make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    if (p.n_split > 1) {
        kg_cluster_arrive();
        kg_cluster_wait(); /* the cluster's sums are visible */
    } else {
        __syncthreads(); /* sums are visible */
    }
    const uint32_t o = threadIdx.x % OUTPUTS, output = first_output + o;
    for (uint32_t row = rank + threadIdx.x / OUTPUTS * p.n_split; row < p.n_rows && output < p.n_out;
         row += p.n_split * (THREADS / OUTPUTS)) {
        const float *own = memory + row * SUM_ROW + o;
        float total = p.n_split > 1 ? kg_load_peer<float>(kg_peer_address(own, 0)) : *own;
        for (uint32_t r = 1; r < p.n_split; r++) total += kg_load_peer<float>(kg_peer_address(own, r));
        if (p.bias) total += p.bias[output];
        float *y = p.y + (size_t)row * p.n_out + output;
        *y = p.adds ? *y + total : total;
    }
    if (p.n_split > 1) kg_cluster_arrive(), kg_cluster_wait(); /* peers have read this block's sums */
}

/* Grid: (blocks of a cluster, tiles of outputs). */
template <enum kg_dtype D, bool WHOLE>
static __global__ void __launch_bounds__(THREADS, PER_SM) few_rows_f32_kernel(const params p) {
    extern __shared__ float4 few_rows_f32_memory[];
    float *const memory = reinterpret_cast<float *>(few_rows_f32_memory), *stage = memory,
                 *other = memory + STAGE_FLOATS;
    const uint32_t rank = p.n_split > 1 ? kg_cluster_rank() : 0, n_steps = (p.n_cols + STEP - 1) / STEP,
                   first_output = blockIdx.y * OUTPUTS, end = n_steps * (rank + 1) / p.n_split;
    uint32_t step = n_steps * rank / p.n_split;
    fetched<D, WHOLE> next;
    float sum[OWN][OWN] = {};
    kg_dependents_start();
    next.load_w(p, first_output, step);
    kg_dependency_wait(); /* x is visible; nothing reads y any more */
    next.load_x(p, step);
    next.put(stage);
    __syncthreads(); /* the first columns are there */
    while (step < end) {
        const bool more = ++step < end;
        if (more) next.load_w(p, first_output, step), next.load_x(p, step);
        multiply(stage, sum);
        if (more) next.put(other);
        __syncthreads(); /* the next are there, and nothing reads these any more */
        float *const read = stage;
        stage = other, other = read;
    }
    store_outputs(p, memory, rank, first_output, sum);
}

/* As many blocks as the device runs at the same time, by splits of at most KG_MAX_SPLIT. */
static uint32_t split_of(const struct kg_cuda_backend *cuda, uint32_t n_tiles, uint32_t n_cols) {
    const uint32_t n_steps = kg_blocks_for(n_cols, STEP), most = std::min<uint32_t>(KG_MAX_SPLIT, n_steps);
    if (cuda->compute_capability < 90) return 1; /* no clusters */
    return std::max(1u, std::min(most, (uint32_t)cuda->n_sms * PER_SM / n_tiles));
}

} // namespace kg_few_rows_f32

bool kg_cuda_few_rows_f32_takes(const struct kg_linear_args *args) {
    constexpr uint32_t MOST_OUTPUTS = 65535u * kg_few_rows_f32::OUTPUTS; /* a grid's tiles */
    const struct kg_weight *w = &args->weight;
    return args->activations == KG_PRECISION_F32 && args->output == KG_PRECISION_F32 && args->n_rows > 0 &&
           args->n_rows <= KG_FEW_ROWS_F32 && w->n_cols > 0 && w->n_rows > 0 && w->n_rows <= MOST_OUTPUTS &&
           (kg_vector_aligned(args->x) || kg_dtype_info(w->dtype)->block_elems == 1);
}

enum kg_status kg_cuda_few_rows_f32(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                                    bool is_repacked, bool adds, struct kg_error *err) {
    using namespace kg_few_rows_f32;
    const struct kg_weight *w = &args->weight;
    const uint32_t n_tiles = kg_blocks_for(w->n_rows, OUTPUTS), n_split = split_of(cuda, n_tiles, w->n_cols);
    const params p = { static_cast<const float *>(args->x),
                       static_cast<const uint8_t *>(w->data),
                       kg_weight_row_bytes(w),
                       args->bias,
                       static_cast<float *>(args->y),
                       args->n_rows,
                       w->n_cols,
                       w->n_rows,
                       n_split,
                       adds };
    return kg_dequant::visit_format(
        w, is_repacked, kg_vector_aligned(args->x), WHAT, err, [&](auto format, auto whole) -> enum kg_status {
            return kg_launch_dependent(cuda, few_rows_f32_kernel<format, whole>, dim3(n_split, n_tiles), THREADS, p,
                                       WHAT, err, BYTES, n_split);
        });
}
