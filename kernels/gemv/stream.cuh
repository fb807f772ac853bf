/* The linear map for one row and weights that lie as elements (F16, F32): y[o] = sum_i x[i] W[o][i] + bias[o].
 *
 * x (n_in), W (n_out, n_in), y (n_out); n_in a multiple of 8, at most MOST_COLS; x and rows of W on 16 bytes.
 *
 * Numerics: as gemv.cuh: float32 products and sums, a lane's chunks in order, lanes by a butterfly, warps in order, the
 * bias, one rounding.
 *
 * Map: a block is 8 warps, 1, 2, 4 or 8 of them an output; persistent blocks take outputs round robin. A lane keeps its
 * chunks of x in registers, and has the next output's chunks of W under way while it multiplies this one's. The first
 * chunks are under way before the launch waits for the one before it (dependent.cuh). */
#ifndef KIGO_KERNELS_GEMV_STREAM_CUH
#define KIGO_KERNELS_GEMV_STREAM_CUH

#include "kernels/ptx/dependent.cuh"
#include "kernels/gemv/gemv.cuh"

namespace kg_gemv {

enum {
    STREAM_WARPS = 8,
    STREAM_THREADS = STREAM_WARPS * WARP,
    LANE_CHUNKS = 4,
    MOST_COLS = STREAM_WARPS * WARP * LANE_CHUNKS * CHUNK
};

/* Resident blocks a multiprocessor: as many as registers for their chunks allow. */
template <typename W, typename X> constexpr int STREAM_BLOCKS = sizeof(W) + sizeof(X) == 2 * sizeof(__half) ? 3 : 2;

/* A lane's chunks of a row as they lie; past the row's end the first of all, whose x is 0. */
template <typename W> struct row_chunks {
    kg_raw_vector<W> raw[LANE_CHUNKS];
    __device__ __forceinline__ void load(const W *row, uint32_t first, uint32_t step, uint32_t n_in) {
#pragma unroll
        for (int k = 0; k < LANE_CHUNKS; k++) raw[k].load(row + (first + k * step < n_in ? first + k * step : 0));
    }
    template <typename X> __device__ __forceinline__ float times(const kg_raw_vector<X> (&x)[LANE_CHUNKS]) const {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < LANE_CHUNKS; k++) {
            float w[CHUNK], v[CHUNK];
            raw[k].to_floats(w);
            x[k].to_floats(v);
#pragma unroll
            for (int j = 0; j < CHUNK; j++) sum = fmaf(v[j], w[j], sum);
        }
        return sum;
    }
};

/* Grid: blocks for one round of outputs, no more than are resident. All warps take as many rounds: each has barriers.
 */
template <typename W, typename X>
__global__ void __launch_bounds__(STREAM_THREADS, (STREAM_BLOCKS<W, X>)) gemv_stream_kernel(const params p) {
    __shared__ float partial[2][STREAM_WARPS];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, part = warp % p.parts;
    const uint32_t per_block = STREAM_WARPS / p.parts, stride = gridDim.x * per_block;
    const uint32_t first = (part * WARP + lane) * CHUNK, step = p.parts * WARP * CHUNK;
    const W *weight = reinterpret_cast<const W *>(p.weight);
    const uint32_t n_rounds = (p.n_out + stride - 1) / stride;
    uint32_t o = blockIdx.x * per_block + warp / p.parts;
    row_chunks<W> now, next;
    const auto row = [&](uint32_t output) { return weight + (size_t)min(output, p.n_out - 1) * p.n_in; };
    kg_dependents_start();
    now.load(row(o), first, step, p.n_in);
    kg_dependency_wait(); /* x is visible; nothing reads y any more */
    kg_raw_vector<X> x[LANE_CHUNKS] = {};
#pragma unroll
    for (int k = 0; k < LANE_CHUNKS; k++)
        if (first + k * step < p.n_in) x[k].load(static_cast<const X *>(p.x) + first + k * step);
    for (uint32_t round = 0; round < n_rounds; round++, o += stride) {
        if (round + 1 < n_rounds) next.load(row(o + stride), first, step, p.n_in);
        float sum = kg_warp_reduce<kg_sum>(now.times(x));
        if (p.parts > 1) {
            if (lane == 0) partial[round % 2][warp] = sum;
            __syncthreads(); /* the sums of an output's other warps are visible; those of the round before last are read
                              */
            for (uint32_t k = 1; k < p.parts && part == 0; k++) sum += partial[round % 2][warp + k];
        }
        if (part == 0 && lane == 0 && o < p.n_out) {
            if (p.bias) sum += p.bias[o];
            if (p.y_is_f16) static_cast<__half *>(p.y)[o] = __float2half_rn(sum);
            else static_cast<float *>(p.y)[o] = sum;
        }
        now = next;
    }
}

/* Warps of an output: as few as hold a row, more until all multiprocessors have 16 at work. 0 if no number of them
 * holds it. */
static inline uint32_t stream_parts_of(uint32_t n_out, uint32_t n_in, int n_sms) {
    uint32_t parts = 1;
    while (parts <= STREAM_WARPS && parts * WARP * LANE_CHUNKS * CHUNK < n_in) parts *= 2;
    if (parts > STREAM_WARPS) return 0;
    while (parts < STREAM_WARPS && (uint64_t)n_out * parts < 16 * (uint64_t)n_sms && n_in >= parts * 2 * WARP * CHUNK)
        parts *= 2;
    return parts;
}

} // namespace kg_gemv

#endif
