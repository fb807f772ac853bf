/* A block has 128 outputs of all rows. It computes y^T = W x^T by wgmma: W is the left operand, x the right one, both
 * in shared memory. The blocks of a cluster split the columns (split-K), so that all multiprocessors read W. There is a
 * kernel for 32 rows, 48, 64 and so on, to 128: the width of the instruction.
 *
 * Map: one thread of the last warpgroup produces, by TMA: 64 columns of W and x at a time, to a ring. The other
 * warpgroup has two halves of 64 outputs: neighbours, or the gates and the ups of the same 64 outputs. */
#include "kernels/gemm/few_rows.h"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma.cuh"

KG_PRELOADED(gemm_few_rows, KG_FIRST_TOKEN)

namespace kg_few_rows {

enum {
    HALF = 64,
    M = 2 * HALF,
    STEP_COLS = 64,
    STEP_ROW_BYTES = 2 * STEP_COLS,
    HALF_BYTES = HALF * STEP_ROW_BYTES,
    W_BYTES = M * STEP_ROW_BYTES,
    SUM_FLOATS = M + 4, /* padding: neither writing columns nor reading rows of the sums has bank conflicts */
    WARP = 32,
    CONSUMER_THREADS = 128,
    THREADS = CONSUMER_THREADS + 128,
    MOST_STAGES = 6,
    MOST_BYTES = 225 * 1024 /* of a multiprocessor, beside barriers and what the system takes */
};

/* Of the kernel for N rows. Two blocks share a multiprocessor up to 64 rows; past that one with as deep a ring is
 * faster: fewer splits, whose sums grow with N, have to cross the cluster. */
template <int N> struct sizes {
    static constexpr int PER_SM = N <= 64 ? 2 : 1, STAGE_BYTES = W_BYTES + N * STEP_ROW_BYTES,
                         FITTING = (MOST_BYTES / PER_SM - 1024) / STAGE_BYTES,
                         STAGES = FITTING < MOST_STAGES ? FITTING : MOST_STAGES,
                         BYTES = STAGES * STAGE_BYTES + 1024; /* to align */
    static_assert(N * SUM_FLOATS * 4 <= STAGES * STAGE_BYTES, "sums take the ring's place");
};
static const char WHAT[] = "linear: few rows of f16";

struct params {
    CUtensorMap x, w[KG_FEW_ROWS_PARTS]; /* boxes: N, and 64, rows of 64 columns */
    struct {
        const float *bias;
        void *y;
        uint32_t n_out, first_tile;
    } part[KG_FEW_ROWS_PARTS];
    uint32_t n_parts /* that have tiles of outputs */, n_rows, n_cols, n_split;
    bool y_is_f16;
    kg_swiglu_op gate;
    kg_geglu_op gelu;
};

template <enum kg_few_rows_form F> constexpr bool GATED = F == KG_FEW_ROWS_SWIGLU || F == KG_FEW_ROWS_GEGLU;

/* What a block computes: outputs of a part, steps of columns; shared memory of its ring and its mbarriers. */
struct block_work {
    uint32_t part, output, begin, end;
    unsigned memory, full, empty;
};

template <enum kg_few_rows_form F, int N>
static __device__ __forceinline__ void copy_w(const params &g, const block_work &work, uint32_t stage, uint32_t step) {
#pragma unroll
    for (int h = 0; h < 2; h++)
        kg_tensor_copy(work.memory + stage * sizes<N>::STAGE_BYTES + h * HALF_BYTES, &g.w[GATED<F> ? h : work.part],
                       work.full + 8 * stage, (int)(step * STEP_COLS), (int)(work.output + (GATED<F> ? 0 : h * HALF)),
                       0, 0);
}

template <int N>
static __device__ __forceinline__ void copy_x(const params &g, const block_work &work, uint32_t stage, uint32_t step) {
    kg_tensor_copy(work.memory + stage * sizes<N>::STAGE_BYTES + W_BYTES, &g.x, work.full + 8 * stage,
                   (int)(step * STEP_COLS), 0, 0, 0);
}

/* The first weights are under way before the launch waits for those before it: none writes weights. */
template <enum kg_few_rows_form F, int N>
static __device__ __forceinline__ void produce(const params &g, const block_work &w) {
    constexpr uint32_t STAGES = sizes<N>::STAGES;
    const uint32_t n_early = min(w.end - w.begin, STAGES);
    for (uint32_t i = 0; i < n_early; i++) {
        kg_mbarrier_expect(w.full + 8 * i, sizes<N>::STAGE_BYTES);
        copy_w<F, N>(g, w, i, w.begin + i);
    }
    kg_dependency_wait(); /* x is visible */
    for (uint32_t i = 0; i < n_early; i++) copy_x<N>(g, w, i, w.begin + i);
    for (uint32_t step = w.begin + n_early, stage = 0, parity = 0; step < w.end; step++) {
        kg_mbarrier_wait(w.empty + 8 * stage, parity);
        kg_mbarrier_expect(w.full + 8 * stage, sizes<N>::STAGE_BYTES);
        copy_w<F, N>(g, w, stage, step);
        copy_x<N>(g, w, stage, step);
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
}

/* sum[h] = the products of half h's outputs with the block's columns. */
template <int N> static __device__ __forceinline__ void consume(float (&sum)[2][N / 2], const block_work &work) {
    constexpr uint32_t STAGES = sizes<N>::STAGES;
    uint32_t stage = 0, parity = 0, before = STAGES;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int k = 0; k < N / 2; k++) sum[h][k] = 0;
    kg_pin(sum[0]);
    kg_pin(sum[1]);
    for (uint32_t step = work.begin; step < work.end; step++) {
        const unsigned at = work.memory + stage * sizes<N>::STAGE_BYTES;
        kg_mbarrier_wait(work.full + 8 * stage, parity);
        const uint64_t upper = kg_matrix_descriptor<STEP_ROW_BYTES>(at),
                       lower = kg_matrix_descriptor<STEP_ROW_BYTES>(at + HALF_BYTES),
                       x = kg_matrix_descriptor<STEP_ROW_BYTES>(at + W_BYTES);
        kg_wgmma_fence();
#pragma unroll
        for (uint64_t k = 0; k < 4; k++) { /* 16 columns are 32 bytes of a row */
            kg_wgmma<N>::shared<false>(sum[0], upper + 2 * k, x + 2 * k, 1);
            kg_wgmma<N>::shared<false>(sum[1], lower + 2 * k, x + 2 * k, 1);
        }
        kg_wgmma_commit();
        kg_wgmma_wait<1>();
        /* wgmma has read the step before */
        kg_mbarrier_arrive_if(threadIdx.x % WARP == 0 && before < STAGES, work.empty + 8 * before);
        before = stage;
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    kg_wgmma_wait<0>();
    kg_pin(sum[0]);
    kg_pin(sum[1]);
}

/* v = eight sums at an address of shared memory, those of the cluster's blocks in the order of their ranks, and bias.
 */
static __device__ __forceinline__ void add_up(float (&v)[KG_VECTOR], unsigned at, uint32_t n_split,
                                              const float (&bias)[KG_VECTOR]) {
#pragma unroll
    for (int i = 0; i < KG_VECTOR; i += 4) {
        float4 sum =
            n_split > 1 ? kg_load_peer<float4>(kg_peer_address(at + i * 4, 0)) : kg_load_shared<float4>(at + i * 4);
        for (uint32_t r = 1; r < n_split; r++) {
            const float4 w = kg_load_peer<float4>(kg_peer_address(at + i * 4, r));
            sum.x += w.x, sum.y += w.y, sum.z += w.z, sum.w += w.w;
        }
        v[i] = sum.x + bias[i], v[i + 1] = sum.y + bias[i + 1], v[i + 2] = sum.z + bias[i + 2],
        v[i + 3] = sum.w + bias[i + 3];
    }
}

/* Outputs from o on, of the n_out of a row: y[at + j] = v[j], or += of a residual. Rows begin on 16 bytes where n_out
 * is a multiple of 8, else anywhere. */
template <bool ADDS, typename Y>
static __device__ __forceinline__ void store(Y *y, size_t at, uint32_t o, uint32_t n_out, float (&v)[KG_VECTOR]) {
    if (n_out % KG_VECTOR != 0) {
#pragma unroll
        for (uint32_t j = 0; j < KG_VECTOR; j++)
            if (o + j < n_out) kg_store(y + at + j, ADDS ? kg_load(y + at + j) + v[j] : v[j]);
        return;
    }
    if constexpr (ADDS) {
        float was[KG_VECTOR];
        kg_load_vector(y + at, was);
#pragma unroll
        for (int j = 0; j < KG_VECTOR; j++) v[j] += was[j];
    }
    kg_store_vector(y + at, v);
}

static __device__ __forceinline__ void load_bias(float (&v)[KG_VECTOR], const float *bias, uint32_t o, uint32_t n_out) {
#pragma unroll
    for (uint32_t j = 0; j < KG_VECTOR; j++) v[j] = bias && o + j < n_out ? bias[o + j] : 0.0f;
}

/* The epilogue. Sums cross shared memory; the cluster's blocks divide the rows. */
template <enum kg_few_rows_form F, int N>
static __device__ __forceinline__ void store_outputs(const params &g, const block_work &work, uint32_t rank,
                                                     const float (&sum)[2][N / 2]) {
    constexpr uint32_t CHUNKS = (GATED<F> ? HALF : M) / KG_VECTOR;
    constexpr bool ADDS = F == KG_FEW_ROWS_RESIDUAL;
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    kg_barrier_sync(1, CONSUMER_THREADS); /* write-after-read: sums overwrite the ring */
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int k = 0; k < N / 2; k++) { /* ptx/wgmma.cuh */
            const uint32_t o = h * HALF + warp * 16 + lane / 4 + k / 2 % 2 * 8, r = k / 4 * 8 + lane % 4 * 2 + k % 2;
            kg_store_shared(work.memory + (r * SUM_FLOATS + o) * (unsigned)sizeof(float), sum[h][k]);
        }
    if (g.n_split > 1) {
        kg_cluster_arrive();
        kg_cluster_wait(); /* the cluster's sums are visible */
    } else {
        kg_barrier_sync(1, CONSUMER_THREADS); /* sums are visible */
    }
    kg_dependency_wait(); /* write-after-read: nothing reads y any more */
    const auto &p = g.part[work.part];
    const uint32_t chunk = threadIdx.x % CHUNKS * KG_VECTOR, o = work.output + chunk,
                   step = g.n_split * (CONSUMER_THREADS / CHUNKS);
    float bias[KG_VECTOR], up_bias[KG_VECTOR];
    load_bias(bias, p.bias, o, p.n_out);
    if constexpr (GATED<F>) load_bias(up_bias, g.part[1].bias, o, p.n_out);
    for (uint32_t row = rank + threadIdx.x / CHUNKS * g.n_split; row < g.n_rows && o < p.n_out; row += step) {
        const unsigned from = work.memory + (row * SUM_FLOATS + chunk) * (unsigned)sizeof(float);
        const size_t at = (size_t)row * p.n_out + o;
        float v[KG_VECTOR], up[KG_VECTOR];
        add_up(v, from, g.n_split, bias);
        if constexpr (GATED<F>) add_up(up, from + HALF * sizeof(float), g.n_split, up_bias);
#pragma unroll
        for (int j = 0; j < KG_VECTOR; j++) {
            if constexpr (F == KG_FEW_ROWS_SWIGLU) v[j] = g.gate(v[j], up[j]);
            if constexpr (F == KG_FEW_ROWS_GEGLU) v[j] = g.gelu(v[j], up[j]);
        }
        if (g.y_is_f16) store<ADDS>(static_cast<__half *>(p.y), at, o, p.n_out, v);
        else store<ADDS>(static_cast<float *>(p.y), at, o, p.n_out, v);
    }
}

/* Grid: (blocks of a cluster, tiles of outputs). */
template <enum kg_few_rows_form F, int N>
__global__ void __launch_bounds__(THREADS, sizes<N>::PER_SM) few_rows_kernel(const __grid_constant__ params g) {
    constexpr int STAGES = sizes<N>::STAGES;
    extern __shared__ unsigned char few_rows_memory[];
    __shared__ uint64_t barriers[2 * STAGES];
    kg_require_sm_90a();
    const uint32_t rank = g.n_split > 1 ? kg_cluster_rank() : 0, n_steps = (g.n_cols + STEP_COLS - 1) / STEP_COLS;
    block_work work = {};
    for (uint32_t i = 1; i < g.n_parts; i++)
        if (blockIdx.y >= g.part[i].first_tile) work.part = i;
    work.output = (blockIdx.y - g.part[work.part].first_tile) * (GATED<F> ? HALF : M);
    work.begin = n_steps * rank / g.n_split;
    work.end = n_steps * (rank + 1) / g.n_split;
    work.memory = (kg_shared_address(few_rows_memory) + 1023) & ~1023u;
    work.full = kg_shared_address(barriers);
    work.empty = work.full + 8 * STAGES;
    kg_dependents_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            kg_mbarrier_init(work.full + 8 * i, 1);
            kg_mbarrier_init(work.empty + 8 * i, CONSUMER_THREADS / WARP);
        }
        kg_mbarrier_init_fence();
    }
    __syncthreads(); /* barriers are initialised */
    if (threadIdx.x >= CONSUMER_THREADS) {
        if (threadIdx.x == CONSUMER_THREADS) produce<F, N>(g, work);
        __syncwarp();
        if (g.n_split > 1) kg_cluster_arrive(), kg_cluster_wait();
    } else {
        float sum[2][N / 2];
        consume<N>(sum, work);
        store_outputs<F, N>(g, work, rank, sum);
    }
    if (g.n_split > 1) kg_cluster_arrive(), kg_cluster_wait(); /* peers have read this block's sums */
}

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static enum kg_status make_map(CUtensorMap *map, const void *data, uint32_t n_rows, uint32_t n_cols, uint32_t box_rows,
                               struct kg_error *err) {
    kg_tensor_extent e = {};
    e.data = data, e.strides.row = n_cols;
    e.n_batch = e.n_heads = 1, e.n_rows = n_rows, e.head_dim = n_cols;
    e.element_bytes = 2, e.box_rows = box_rows, e.box_bytes = STEP_ROW_BYTES;
    return kg_tensor_map_make(map, &e, WHAT, err);
}

