/* The linear map for one row and weights that lie as elements (F16, F32): y[o] = sum_i x[i] W[o][i] + bias[o].
 *
 * x (n_in), W (n_out, n_in), y (n_out); n_in a multiple of 8, at most MOST_COLS; x and rows of W on 16 bytes.
 *
 * Numerics: as gemv.cuh: float32 products and sums, a lane's chunks in order, lanes by a butterfly, warps in order, the
 * bias, one rounding. Lane l of warp w of an output has the chunks (w * CHUNKS + k) * 32 + l; warps and CHUNKS depend
 * on the row's shape and the number of multiprocessors only.
 *
 * Map: a block is 8 warps, 1, 2, 4 or 8 of them an output; persistent blocks take outputs round robin. A lane has
 * registers for its chunks of x, as many as the row needs, and of two outputs' rows of W: a row's chunks are under way
 * while the one before it is multiplied. The first two are under way before the launch waits for the one before it
 * (dependent.cuh). */
#ifndef KIGO_KERNELS_GEMV_STREAM_CUH
#define KIGO_KERNELS_GEMV_STREAM_CUH

#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/gemv/gemv.cuh"

namespace kg_gemv {

enum {
    STREAM_WARPS = 8,
    STREAM_THREADS = STREAM_WARPS * WARP,
    MOST_CHUNKS = 4, /* of a lane */
    MOST_COLS = STREAM_WARPS * WARP * MOST_CHUNKS * CHUNK,
    SM_REGISTERS = 65536,
    OTHER_REGISTERS = 16 /* of a thread, beside its chunks */
};

/* Registers of a thread, a multiple of 8: two outputs' chunks of W as they lie, x's as floats, and others. */
template <typename W, int CHUNKS>
constexpr int STREAM_REGISTERS = OTHER_REGISTERS + (CHUNKS * CHUNK) * int(2 * sizeof(W) + sizeof(float)) / 4;

/* Resident blocks a multiprocessor: as many as its registers allow. */
template <typename W, int CHUNKS>
constexpr int STREAM_BLOCKS = SM_REGISTERS / (STREAM_THREADS * STREAM_REGISTERS<W, CHUNKS>);

/* A lane's chunks of a row as they lie, a warp's width apart, from element `first` on. Those past the row's end are
 * never loaded and stay 0. */
template <typename T, int CHUNKS> struct row_chunks {
    kg_raw_vector<T> raw[CHUNKS] = {};
    __device__ __forceinline__ void load(const T *row, uint32_t first, uint32_t n_in) {
#pragma unroll
        for (int k = 0; k < CHUNKS; k++)
            if (first + k * WARP * CHUNK < n_in) raw[k].load(row + first + k * WARP * CHUNK);
    }
    template <typename X> __device__ __forceinline__ float times(const row_chunks<X, CHUNKS> &x) const {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < CHUNKS; k++) {
            float w[CHUNK], v[CHUNK];
            raw[k].to_floats(w);
            x.raw[k].to_floats(v);
#pragma unroll
            for (int j = 0; j < CHUNK; j++) sum = fmaf(v[j], w[j], sum);
        }
        return sum;
    }
};

/* Of a block's outputs, where warps share them. What no warp of an output writes stays 0. */
using shared_sums = float[STREAM_WARPS / 2][STREAM_WARPS];

/* The sums of an output's warps in order. */
__device__ __forceinline__ float sum_of_warps(const float (&sums)[STREAM_WARPS]) {
    float v[STREAM_WARPS];
    kg_load_vector(sums, v);
    float sum = v[0];
#pragma unroll
    for (int k = 1; k < STREAM_WARPS; k++) sum += v[k];
    return sum;
}

/* Grid: blocks for one round of outputs, no more than are resident. All warps take as many rounds: each has a barrier
 * where warps share an output. */
