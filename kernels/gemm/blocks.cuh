/* Many rows times weights of a block format: the kernel, by wgmma (sm_90a). Equation and numerics: blocks.h.
 *
 * A block has M outputs of N rows. It computes y^T = W x^T: W is the left operand, decoded to registers
 * (block_operand.cuh); x is the right one, in shared memory. The blocks of a cluster split the columns (split-K).
 *
 * Map: two threads of the last warpgroup produce, by TMA: one copies tiles of x (64 columns of N rows) to a ring, one
 * chunks of W (256 columns of M rows) to another. The other CONSUMERS warpgroups have 64 outputs each. */
#ifndef KIGO_KERNELS_GEMM_BLOCKS_CUH
#define KIGO_KERNELS_GEMM_BLOCKS_CUH

#include "kernels/gemm/block_operand.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace kg_block_gemm {

enum { COPY_BYTES = 16, X_ROW_BYTES = TILE_COLS * 2, SHARED_BYTES = 227 * 1024, WARP = 32, MAX_W_MAPS = 8 };

/* TMA reads rows whose distance is a multiple of 16 bytes, from a multiple of 16 bytes. So are eight rows of any of the
 * formats apart: where one is not, row o is row o / 8 of map o % 8, which begins at the 16 bytes that row o % 8 begins
 * in; and a box begins at the 16 bytes that its chunk begins in. */
struct block_gemm_params {
    CUtensorMap x;             /* boxes: N rows of 64 columns */
    CUtensorMap w[MAX_W_MAPS]; /* boxes: M / n_maps rows of w_stride bytes, as 16-bit words */
    const float *bias;         /* NULL for none */
    void *y;
    uint32_t row_bytes, n_maps, w_stride, n_rows, n_out, n_cols, n_split;
    bool y_is_f16, adds; /* y += in place of y = */
};

/* Bytes of a chunk of a row in shared memory, with what comes before it if `begins_anywhere`: an odd multiple of 16, so
 * that a warp's 8 rows have no bank conflicts. */
static constexpr uint32_t chunk_stride(enum kg_dtype dtype, bool begins_anywhere) {
    const uint32_t n_bytes = chunk_bytes(dtype) + (begins_anywhere ? COPY_BYTES - 2 : 0);
    return ((n_bytes + COPY_BYTES - 1) / COPY_BYTES | 1) * COPY_BYTES;
}
/* Rows of Q4_K and Q5_K are of whole 16 bytes. */
static constexpr uint32_t max_chunk_stride(enum kg_dtype dtype) {
    return chunk_stride(dtype, dtype != KG_DTYPE_Q4_K && dtype != KG_DTYPE_Q5_K);
}

template <enum kg_dtype D, int N_, int X_STAGES_, int PER_SM_> struct block_shape {
    static constexpr enum kg_dtype DTYPE = D;
    static constexpr int CONSUMERS = 2, M = CONSUMERS * 64, N = N_, X_STAGES = X_STAGES_, PER_SM = PER_SM_;
    static constexpr int CONSUMER_THREADS = CONSUMERS * 128, THREADS = CONSUMER_THREADS + 128;
    static constexpr int X_BYTES = N * X_ROW_BYTES, W_BYTES = M * max_chunk_stride(D);
    static_assert(W_BYTES / MAX_W_MAPS % 128 == 0, "what a tensor copy is aligned to");
    static constexpr int W_AT = X_STAGES * X_BYTES, ROOM = SHARED_BYTES / PER_SM - 2048 - W_AT, /* beside barriers */
        W_STAGES = ROOM / W_BYTES < 8 ? ROOM / W_BYTES : 8, RINGS_BYTES = W_AT + W_STAGES * W_BYTES;
    static_assert(W_STAGES >= 2, "a chunk is copied while another is multiplied");
    /* Padding: neither writing columns nor reading rows of the sums has bank conflicts. */
    static constexpr int SUM_FLOATS = M + 4, SUM_BYTES = N * SUM_FLOATS * 4;
    static constexpr int BYTES = (RINGS_BYTES > SUM_BYTES ? RINGS_BYTES : SUM_BYTES) + 1024; /* to align */
    static_assert(BYTES <= SHARED_BYTES / PER_SM, "a block's memory");
    /* Both kinds of warpgroups divide the launch's registers (setmaxnreg). */
    static constexpr int PRODUCER_REGISTERS = PER_SM == 1 ? 40 : 24,
                         LAUNCH_REGISTERS = 65536 / PER_SM / THREADS / 8 * 8;
    static constexpr int LEFT_REGISTERS = ((CONSUMERS + 1) * LAUNCH_REGISTERS - PRODUCER_REGISTERS) / CONSUMERS / 8 * 8,
                         CONSUMER_REGISTERS = LEFT_REGISTERS > 240 ? 240 : LEFT_REGISTERS;
};