/* As many blocks as the device runs at the same time, by splits of at most KG_MAX_SPLIT. */
static uint32_t split_of(const struct kg_cuda_backend *cuda, uint32_t n_per_sm, uint32_t n_tiles, uint32_t n_steps) {
    const uint32_t n_at_once = (uint32_t)cuda->n_sms * n_per_sm, most = std::min<uint32_t>(KG_MAX_SPLIT, n_steps);
    return std::max(1u, std::min(most, n_at_once / n_tiles));
}

template <enum kg_few_rows_form F, int N>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                             struct kg_error *err) {
    params g = {};
    uint32_t n_tiles = 0;
    g.n_rows = p->n_rows, g.n_cols = p->n_cols, g.n_parts = GATED<F> ? 1 : p->n_parts;
    g.y_is_f16 = p->output == KG_PRECISION_F16;
    g.gate = p->gate, g.gelu = p->gelu;
    enum kg_status status = make_map(&g.x, p->x, p->n_rows, p->n_cols, N, err);
    for (uint32_t i = 0; i < p->n_parts && !status; i++) {
        g.part[i].bias = p->part[i].bias, g.part[i].y = p->part[i].y;
        g.part[i].n_out = p->part[i].n_out, g.part[i].first_tile = n_tiles;
        if (i < g.n_parts) n_tiles += ceil_div(p->part[i].n_out, GATED<F> ? HALF : M);
        status = make_map(&g.w[i], p->part[i].w, p->part[i].n_out, p->n_cols, HALF, err);
    }
    if (status) return status;
    g.n_split = split_of(cuda, sizes<N>::PER_SM, n_tiles, ceil_div(p->n_cols, STEP_COLS));
    return kg_launch_dependent(cuda, few_rows_kernel<F, N>, dim3(g.n_split, n_tiles), THREADS, g, WHAT, err,
                               sizes<N>::BYTES, g.n_split);
}

