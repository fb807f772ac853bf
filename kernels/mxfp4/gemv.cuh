/* Few rows times MXFP4 weights in tiles (equation: mxfp4.h): the kernel.
 *
 * Tensor cores take 16 rows of W against 8 rows of x at a time, COLUMNS / 8 times for each decoded tile; rows of x that are
 * not there repeat one that is, and are not stored.
 *
 * Numerics: products of 32 columns are exact and summed by tensor cores in float32 from zero; times the block's scale they
 * are added in float32, in order of columns among those of a warp; then the warps in order, the bias, one rounding. A row of
 * y depends neither on the other rows nor on COLUMNS nor on the number of multiprocessors.
 *
 * Map: a block is 8 warps that share a group of 16 rows of W: warp w takes tiles w, w + 8, .... Blocks stay, and take groups
 * (of one chunk of rows of y after the other) in turn; a lane has its next STAGES tiles under way while it multiplies, across
 * groups too. x lies in shared memory, in the order of the right operand: 16 bytes are a lane's part of 32 columns.
 *
 * With ids, each block sorts the few rows of y by expert for itself. */
#ifndef KIGO_KERNELS_MXFP4_GEMV_CUH
#define KIGO_KERNELS_MXFP4_GEMV_CUH

#include "kernels/dependent.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/mxfp4/tiles.cuh"

namespace kg_mxfp4 {

enum { GEMV_WARPS = 8, GEMV_THREADS = GEMV_WARPS * 32, GEMV_STAGES = 4, X_PAD_BYTES = 64 };

struct gemv_params {
    struct kg_mxfp4_product p;
    uint32_t chunk_rows; /* of y at a time: at most COLUMNS */
};

/* Rows of y by expert, in pieces of chunk_rows. */
struct gemv_chunks {
    uint32_t n_chunks;
    uint32_t expert[KG_MXFP4_GEMV_MAX_ROWS], first[KG_MXFP4_GEMV_MAX_ROWS], size[KG_MXFP4_GEMV_MAX_ROWS];
    uint32_t row[KG_MXFP4_GEMV_MAX_ROWS];
    int32_t id[KG_MXFP4_GEMV_MAX_ROWS];
};

/* Rows as they come. */
static __device__ void chunk_rows(gemv_chunks *c, const gemv_params &g) {
    const uint32_t r = threadIdx.x;
    if (r < g.p.n_rows) c->row[r] = r;
    if (r * g.chunk_rows < g.p.n_rows) {
        c->expert[r] = 0;
        c->first[r] = r * g.chunk_rows;
        c->size[r] = min(g.chunk_rows, g.p.n_rows - r * g.chunk_rows);
    }
    __syncthreads(); /* chunks are there */
}

/* A thread a row: where it comes among the sorted, and whether it begins a chunk. An id that is no expert's gives no row. */
static __device__ void sort_rows(gemv_chunks *c, const gemv_params &g) {
    const uint32_t r = threadIdx.x, n = g.p.n_rows;
    if (r < n) c->id[r] = g.p.ids[r];
    __syncthreads(); /* ids are there */
    uint32_t rank = 0, before = 0, same = 0, n_chunks = 0, my_chunk = 0;
    const bool mine = r < n && c->id[r] >= 0 && (uint32_t)c->id[r] < g.p.n_experts;
    for (uint32_t i = 0; i < n && mine; i++) {
        if (c->id[i] == c->id[r]) rank += i < r, same++;
        else before += c->id[i] >= 0 && c->id[i] < c->id[r];
    }
    if (mine) c->row[before + rank] = r;
    const bool begins = mine && rank % g.chunk_rows == 0;
    if (r < n) c->first[r] = begins ? before + rank : UINT32_MAX;
    __syncthreads(); /* who begins a chunk, and where it lies */
    for (uint32_t i = 0; i < n && r < n; i++) {
        n_chunks += c->first[i] != UINT32_MAX;
        my_chunk += c->first[i] < before + rank;
    }
    __syncthreads(); /* all have counted */
    if (begins) {
        c->expert[my_chunk] = (uint32_t)c->id[r];
        c->first[my_chunk] = before + rank;
        c->size[my_chunk] = min(g.chunk_rows, same - rank);
    }
    if (r == 0) c->n_chunks = n_chunks;
    __syncthreads(); /* chunks are there */
}

/* The chunk's rows of x to shared memory: 16 bytes hold columns c + 0, 8, 16, 24 of c = 2 t, 2 t + 1. A thread takes four
 * times 8 columns of neighbouring threads, all under way before the first is stored. */
static __device__ void stage_x(unsigned char *to, const gemv_chunks *c, uint32_t chunk, const gemv_params &g,
                               uint32_t x_bytes) {
    constexpr uint32_t AT_ONCE = 4;
    const uint32_t pieces = g.p.n_cols / 8, n = c->size[chunk] * pieces;
    for (uint32_t first = threadIdx.x; first < n; first += GEMV_THREADS * AT_ONCE) {
        uint4 v[AT_ONCE];
        uint32_t at[AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const uint32_t i = min(first + k * GEMV_THREADS, n - 1), col = i / pieces, piece = i % pieces;
            const uint32_t row = c->row[c->first[chunk] + col] / g.p.n_sharing;
            v[k] = *reinterpret_cast<const uint4 *>(g.p.x + (size_t)row * g.p.n_cols + piece * 8);
            at[k] = col * x_bytes + piece / 4 * 64 + piece % 4 * 4;
        }
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            uint32_t *word = reinterpret_cast<uint32_t *>(to + at[k]);
            word[0] = v[k].x, word[4] = v[k].y, word[8] = v[k].z, word[12] = v[k].w;
        }
    }
}