/* A position in a ring. */
template <int STAGES> struct ring_place {
    uint32_t stage, parity;
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

/* What a block computes; shared memory of its rings and their mbarriers. */
struct block_part {
    uint32_t output, row, begin, end; /* chunks of columns */
    unsigned memory, x_full, x_empty, w_full, w_empty;
};

template <typename S>
static __device__ __forceinline__ void produce_x(const block_gemm_params &g, const block_part &part) {
    ring_place<S::X_STAGES> at = { 0, 1 };
    const uint32_t end = min(part.end * CHUNK_TILES, g.n_cols / TILE_COLS);
    kg_dependency_wait(); /* x is visible */
    for (uint32_t tile = part.begin * CHUNK_TILES; tile < end; tile++, at.next()) {
        kg_mbarrier_wait(part.x_empty + 8 * at.stage, at.parity);
        kg_mbarrier_expect(part.x_full + 8 * at.stage, S::X_BYTES);
        kg_tensor_copy(part.memory + at.stage * S::X_BYTES, &g.x, part.x_full + 8 * at.stage, (int)(tile * TILE_COLS),
                       (int)part.row, 0, 0);
    }
}

/* No dependency wait: no launch writes weights. */
template <typename S>
static __device__ __forceinline__ void produce_w(const block_gemm_params &g, const block_part &part) {
    constexpr uint32_t COPY_WORDS = COPY_BYTES / 2;
    const uint32_t n_bytes = S::M * g.w_stride, map_bytes = n_bytes / g.n_maps;
    const int row = (int)(part.output / g.n_maps);
    ring_place<S::W_STAGES> at = { 0, 1 };
    for (uint32_t chunk = part.begin; chunk < part.end; chunk++, at.next()) {
        const unsigned full = part.w_full + 8 * at.stage, to = part.memory + S::W_AT + at.stage * S::W_BYTES;
        kg_mbarrier_wait(part.w_empty + 8 * at.stage, at.parity);
        kg_mbarrier_expect(full, n_bytes);
        for (uint32_t i = 0; i < g.n_maps; i++) {
            const uint32_t begin = i * g.row_bytes % COPY_BYTES + chunk * chunk_bytes(S::DTYPE);
            kg_tensor_copy(to + i * map_bytes, &g.w[i], full, (int)(begin / COPY_BYTES * COPY_WORDS), row, 0, 0);
        }
    }
}

/* sum += the products of slice K and N rows. Waits until no more than three slices' are in flight. */
template <int N, int K, typename Row>
static __device__ __forceinline__ void multiply_slice(float (&sum)[N / 2], unsigned (&a)[4], const Row &upper,
                                                      const Row &lower, uint64_t x) {
    upper.template get<K>(a[0], a[2]);
    lower.template get<K>(a[1], a[3]);
    kg_pin(a);
    kg_wgmma_fence();
    kg_wgmma<N>::template registers<false>(sum, a, x + (uint64_t)(K * 2), 1);
    kg_wgmma_commit();
    kg_wgmma_wait<3>();
}

/* A consumer's way through the ring of x. */
template <typename S> struct x_reader {
    ring_place<S::X_STAGES> at;
    uint32_t before; /* the stage of the tile before; X_STAGES for none */
};

/* Tile T of a chunk. */
template <int T, typename S, typename Row>
static __device__ __forceinline__ void multiply_tile(float (&sum)[S::N / 2], unsigned (&a)[SLICES][4], Row &upper,
                                                     Row &lower, const block_part &part, x_reader<S> &reader) {
    upper.template load<T>();
    lower.template load<T>();
    kg_mbarrier_wait(part.x_full + 8 * reader.at.stage, reader.at.parity);
    const uint64_t x = kg_matrix_descriptor<X_ROW_BYTES>(part.memory + reader.at.stage * S::X_BYTES);
    multiply_slice<S::N, 0>(sum, a[0], upper, lower, x);
    multiply_slice<S::N, 1>(sum, a[1], upper, lower, x);
    multiply_slice<S::N, 2>(sum, a[2], upper, lower, x);
    multiply_slice<S::N, 3>(sum, a[3], upper, lower, x);
    /* wgmma has read the tile before */
    kg_mbarrier_arrive_if(threadIdx.x % WARP == 0 && reader.before < S::X_STAGES, part.x_empty + 8 * reader.before);
    reader.before = reader.at.stage;
    reader.at.next();
}

/* A consumer warpgroup: sum = the products of the part's columns. */
template <typename S>
static __device__ __forceinline__ void consume(float (&sum)[S::N / 2], const block_gemm_params &g,
                                               const block_part &part) {
    const uint32_t lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane / 4, n_tiles = g.n_cols / TILE_COLS;
    const uint32_t each = S::M / g.n_maps, before = row / each * g.row_bytes;
    ring_place<S::W_STAGES> at = { 0, 0 };
    x_reader<S> reader = { { 0, 0 }, S::X_STAGES };
    unsigned a[SLICES][4];
#pragma unroll
    for (int k = 0; k < S::N / 2; k++) sum[k] = 0;
    kg_pin(sum);
    kg_wgmma_fence();
    for (uint32_t chunk = part.begin; chunk < part.end; chunk++) {
        const unsigned stage = part.memory + S::W_AT + at.stage * S::W_BYTES + row * g.w_stride;
        const unsigned upper_at = stage + (before + chunk * chunk_bytes(S::DTYPE)) % COPY_BYTES;
        kg_mbarrier_wait(part.w_full + 8 * at.stage, at.parity);
        lane_row<S::DTYPE> upper(upper_at, lane % 4), lower(upper_at + 8 * g.w_stride, lane % 4);
        const uint32_t left = n_tiles - chunk * CHUNK_TILES;
        multiply_tile<0, S>(sum, a, upper, lower, part, reader);
        if (left > 1) multiply_tile<1, S>(sum, a, upper, lower, part, reader);
        if (left > 2) multiply_tile<2, S>(sum, a, upper, lower, part, reader);
        if (left > 3) multiply_tile<3, S>(sum, a, upper, lower, part, reader);
        kg_mbarrier_arrive_if(lane == 0, part.w_empty + 8 * at.stage);
        at.next();
    }
    kg_wgmma_wait<0>();
    kg_pin(sum);
}

/* Address of sum k of this thread (ptx/wgmma.cuh): rows of y, SUM_FLOATS apart. Maps of W lie one after the other. */
template <typename S> __device__ __forceinline__ unsigned sum_at(const block_gemm_params &g, unsigned sums, int k) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = S::M / g.n_maps;
    const uint32_t at = warp * 16 + lane / 4 + k / 2 % 2 * 8, col = k / 4 * 8 + lane % 4 * 2 + k % 2,
                   o = at % each * g.n_maps + at / each;
    return sums + (col * S::SUM_FLOATS + o) * (unsigned)sizeof(float);
}