/* By the kernel of the least N that has the rows. */
template <enum kg_few_rows_form F>
static enum kg_status launch_rows(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                                  struct kg_error *err) {
    static constexpr decltype(&launch<F, 32>) LAUNCHES[] = { launch<F, 32>,  launch<F, 32>, launch<F, 48>,
                                                             launch<F, 64>,  launch<F, 80>, launch<F, 96>,
                                                             launch<F, 112>, launch<F, 128> };
    return LAUNCHES[(p->n_rows - 1) / 16](cuda, p, err);
}

} // namespace kg_few_rows

bool kg_cuda_few_rows_takes(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p) {
    constexpr uint32_t MAX_OUTPUTS = 65535 / KG_FEW_ROWS_PARTS * kg_few_rows::HALF; /* a grid's tiles */
    constexpr uint64_t MOST_BYTES_OF_MORE_ROWS = 64u << 20;
    uint64_t w_bytes = 0;
    for (uint32_t i = 0; i < p->n_parts; i++) w_bytes += (uint64_t)p->part[i].n_out * p->n_cols * sizeof(__half);
    if (p->n_rows > 32 && w_bytes > MOST_BYTES_OF_MORE_ROWS) return false;
    bool takes = cuda->compute_capability == 90 && p->n_rows > 0 && p->n_rows <= KG_FEW_ROWS && p->n_cols > 0 &&
                 p->n_cols % KG_VECTOR == 0 && kg_vector_aligned(p->x);
    for (uint32_t i = 0; i < p->n_parts; i++)
        takes = takes && kg_vector_aligned(p->part[i].w) && kg_vector_aligned(p->part[i].y) && p->part[i].n_out > 0 &&
                p->part[i].n_out <= MAX_OUTPUTS;
    return takes;
}

enum kg_status kg_cuda_few_rows(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                                struct kg_error *err) {
    static constexpr decltype(&kg_few_rows::launch_rows<KG_FEW_ROWS_PLAIN>) LAUNCHES[] = {
        kg_few_rows::launch_rows<KG_FEW_ROWS_PLAIN>,
        kg_few_rows::launch_rows<KG_FEW_ROWS_RESIDUAL>,
        kg_few_rows::launch_rows<KG_FEW_ROWS_SWIGLU>,
        kg_few_rows::launch_rows<KG_FEW_ROWS_GEGLU>,
    };
    return LAUNCHES[p->form](cuda, p, err);
}
