/* A block has 128 rows of x and OUTS outputs. x is the left operand of wgmma, so that the sums of a row, gate and up of
 * an output alike, are one thread's: the epilogue is in registers. (Clusters that share the tile of W by multicast were
 * tried: of two blocks, no faster; of four, up to half slower, since not every SM has a place in one.)
 *
 * Map: two consumer warpgroups of 64 rows each; one thread of another warp produces, by TMA: 64 columns of x and of
 * both matrices at a time, to a ring. */
#include "kernels/gemm/gated.h"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma.cuh"

KG_PRELOADED(gemm_gated, KG_SOME_PROMPTS)

namespace kg_gated {

enum { CONSUMERS = 2, ROWS = 64 * CONSUMERS, COLS = 64, ROW_BYTES = 2 * COLS, WARP = 32, GROUP = 8, QUAD = 4 };
static const char WHAT[] = "linear: gate, up and activation";

template <int OUTS_, int STAGES_, int PER_SM_> struct block_shape {
    static constexpr int OUTS = OUTS_, STAGES = STAGES_, PER_SM = PER_SM_;
    /* Outputs of one instruction: gates and ups at once where both fit. */
    static constexpr int PIECE = 2 * OUTS <= 256 ? 2 * OUTS : OUTS, PIECES = 2 * OUTS / PIECE;
    static_assert(PIECES * PIECE == 2 * OUTS && PIECE <= 256, "whole pieces");
    static constexpr int W_BYTES = 2 * OUTS * ROW_BYTES, STAGE_BYTES = W_BYTES + ROWS * ROW_BYTES,
                         BYTES = STAGES * STAGE_BYTES + 1024; /* to align */
    static_assert(BYTES + 512 <= 227 * 1024 / PER_SM, "a block's memory, beside barriers");
    /* A separate warpgroup lets the producer give registers away (setmaxnreg). */
    static constexpr bool DIVIDES = PER_SM == 1;
    static constexpr int CONSUMER_THREADS = CONSUMERS * 128, THREADS = CONSUMER_THREADS + (DIVIDES ? 128 : WARP),
                         PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
};

struct params {
    CUtensorMap x, w[2]; /* boxes: 128, and OUTS, rows of 64 columns */
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

template <typename S> static __device__ __forceinline__ void produce(const params &g, const ring &ring) {
    const uint32_t n_steps = (g.n_cols + COLS - 1) / COLS, output = blockIdx.y * S::OUTS;
    kg_dependency_wait(); /* x is visible */
    for (uint32_t step = 0, stage = 0, parity = 1; step < n_steps; step++) {
        const unsigned to = ring.memory + stage * S::STAGE_BYTES, full = ring.full + 8 * stage;
        const int col = (int)(step * COLS);
        kg_mbarrier_wait(ring.empty + 8 * stage, parity);
        kg_mbarrier_expect(full, S::STAGE_BYTES);
        kg_tensor_copy(to + S::W_BYTES, &g.x, full, col, (int)(blockIdx.x * ROWS), 0, 0);
#pragma unroll
        for (int i = 0; i < 2; i++) kg_tensor_copy(to + i * S::OUTS * ROW_BYTES, &g.w[i], full, col, (int)output, 0, 0);
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
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
        kg_mbarrier_arrive_if(step > 0 && threadIdx.x % WARP == 0, ring.empty + 8 * before); /* wgmma has read it */
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
            kg_mbarrier_init(ring.empty + 8 * i, S::CONSUMER_THREADS / WARP);
        }
        kg_mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x >= S::CONSUMER_THREADS) {
        if constexpr (S::DIVIDES) kg_registers_decrease<S::PRODUCER_REGISTERS>();
        if (threadIdx.x == S::CONSUMER_THREADS) produce<S>(g, ring);
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
}

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static enum kg_status make_map(CUtensorMap *map, const void *data, uint32_t n_rows, uint32_t n_cols, uint32_t box_rows,
                               struct kg_error *err) {
    return kg_tensor_map_make_rows(map, data, n_rows, n_cols, n_cols, box_rows, ROW_BYTES, WHAT, err);
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
        status = make_map(&g.w[i], p->part[i].w, g.n_out, p->n_cols, S::OUTS, err);
    }
    if (status) return status;
    const dim3 grid(ceil_div(g.n_rows, ROWS), ceil_div(g.n_out, S::OUTS));
    return kg_launch_dependent(cuda, gated_kernel<S>, grid, S::THREADS, g, WHAT, err, S::BYTES);
}

/* A shape of blocks, and what a step of 64 columns and both ends of a block take, in ns: fitted to the times of nine
 * shapes with cold weights on one H200, 130 to 4096 rows (docs/prefill.md). */
struct kernel {
    enum kg_status (*launch)(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                             struct kg_error *err);
    uint32_t outs, per_sm, step, ends;
};
static const kernel KERNELS[] = {
    { launch<block_shape<64, 3, 2>>, 64, 2, 760, 2500 },
    { launch<block_shape<128, 4, 1>>, 128, 1, 710, 2300 },
    { launch<block_shape<160, 4, 1>>, 160, 1, 850, 3400 },
    { launch<block_shape<192, 3, 1>>, 192, 1, 1090, 2500 },
};

/* The kernel whose estimated time is the shortest, and that time. */
static const kernel *choose(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p, uint64_t *ns) {
    const kernel *best = NULL;
    for (const kernel &k : KERNELS) {
        const uint64_t at_once = (uint64_t)cuda->n_sms * k.per_sm,
                       n_tiles = (uint64_t)ceil_div(p->n_rows, ROWS) * ceil_div(p->part[0].n_out, k.outs),
                       waves = (n_tiles + at_once - 1) / at_once,
                       time = waves * ((uint64_t)ceil_div(p->n_cols, COLS) * k.step + k.ends);
        if (!best || time < *ns) *ns = time, best = &k;
    }
    return best;
}

/* What the library's products and the activation take, from the same measurements: a rate, and two launches' ends. */
static uint64_t library_ns(const struct kg_few_rows_product *p) {
    constexpr uint64_t FLOP_PER_NS = 620000, ENDS = 3700;
    return 4ull * p->n_rows * p->part[0].n_out * p->n_cols / FLOP_PER_NS + ENDS;
}

} // namespace kg_gated

bool kg_cuda_gated_takes(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p) {
    constexpr uint32_t MAX_OUTPUTS = 65535 * 64; /* a grid's tiles */
    uint64_t ns;
    if (cuda->compute_capability != 90 || p->n_rows == 0 || p->n_cols == 0 || p->n_cols % KG_VECTOR != 0 ||
        (p->form != KG_FEW_ROWS_SWIGLU && p->form != KG_FEW_ROWS_GEGLU) || p->output != KG_PRECISION_F16 ||
        p->part[0].n_out == 0 || p->part[0].n_out > MAX_OUTPUTS || p->part[0].n_out != p->part[1].n_out ||
        !kg_vector_aligned(p->x) || !kg_vector_aligned(p->part[0].w) || !kg_vector_aligned(p->part[1].w) ||
        !kg_vector_aligned(p->part[0].y))
        return false;
    kg_gated::choose(cuda, p, &ns);
    return ns <= kg_gated::library_ns(p);
}

enum kg_status kg_cuda_gated(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                             struct kg_error *err) {
    uint64_t ns;
    return kg_gated::choose(cuda, p, &ns)->launch(cuda, p, err);
}