/* Four outputs of a row of y, or as many as there are. */
template <typename Y>
static __device__ __forceinline__ void store_each(Y *y, bool adds, uint32_t n, const float (&v)[4]) {
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        if (j < n) y[j] = static_cast<Y>(adds ? static_cast<float>(y[j]) + v[j] : v[j]);
}
static __device__ __forceinline__ void store_four(const block_gemm_params &g, size_t at, uint32_t n, float (&v)[4]) {
    if (g.n_out % 4 != 0) { /* rows of y begin anywhere */
        if (g.y_is_f16) store_each(static_cast<__half *>(g.y) + at, g.adds, n, v);
        else store_each(static_cast<float *>(g.y) + at, g.adds, n, v);
    } else if (g.y_is_f16) {
        uint2 *to = reinterpret_cast<uint2 *>(static_cast<__half *>(g.y) + at);
        if (g.adds) {
            const uint2 was = *to;
            const float2 a = __half22float2(halves_of(was.x)), b = __half22float2(halves_of(was.y));
            v[0] += a.x, v[1] += a.y, v[2] += b.x, v[3] += b.y;
        }
        *to = make_uint2(bits_of(__floats2half2_rn(v[0], v[1])), bits_of(__floats2half2_rn(v[2], v[3])));
    } else {
        float4 *to = reinterpret_cast<float4 *>(static_cast<float *>(g.y) + at);
        if (g.adds) {
            const float4 was = *to;
            v[0] += was.x, v[1] += was.y, v[2] += was.z, v[3] += was.w;
        }
        *to = make_float4(v[0], v[1], v[2], v[3]);
    }
}