/* sum += a tile times the rows of x whose first part is at x[0 ..]. */
template <int NT>
static __device__ __forceinline__ void multiply_tile(float (&sum)[NT][4], const lane_tile &tile,
                                                     const unsigned char *const (&x)[NT], uint32_t offset) {
    const uint32_t words[4] = { tile.codes.x, tile.codes.y, tile.codes.z, tile.codes.w };
    float scale[4];
    float_scales(tile.scales, scale);
#pragma unroll
    for (int block = 0; block < 2; block++) {
        uint32_t low[4], high[4];
        place(words[2 * block], low);
        place(words[2 * block + 1], high);
#pragma unroll
        for (int i = 0; i < NT; i++) {
            const uint4 v = *reinterpret_cast<const uint4 *>(x[i] + offset + block * 64);
            const uint32_t b[4] = { v.x, v.y, v.z, v.w };
            multiply_block(sum[i], low, high, b, scale[2 * block], scale[2 * block + 1]);
        }
    }
}

template <int COLUMNS>
__global__ void __launch_bounds__(GEMV_THREADS, 2) gemv_kernel(const __grid_constant__ gemv_params g) {
    constexpr int NT = COLUMNS / 8, PARTIAL_ROWS = GROUP_ROWS + 1;
    extern __shared__ uint4 gemv_memory[];
    __shared__ float partial[2][GEMV_WARPS][COLUMNS][PARTIAL_ROWS];
    __shared__ gemv_chunks chunks;
    unsigned char *x_shared = reinterpret_cast<unsigned char *>(gemv_memory);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t n_tiles = g.p.n_cols / TILE_COLS, n_groups = g.p.n_out / GROUP_ROWS;
    const uint32_t x_bytes = g.p.n_cols * (uint32_t)sizeof(__half) + X_PAD_BYTES;
    const lane_view weight(g.p.weight, g.p.n_cols, lane);
    lane_tile ring[GEMV_STAGES] = {};
    kg_dependents_start();
    uint32_t n_chunks = (g.p.n_rows + g.chunk_rows - 1) / g.chunk_rows;
    if (g.p.ids) {
        kg_dependency_wait(); /* ids and x are there, and whoever read y has done so */
        sort_rows(&chunks, g);
        n_chunks = chunks.n_chunks;
    }
    const uint64_t n_items = (uint64_t)n_chunks * n_groups;
    const uint32_t begin = (uint32_t)(n_items * blockIdx.x / gridDim.x),
                   end = (uint32_t)(n_items * (blockIdx.x + 1) / gridDim.x);
    if (begin >= end) return;
    const auto group_of = [&](uint32_t item) {
        const uint32_t chunk = item / n_groups;
        return (g.p.ids ? chunks.expert[chunk] * n_groups : 0) + item % n_groups;
    };
    const uint8_t *codes = weight.codes_at(group_of(begin), warp), *scales = weight.scales_at(group_of(begin), warp);
    const auto load = [&](int u, uint32_t first, bool any) {
        load_tile(ring[u], codes + u * GEMV_WARPS * CODES_BYTES, scales + u * GEMV_WARPS * SCALES_BYTES,
                  any && first + u * GEMV_WARPS < n_tiles);
    };
#pragma unroll
    for (int u = 0; u < GEMV_STAGES; u++) load(u, warp, true);
    if (!g.p.ids) {
        kg_dependency_wait(); /* x is there, and whoever read y has done so */
        chunk_rows(&chunks, g);
    }
    uint32_t staged = UINT32_MAX;
    for (uint32_t item = begin; item < end; item++) {
        const uint32_t chunk = item / n_groups, size = chunks.size[chunk];
        if (chunk != staged) {
            __syncthreads(); /* the rows before are no longer read */
            stage_x(x_shared, &chunks, chunk, g, x_bytes);
            staged = chunk;
            __syncthreads(); /* x is there */
        }
        const unsigned char *x[NT];
#pragma unroll
        for (int i = 0; i < NT; i++) x[i] = x_shared + min(lane / 4 + 8 * i, size - 1) * x_bytes + lane % 4 * 16;
        float sum[NT][4] = {};
        for (uint32_t first = warp; first < n_tiles; first += GEMV_WARPS * GEMV_STAGES) {
            /* What is fetched next: this group's tiles as many further on, or the next item's first. */
            uint32_t coming = first + GEMV_WARPS * GEMV_STAGES;
            bool any = true;
            codes += GEMV_WARPS * GEMV_STAGES * CODES_BYTES, scales += GEMV_WARPS * GEMV_STAGES * SCALES_BYTES;
            if (coming >= n_tiles) {
                any = item + 1 < end;
                const uint32_t next = group_of(any ? item + 1 : item);
                coming = warp;
                codes = weight.codes_at(next, warp), scales = weight.scales_at(next, warp);
            }
#pragma unroll
            for (int u = 0; u < GEMV_STAGES; u++) {
                const uint32_t tile = first + u * GEMV_WARPS;
                if (tile < n_tiles) multiply_tile<NT>(sum, ring[u], x, tile * TILE_COLS * (uint32_t)sizeof(__half));
                load(u, coming, any);
            }
        }
        float(*mine)[PARTIAL_ROWS] = partial[item % 2][warp];
#pragma unroll
        for (int i = 0; i < NT; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) mine[8 * i + lane % 4 * 2 + k % 2][lane / 4 + k / 2 * 8] = sum[i][k];
        __syncthreads(); /* all parts are there; those of the item before last have been read */
        for (uint32_t i = threadIdx.x; i < size * GROUP_ROWS; i += GEMV_THREADS) {
            const uint32_t col = i / GROUP_ROWS, r = i % GROUP_ROWS;
            float total = 0;
#pragma unroll
            for (int w = 0; w < GEMV_WARPS; w++) total += partial[item % 2][w][col][r];
            total *= 1 / PLACED_UNIT;
            const uint32_t o = item % n_groups * GROUP_ROWS + r;
            if (g.p.bias) total += g.p.bias[(size_t)chunks.expert[chunk] * g.p.n_out + o];
            const size_t at = (size_t)chunks.row[chunks.first[chunk] + col] * g.p.n_out + o;
            if (g.p.y_is_f16) static_cast<__half *>(g.p.y)[at] = __float2half_rn(total);
            else static_cast<float *>(g.p.y)[at] = total;
        }
    }
}

} // namespace kg_mxfp4

#endif
