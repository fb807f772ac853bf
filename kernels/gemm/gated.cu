/* A block has 128 rows of x and OUTS outputs. x is the left operand of wgmma, so that the sums of a row, gate and up of
 * an output alike, are one thread's: the epilogue is in registers. The blocks of a cluster have the same outputs and
 * other rows; each copies a part of the tile of W to all of them (multicast).
 *
 * Map: two consumer warpgroups of 64 rows each; one thread of another warp produces, by TMA: 64 columns of x and of
 * both matrices at a time, to a ring. */
#include "kernels/gemm/gated.h"
#include "kernels/block/precision.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace kg_gated {

enum { CONSUMERS = 2, ROWS = 64 * CONSUMERS, COLS = 64, ROW_BYTES = 2 * COLS, WARP = 32, GROUP = 8, QUAD = 4 };
static const char WHAT[] = "linear: gate, up and activation";

template <int OUTS_, int CLUSTER_, int STAGES_, int PER_SM_> struct block_shape {
    static constexpr int OUTS = OUTS_, CLUSTER = CLUSTER_, STAGES = STAGES_, PER_SM = PER_SM_;
    /* Outputs of one instruction: gates and ups at once where both fit. */
    static constexpr int PIECE = 2 * OUTS <= 256 ? 2 * OUTS : OUTS, PIECES = 2 * OUTS / PIECE;
    static_assert(PIECES * PIECE == 2 * OUTS && PIECE <= 256, "whole pieces");
    static constexpr int W_BYTES = 2 * OUTS * ROW_BYTES, STAGE_BYTES = W_BYTES + ROWS * ROW_BYTES,
                         BYTES = STAGES * STAGE_BYTES + 1024; /* to align */
    static_assert(BYTES + 512 <= 227 * 1024 / PER_SM, "a block's memory, beside barriers");
    /* Rows of W that a block copies, by boxes that lie in one matrix. */
    static constexpr int SHARE = 2 * OUTS / CLUSTER, BOX = SHARE < OUTS ? SHARE : OUTS;
    static_assert(BOX % 8 == 0 && SHARE % BOX == 0 && OUTS % BOX == 0, "whole boxes of whole swizzles");
    /* A warpgroup of its own lets the producer give registers away (setmaxnreg). */
    static constexpr bool DIVIDES = PER_SM == 1;
    static constexpr int CONSUMER_THREADS = CONSUMERS * 128, THREADS = CONSUMER_THREADS + (DIVIDES ? 128 : WARP),
                         PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
};

struct params {
    CUtensorMap x, w[2]; /* boxes: 128, and BOX, rows of 64 columns */
    const float *bias[2];
    __half *y;
    uint32_t n_rows, n_out, n_cols;
    bool is_gelu;
    kg_swiglu_op gate;
    kg_geglu_op gelu;
};

/* Shared memory: the ring, and its mbarriers. */
struct ring {
    unsigned memory, full, empty;
};