template <typename W, typename X, int CHUNKS>
__global__ void __launch_bounds__(STREAM_THREADS, (STREAM_BLOCKS<W, CHUNKS>)) gemv_stream_kernel(const params p) {
    __shared__ __align__(KG_VECTOR_ALIGN_BYTES) shared_sums partial[2]; /* of even rounds and of odd ones */
    const uint32_t shift = __ffs(p.parts) - 1, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t part = warp & (p.parts - 1), at = warp >> shift; /* parts is a power of two */
    const uint32_t per_block = STREAM_WARPS >> shift, begin = blockIdx.x * per_block, stride = gridDim.x * per_block;
    const uint32_t first = (part * CHUNKS * WARP + lane) * CHUNK;
    const auto load = [&](row_chunks<W, CHUNKS> &chunks, uint32_t o) {
        if (o < p.n_out) chunks.load(reinterpret_cast<const W *>(p.weight) + (size_t)o * p.n_in, first, p.n_in);
    };
    row_chunks<W, CHUNKS> even, odd;
    kg_dependents_start();
    load(even, begin + at);
    load(odd, begin + stride + at);
    /* x to the L2, if it is not there: no thread reads it yet. */
    if (blockIdx.x == 0 && threadIdx.x == 0) kg_bulk_prefetch(p.x, p.n_in * sizeof(X));
    if (threadIdx.x < sizeof(partial) / sizeof(float)) (&partial[0][0][0])[threadIdx.x] = 0;
    __syncthreads();      /* the zeros are visible */
    kg_dependency_wait(); /* x is visible; nothing reads y any more */
    row_chunks<X, CHUNKS> x;
    x.load(static_cast<const X *>(p.x), first, p.n_in);
    const auto multiply = [&](row_chunks<W, CHUNKS> &chunks, uint32_t o, shared_sums &sums) {
        float sum = chunks.times(x);
        kg_pin(sum); /* the chunks have been read: the next ones take their registers */
        load(chunks, o + 2 * stride);
        sum = kg_warp_reduce<kg_sum>(sum);
        if (p.parts > 1) {
            if (lane == 0) sums[at][part] = sum;
            __syncthreads(); /* the sums of an output's warps are visible; those of the round before last are read */
        }
        if (part != 0 || lane != 0 || o >= p.n_out) return;
        if (p.parts > 1) sum = sum_of_warps(sums[at]);
        if (p.bias) sum += p.bias[o];
        if (p.y_is_f16) static_cast<__half *>(p.y)[o] = __float2half_rn(sum);
        else static_cast<float *>(p.y)[o] = sum;
    };
    for (uint32_t o = begin; o < p.n_out; o += 2 * stride) {
        multiply(even, o + at, partial[0]);
        if (o + stride < p.n_out) multiply(odd, o + stride + at, partial[1]);
    }
}

/* Warps of an output and chunks of a lane. Warps: as few as hold a row, more until all multiprocessors have 16 at work.
 * Chunks: what the row then needs; 0 if no number of warps holds it. */
struct stream_plan {
    uint32_t parts, chunks;
};

static inline stream_plan stream_plan_of(uint32_t n_out, uint32_t n_in, int n_sms) {
    const auto chunks_of = [&](uint32_t parts) { return kg_blocks_for(n_in, parts * WARP * CHUNK); };
    uint32_t parts = 1;
    while (parts < STREAM_WARPS && chunks_of(parts) > MOST_CHUNKS) parts *= 2;
    while (parts < STREAM_WARPS && (uint64_t)n_out * parts < 16 * (uint64_t)n_sms && n_in >= parts * 2 * WARP * CHUNK)
        parts *= 2;
    return { parts, n_in <= MOST_COLS ? chunks_of(parts) : 0 };
}

/* Blocks of a launch whose outputs are n blocks' work, n_resident at once: as few as make the fewest rounds. */
static inline uint32_t stream_grid_of(uint32_t n, uint32_t n_resident) {
    return kg_blocks_for(n, kg_blocks_for(n, n_resident));
}

} // namespace kg_gemv

#endif