/* The epilogue: y of this block's rows, every n_splitth, from the sums of the cluster's blocks. A warp to a row. */
template <typename S>
static __device__ __forceinline__ void store_outputs(const block_gemm_params &g, const block_part &part,
                                                     uint32_t mine) {
    static_assert(S::M == 4 * WARP, "four outputs a lane");
    const uint32_t o = part.output + threadIdx.x % WARP * 4, n = o < g.n_out ? min(g.n_out - o, 4) : 0;
    const uint32_t end = min(g.n_rows - part.row, (uint32_t)S::N), step = g.n_split * (S::CONSUMER_THREADS / WARP);
    float bias[4];
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) bias[j] = g.bias && j < n ? g.bias[o + j] : 0.0f;
    if (n == 0) return;
#pragma unroll 4
    for (uint32_t row = mine + threadIdx.x / WARP * g.n_split; row < end; row += step) {
        const unsigned at = part.memory + (row * S::SUM_FLOATS + threadIdx.x % WARP * 4) * (unsigned)sizeof(float);
        float4 sum = g.n_split == 1 ? kg_load_shared<float4>(at) : kg_load_peer<float4>(kg_peer_address(at, 0));
        for (uint32_t r = 1; r < g.n_split; r++) {
            const float4 w = kg_load_peer<float4>(kg_peer_address(at, r));
            sum.x += w.x, sum.y += w.y, sum.z += w.z, sum.w += w.w;
        }
        float v[4] = { sum.x + bias[0], sum.y + bias[1], sum.z + bias[2], sum.w + bias[3] };
        store_four(g, (size_t)(part.row + row) * g.n_out + o, n, v);
    }
}

/* Grid: (blocks of a cluster, tiles of rows, tiles of outputs). */
template <typename S>
__global__ void __launch_bounds__(S::THREADS, S::PER_SM)
    block_gemm_kernel(const __grid_constant__ block_gemm_params g) {
    extern __shared__ unsigned char block_gemm_memory[];
    __shared__ uint64_t barriers[2 * (S::X_STAGES + S::W_STAGES)];
    kg_require_sm_90a();
    const uint32_t rank = g.n_split > 1 ? kg_cluster_rank() : 0, n_chunks = (g.n_cols + CHUNK_COLS - 1) / CHUNK_COLS;
    block_part part;
    part.output = blockIdx.z * S::M;
    part.row = blockIdx.y * S::N;
    part.begin = n_chunks * rank / g.n_split;
    part.end = n_chunks * (rank + 1) / g.n_split;
    part.memory = (kg_shared_address(block_gemm_memory) + 1023) & ~1023u;
    part.x_full = kg_shared_address(barriers);
    part.x_empty = part.x_full + 8 * S::X_STAGES;
    part.w_full = part.x_empty + 8 * S::X_STAGES;
    part.w_empty = part.w_full + 8 * S::W_STAGES;
    kg_dependents_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::X_STAGES; i++) {
            kg_mbarrier_init(part.x_full + 8 * i, 1);
            kg_mbarrier_init(part.x_empty + 8 * i, S::CONSUMER_THREADS / WARP);
        }
        for (int i = 0; i < S::W_STAGES; i++) {
            kg_mbarrier_init(part.w_full + 8 * i, 1);
            kg_mbarrier_init(part.w_empty + 8 * i, S::CONSUMER_THREADS / WARP);
        }
        kg_mbarrier_init_fence();
    }
    __syncthreads(); /* barriers are initialised */
    if (threadIdx.x >= S::CONSUMER_THREADS) {
        kg_registers_decrease<S::PRODUCER_REGISTERS>();
        if (threadIdx.x == S::CONSUMER_THREADS) produce_x<S>(g, part);
        if (threadIdx.x == S::CONSUMER_THREADS + WARP) produce_w<S>(g, part);
        __syncwarp();
        if (g.n_split > 1) kg_cluster_arrive(), kg_cluster_wait(), kg_cluster_arrive(), kg_cluster_wait();
        return;
    }
    kg_registers_increase<S::CONSUMER_REGISTERS>();
    float sum[S::N / 2];
    consume<S>(sum, g, part);
    kg_barrier_sync(1, S::CONSUMER_THREADS); /* write-after-read: sums overwrite the rings */
#pragma unroll
    for (int k = 0; k < S::N / 2; k++) kg_store_shared(sum_at<S>(g, part.memory, k), sum[k]);
    if (g.n_split > 1) {
        kg_cluster_arrive();
        kg_cluster_wait(); /* the cluster's sums are visible */
    } else {
        kg_barrier_sync(1, S::CONSUMER_THREADS); /* sums are visible */
    }
    kg_dependency_wait(); /* write-after-read: nothing reads y any more */
    store_outputs<S>(g, part, rank);
    if (g.n_split > 1) {
        kg_cluster_arrive();
        kg_cluster_wait(); /* peers have read this block's sums */
    }
}

} // namespace kg_block_gemm

#endif