template <typename S> static __device__ __forceinline__ void produce(const params &g, const ring &ring, uint32_t rank) {
    constexpr uint32_t ALL = (1u << S::CLUSTER) - 1;
    const uint32_t n_steps = (g.n_cols + COLS - 1) / COLS, output = blockIdx.y * S::OUTS;
    kg_dependency_wait(); /* x is visible */
    for (uint32_t step = 0, stage = 0, parity = 1; step < n_steps; step++) {
        const unsigned to = ring.memory + stage * S::STAGE_BYTES, full = ring.full + 8 * stage;
        const int col = (int)(step * COLS);
        kg_mbarrier_wait(ring.empty + 8 * stage, parity);
        kg_mbarrier_expect(full, S::STAGE_BYTES);
        kg_tensor_copy(to + S::W_BYTES, &g.x, full, col, (int)(blockIdx.x * ROWS), 0, 0);
#pragma unroll
        for (int i = 0; i < S::SHARE / S::BOX; i++) {
            const uint32_t row = rank * S::SHARE + i * S::BOX, matrix = row >= S::OUTS; /* of the tile of both */
            const int o = (int)(output + row - matrix * S::OUTS);
            if (S::CLUSTER > 1) kg_tensor_copy_multicast(to + row * ROW_BYTES, &g.w[matrix], full, col, o, ALL);
            else kg_tensor_copy(to + row * ROW_BYTES, &g.w[matrix], full, col, o, 0, 0);
        }
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
}

/* A warp has read a stage: its block, or all that copy to it, may write it again. */
template <typename S> static __device__ __forceinline__ void release(bool any, unsigned empty) {
    const uint32_t lane = threadIdx.x % WARP;
    if (S::CLUSTER > 1) kg_mbarrier_arrive_peer_if(any && lane < S::CLUSTER, kg_peer_address(empty, lane % S::CLUSTER));
    else kg_mbarrier_arrive_if(any && lane == 0, empty);
}

/* sum = the products of 64 rows with gates, then ups. */
template <typename S>
static __device__ __forceinline__ void consume(float (&sum)[S::PIECES][S::PIECE / 2], uint32_t n_steps,
                                               const ring &ring) {
    uint32_t stage = 0, parity = 0, before = 0;
#pragma unroll
    for (int p = 0; p < S::PIECES; p++) {
#pragma unroll
        for (int k = 0; k < S::PIECE / 2; k++) sum[p][k] = 0;
        kg_pin(sum[p]);
    }
    for (uint32_t step = 0; step < n_steps; step++) {
        const unsigned at = ring.memory + stage * S::STAGE_BYTES;
        kg_mbarrier_wait(ring.full + 8 * stage, parity);
        const uint64_t w = kg_matrix_descriptor<ROW_BYTES>(at),
                       x = kg_matrix_descriptor<ROW_BYTES>(at + S::W_BYTES + threadIdx.x / 128 * 64 * ROW_BYTES);
        kg_wgmma_fence();
#pragma unroll
        for (uint64_t k = 0; k < 4; k++) /* 16 columns are 32 bytes of a row */
#pragma unroll
            for (uint64_t p = 0; p < S::PIECES; p++)
                kg_wgmma<S::PIECE>::template shared<false>(sum[p], x + 2 * k,
                                                           w + (p * S::PIECE * ROW_BYTES >> 4) + 2 * k, 1);
        kg_wgmma_commit();
        kg_wgmma_wait<1>();
        release<S>(step > 0, ring.empty + 8 * before); /* wgmma has read the step before */
        before = stage;
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
    kg_wgmma_wait<0>();
#pragma unroll
    for (int p = 0; p < S::PIECES; p++) kg_pin(sum[p]);
}

/* Sum j of the thread's gates, then ups (ptx/wgmma.cuh). */
template <typename S>
static __device__ __forceinline__ float sum_of(const float (&sum)[S::PIECES][S::PIECE / 2], int j) {
    return sum[j / (S::PIECE / 2)][j % (S::PIECE / 2)];
}

template <typename S>
static __device__ __forceinline__ void add_bias(float (&sum)[S::PIECES][S::PIECE / 2], const params &g) {
#pragma unroll
    for (int j = 0; j < S::OUTS; j++) {
        const float *bias = g.bias[j >= S::OUTS / 2];
        const int of = j % (S::OUTS / 2);
        const uint32_t o = blockIdx.y * S::OUTS + of / 4 * GROUP + 2 * (threadIdx.x % QUAD) + of % 2;
        if (bias && o < g.n_out) sum[j / (S::PIECE / 2)][j % (S::PIECE / 2)] += bias[o];
    }
}

/* Thread t of a quad has word t of each of four groups; it gets the four words of group t. */
static __device__ __forceinline__ void transpose_quad(unsigned (&v)[QUAD]) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < QUAD; i += 2) {
        const unsigned got = __shfl_xor_sync(~0u, odd ? v[i] : v[i + 1], 1);
        v[i] = odd ? got : v[i], v[i + 1] = odd ? v[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < QUAD / 2; i++) {
        const unsigned got = __shfl_xor_sync(~0u, high ? v[i] : v[i + 2], 2);
        v[i] = high ? got : v[i], v[i + 2] = high ? v[i + 2] : got;
    }
}

/* Four groups of 8 outputs from o on, of a row; v[q]: two neighbours of group q, as wgmma leaves them. Rows begin on 16
 * bytes where n_out is a multiple of 8, else anywhere. */
static __device__ __forceinline__ void store_groups(const params &g, uint32_t row, uint32_t o, unsigned (&v)[QUAD]) {
    const uint32_t t = threadIdx.x % QUAD;
    __half *y = g.y + (size_t)row * g.n_out;
    if (g.n_out % GROUP == 0) {
        transpose_quad(v);
        o += GROUP * t;
        if (row < g.n_rows && o < g.n_out) *reinterpret_cast<uint4 *>(y + o) = make_uint4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (uint32_t q = 0; q < QUAD; q++)
#pragma unroll
        for (uint32_t e = 0; e < 2; e++) {
            const uint32_t at = o + GROUP * q + 2 * t + e;
            if (row < g.n_rows && at < g.n_out) y[at] = __ushort_as_half((unsigned short)(v[q] >> 16 * e));
        }
}

/* The epilogue. */
template <typename S, typename OP>
static __device__ __forceinline__ void store_outputs(const params &g, const OP &op,
                                                     const float (&sum)[S::PIECES][S::PIECE / 2]) {
    const uint32_t lane = threadIdx.x % WARP, row = blockIdx.x * ROWS + threadIdx.x / WARP * 16 + lane / QUAD,
                   output = blockIdx.y * S::OUTS;
#pragma unroll
    for (int i = 0; i < S::OUTS / GROUP; i += QUAD)
#pragma unroll
        for (int half = 0; half < 2; half++) { /* rows 8 apart */
            unsigned v[QUAD];
#pragma unroll
            for (int q = 0; q < QUAD; q++) {
                float of[2];
#pragma unroll
                for (uint32_t e = 0; e < 2; e++) {
                    const int j = 4 * (i + q) + 2 * half + (int)e;
                    of[e] = op.template of<kg_quick_sigmoid>(sum_of<S>(sum, j), sum_of<S>(sum, j + S::OUTS / 2));
                }
                v[q] = kg_pack_halves(of[0], of[1]);
            }
            store_groups(g, row + 8 * half, output + GROUP * i, v);
        }
}

/* Grid: (tiles of rows, tiles of outputs). */
template <typename S>
__global__ void __launch_bounds__(S::THREADS, S::PER_SM) gated_kernel(const __grid_constant__ params g) {
    extern __shared__ unsigned char gated_memory[];
    __shared__ uint64_t barriers[2 * S::STAGES];
    kg_require_sm_90a();
    const unsigned full = kg_shared_address(barriers);
    const ring ring = { (kg_shared_address(gated_memory) + 1023) & ~1023u, full, full + 8 * S::STAGES };
    kg_dependents_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            kg_mbarrier_init(ring.full + 8 * i, 1);
            kg_mbarrier_init(ring.empty + 8 * i, S::CLUSTER * S::CONSUMER_THREADS / WARP);
        }
        kg_mbarrier_init_fence();
    }
    if (S::CLUSTER > 1) kg_cluster_arrive(), kg_cluster_wait(); /* the cluster's barriers are initialised */
    else __syncthreads();
    if (threadIdx.x >= S::CONSUMER_THREADS) {
        if constexpr (S::DIVIDES) kg_registers_decrease<S::PRODUCER_REGISTERS>();
        if (threadIdx.x == S::CONSUMER_THREADS) produce<S>(g, ring, S::CLUSTER > 1 ? kg_cluster_rank() : 0);
        __syncwarp();
    } else {
        if constexpr (S::DIVIDES) kg_registers_increase<S::CONSUMER_REGISTERS>();
        float sum[S::PIECES][S::PIECE / 2];
        consume<S>(sum, (g.n_cols + COLS - 1) / COLS, ring);
        kg_dependency_wait(); /* write-after-read: nothing reads y any more */
        if (g.bias[0] || g.bias[1]) add_bias<S>(sum, g);
        if (g.is_gelu) store_outputs<S>(g, g.gelu, sum);
        else store_outputs<S>(g, g.gate, sum);
    }
    if (S::CLUSTER > 1) kg_cluster_arrive(), kg_cluster_wait(); /* peers copy to this block no more */
}

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static enum kg_status make_map(CUtensorMap *map, const void *data, uint32_t n_rows, uint32_t n_cols, uint32_t box_rows,
                               struct kg_error *err) {
    kg_tensor_extent e = {};
    e.data = data, e.strides.row = n_cols;
    e.n_batch = e.n_heads = 1, e.n_rows = n_rows, e.head_dim = n_cols;
    e.element_bytes = 2, e.box_rows = box_rows, e.box_bytes = ROW_BYTES;
    return kg_tensor_map_make(map, &e, WHAT, err);
}

