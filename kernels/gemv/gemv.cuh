/* The linear map for few rows (equation: gemv.h), W decoded in registers.
 *
 * x (n_rows, n_in), W (n_experts, n_out, n_in) in any format, y (rows, n_out); row-major.
 *
 * Numerics: products and sums are float32. A lane adds its chunks of 8 in order of i; the 32 lanes are added by a
 * butterfly, then the warps of an output in order; then the bias, and one rounding to y. The order depends on the shape
 * of a row and the number of multiprocessors only.
 *
 * Map: a block is 4 warps; 1, 2 or 4 of them share an output, as many as fill the GPU. Lane l of part p of `parts`
 * takes the chunks (p * 32 + l) + k * 32 * parts: neighbours read neighbouring 16 bytes of a row. All of up to ROWS
 * rows of x use a decoded chunk before the next; rows of x are read from the caches. With experts, each row of y reads
 * its own weights. */
#ifndef KIGO_KERNELS_GEMV_GEMV_CUH
#define KIGO_KERNELS_GEMV_GEMV_CUH

#include "kernels/block/dequant.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"

namespace kg_gemv {

using kg_dequant::CHUNK;

enum { WARP = 32, WARPS = 4, BLOCK_THREADS = WARP * WARPS };
static_assert(WARPS == 4, "1, 2 and 4 warps an output divide the warps of a block");

struct params {
    const void *x;
    const uint8_t *weight;
    size_t row_bytes;
    const float *bias; /* NULL for none */
    void *y;
    bool y_is_f16;
    uint32_t n_rows, n_in, n_out; /* rows of x; outputs of an expert */
    uint32_t parts;               /* warps of an output: 1, 2 or 4 */
    /* Experts only. */
    const int32_t *ids; /* of rows of y */
    uint32_t n_experts, n_sharing;
    uint32_t first_row; /* of y, of this grid */
};

__device__ __forceinline__ void load_8(const float *x, float (&v)[CHUNK]) {
    kg_load_vector(x, v);
}

__device__ __forceinline__ void load_8(const __half *x, float (&v)[CHUNK]) {
    kg_dequant::floats_of_halves(*reinterpret_cast<const uint4 *>(x), v);
}

__device__ __forceinline__ void store(const params &p, size_t at, float y) {
    if (p.y_is_f16) kg_store(static_cast<__half *>(p.y) + at, y);
    else kg_store(static_cast<float *>(p.y) + at, y);
}

/* sum over the lane's chunks of W's row times each of ROWS rows of x, from row `first`; rows past the last repeat it.
 */
template <enum kg_dtype D, typename X, int ROWS, bool WHOLE>
__device__ __forceinline__ void lane_sums(const params &p, uint32_t first, typename kg_dequant::row_type<D>::type row,
                                          uint32_t lane_chunk, float sum[ROWS]) {
    const X *x[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const uint32_t at = first + r < p.n_rows ? first + r : p.n_rows - 1;
        x[r] = static_cast<const X *>(p.x) + (size_t)at * p.n_in;
        sum[r] = 0;
    }
    const uint32_t step = p.parts * WARP * CHUNK;
#pragma unroll 4
    for (uint32_t i = lane_chunk * CHUNK; i < p.n_in; i += step) {
        float w[CHUNK];
        kg_dequant::decode_chunk<D, WHOLE>(row, i, p.n_in, w);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float v[CHUNK];
            if constexpr (WHOLE) {
                load_8(x[r] + i, v);
            } else {
#pragma unroll
                for (uint32_t j = 0; j < CHUNK; j++) v[j] = i + j < p.n_in ? kg_load(x[r] + i + j) : 0.0f;
            }
#pragma unroll
            for (int j = 0; j < CHUNK; j++) sum[r] = fmaf(v[j], w[j], sum[r]);
        }
    }
}

/* Grid: (ceil(n_out / (4 / parts)), ceil(n_rows / ROWS), or rows of y from first_row). */
template <enum kg_dtype D, typename X, int ROWS, bool WHOLE, bool EXPERTS>
__global__ __launch_bounds__(BLOCK_THREADS) void gemv_kernel(const params p) {
    static_assert(!EXPERTS || ROWS == 1, "each row has its expert");
    __shared__ float partial[WARPS][ROWS];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t part = warp % p.parts, o = blockIdx.x * (WARPS / p.parts) + warp / p.parts;
    const uint32_t first = (EXPERTS ? p.first_row : 0) + blockIdx.y * ROWS;
    const uint32_t id = EXPERTS ? (uint32_t)p.ids[first] : 0;
    if (EXPERTS && id >= p.n_experts) return;
    const std::conditional_t<EXPERTS, size_t, uint32_t> output = EXPERTS ? (size_t)id * p.n_out + o : o;
    if (o < p.n_out) {
        float sum[ROWS];
        lane_sums<D, X, ROWS, WHOLE>(p, EXPERTS ? first / p.n_sharing : first,
                                     kg_dequant::row_of<D>(p.weight, output, p.row_bytes), part * WARP + lane, sum);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            sum[r] = kg_warp_reduce<kg_sum>(sum[r]);
            if (lane == 0) partial[warp][r] = sum[r];
        }
    }
    __syncthreads(); /* the sums of an output's other warps are read below */
    if (o >= p.n_out || part != 0 || lane >= ROWS || (!EXPERTS && first + lane >= p.n_rows)) return;
    float total = partial[warp][lane];
    for (uint32_t k = 1; k < p.parts; k++) total += partial[warp + k][lane];
    if (p.bias) total += p.bias[output];
    store(p, (size_t)(first + lane) * p.n_out + o, total);
}

/* Warps that share an output: enough for 16 warps on every multiprocessor, while each lane keeps two chunks. */
static inline uint32_t parts_of(uint32_t n_out, uint32_t n_in, int n_sms) {
    const uint64_t wanted = 16 * (uint64_t)n_sms;
    uint32_t parts = 1;
    while (parts < WARPS && (uint64_t)n_out * parts < wanted && n_in >= parts * 2 * 2 * WARP * CHUNK) parts *= 2;
    return parts;
}

} // namespace kg_gemv

#endif