template <typename S>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                             struct kg_error *err) {
    params g = {};
    g.y = static_cast<__half *>(p->part[0].y);
    g.n_rows = p->n_rows, g.n_out = p->part[0].n_out, g.n_cols = p->n_cols;
    g.is_gelu = p->form == KG_FEW_ROWS_GEGLU, g.gate = p->gate, g.gelu = p->gelu;
    enum kg_status status = make_map(&g.x, p->x, p->n_rows, p->n_cols, ROWS, err);
    for (int i = 0; i < 2 && !status; i++) {
        g.bias[i] = p->part[i].bias;
        status = make_map(&g.w[i], p->part[i].w, g.n_out, p->n_cols, S::BOX, err);
    }
    if (status) return status;
    const dim3 grid(ceil_div(ceil_div(g.n_rows, ROWS), S::CLUSTER) * S::CLUSTER, ceil_div(g.n_out, S::OUTS));
    return kg_launch_dependent(cuda, gated_kernel<S>, grid, S::THREADS, g, WHAT, err, S::BYTES, S::CLUSTER);
}

/* A shape of blocks, in clusters of 1, 2 and 4, and what a step of 64 columns and both ends of a block take, in ns. */
struct kernel {
    enum kg_status (*launch[3])(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                                struct kg_error *err);
    uint32_t outs, per_sm, step, ends;
};
#define KERNEL(outs, stages, per_sm, step, ends)                                                                       \
    {                                                                                                                  \
        { launch<block_shape<outs, 1, stages, per_sm>>, launch<block_shape<outs, 2, stages, per_sm>>,                  \
          launch<block_shape<outs, 4, stages, per_sm>> },                                                              \
            outs, per_sm, step, ends                                                                                   \
    }
static const kernel KERNELS[] = {
    KERNEL(64, 3, 2, 660, 2500),
    KERNEL(128, 4, 1, 660, 3000),
    KERNEL(160, 4, 1, 820, 3200),
    KERNEL(192, 3, 1, 980, 3500),
};

/* The kernel whose estimated time is the shortest. */
static const kernel *choose(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p, uint32_t n_tiles) {
    const kernel *best = NULL;
    uint64_t least = UINT64_MAX;
    for (const kernel &k : KERNELS) {
        const uint64_t at_once = (uint64_t)cuda->n_sms * k.per_sm,
                       waves = ((uint64_t)n_tiles * ceil_div(p->part[0].n_out, k.outs) + at_once - 1) / at_once,
                       ns = waves * ((uint64_t)ceil_div(p->n_cols, COLS) * k.step + k.ends);
        if (ns < least) least = ns, best = &k;
    }
    return best;
}

} // namespace kg_gated

bool kg_cuda_gated_takes(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p) {
    constexpr uint32_t MAX_OUTPUTS = 65535 * 64; /* a grid's tiles */
    return cuda->compute_capability == 90 && p->n_rows > 0 && p->n_cols > 0 && p->n_cols % KG_VECTOR == 0 &&
           (p->form == KG_FEW_ROWS_SWIGLU || p->form == KG_FEW_ROWS_GEGLU) && p->output == KG_PRECISION_F16 &&
           p->part[0].n_out > 0 && p->part[0].n_out <= MAX_OUTPUTS && p->part[0].n_out == p->part[1].n_out &&
           kg_vector_aligned(p->x) && kg_vector_aligned(p->part[0].w) && kg_vector_aligned(p->part[1].w) &&
           kg_vector_aligned(p->part[0].y);
}

enum kg_status kg_cuda_gated(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                             struct kg_error *err) {
    const uint32_t n_tiles = kg_gated::ceil_div(p->n_rows, kg_gated::ROWS);
    return kg_gated::choose(cuda, p, n_tiles)->launch[n_tiles % 4 == 0 ? 2 : n_tiles % 2 == 0](cuda, p, err);
}
