/* Few rows times repacked MXFP4 weights (equation: mxfp4.h): the kernel.
 *
 * Tensor cores multiply 16 rows of W by 8 rows of x at a time, COLUMNS / 8 times for each decoded tile. Missing rows of
 * x repeat one that exists and are not stored.
 *
 * Numerics: products of 32 columns are exact; tensor cores sum them in float32 from zero. Times the block's scale, they
 * are added in float32, in order of columns, to one of GEMV_STAGES sums, between which a warp's tiles alternate. The
 * sums are added in pairs, the warps' in two halves, each in order; then come the bias and one rounding. A row of y
 * depends neither on the other rows nor on COLUMNS.
 *
 * Map: a block is 16 warps that share a group of 16 rows of W: warp w has tiles w, w + 16, .... Blocks are persistent:
 * each has a range of (chunk of rows of y, group). A lane has its next GEMV_STAGES tiles in flight while it multiplies,
 * across groups too. x lies in shared memory in the order of the right operand: 16 bytes are a lane's part of 32
 * columns.
 *
 * With ids, each block sorts the rows of y by expert for itself: they are few. */
#ifndef KIGO_KERNELS_MXFP4_GEMV_CUH
#define KIGO_KERNELS_MXFP4_GEMV_CUH

#include "kernels/ptx/dependent.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/mxfp4/layout.cuh"

namespace kg_mxfp4 {

enum { GEMV_WARPS = 16, GEMV_STAGES = 4, X_PAD_BYTES = 64 };

struct gemv_params {
    struct kg_mxfp4_product p;
    uint32_t chunk_rows; /* rows of y at a time: at most COLUMNS */
};

/* Rows of y by expert, in chunks of chunk_rows. */
struct gemv_chunks {
    uint32_t n_chunks;
    uint32_t expert[KG_MXFP4_GEMV_MAX_ROWS], first[KG_MXFP4_GEMV_MAX_ROWS], size[KG_MXFP4_GEMV_MAX_ROWS];
    uint32_t row[KG_MXFP4_GEMV_MAX_ROWS];   /* of y, sorted */
    uint32_t x_row[KG_MXFP4_GEMV_MAX_ROWS]; /* the row of x of each */
    int32_t id[KG_MXFP4_GEMV_MAX_ROWS];
};

/* Map: a thread a row. It counts the row's rank among the sorted, and whether it begins a chunk. An id that is not an
 * expert's gives no row. */
static __device__ void sort_rows(gemv_chunks *c, const gemv_params &g) {
    const uint32_t r = threadIdx.x, n = g.p.n_rows;
    if (r < n) c->id[r] = g.p.ids[r];
    __syncthreads(); /* ids are visible */
    uint32_t rank = 0, before = 0, same = 0, n_chunks = 0, my_chunk = 0;
    const bool mine = r < n && c->id[r] >= 0 && (uint32_t)c->id[r] < g.p.n_experts;
    for (uint32_t i = 0; i < n && mine; i++) {
        if (c->id[i] == c->id[r]) rank += i < r, same++;
        else before += c->id[i] >= 0 && c->id[i] < c->id[r];
    }
    if (mine) {
        c->row[before + rank] = r;
        c->x_row[before + rank] = r / g.p.n_sharing;
    }
    const bool begins = mine && rank % g.chunk_rows == 0;
    if (r < n) c->first[r] = begins ? before + rank : UINT32_MAX;
    __syncthreads(); /* beginnings of chunks are visible */
    for (uint32_t i = 0; i < n && r < n; i++) {
        n_chunks += c->first[i] != UINT32_MAX;
        my_chunk += c->first[i] < before + rank;
    }
    __syncthreads(); /* write-after-read: all have counted */
    if (begins) {
        c->expert[my_chunk] = (uint32_t)c->id[r];
        c->first[my_chunk] = before + rank;
        c->size[my_chunk] = min(g.chunk_rows, same - rank);
    }
    if (r == 0) c->n_chunks = n_chunks;
    __syncthreads(); /* chunks are visible */
}

/* Copies rows of x to shared memory: 16 bytes hold columns c + 0, 8, 16, 24 of c = 2 t, 2 t + 1. A thread loads 8
 * columns of two rows before it stores the first. row_of(i): the chunk's row i. */
template <typename Row>
static __device__ __forceinline__ void stage_x(unsigned char *to, uint32_t n_rows, const kg_mxfp4_product &p,
                                               uint32_t x_bytes, const Row &row_of) {
    constexpr uint32_t AT_ONCE = 2;
    const auto store = [&](const uint4 &v, uint32_t row, uint32_t piece) {
        uint32_t *word = reinterpret_cast<uint32_t *>(to + row * x_bytes + piece / 4 * 64 + piece % 4 * 4);
        word[0] = v.x, word[4] = v.y, word[8] = v.z, word[12] = v.w;
    };
    for (uint32_t first = 0; first < n_rows; first += AT_ONCE) {
        const uint32_t second = min(first + 1, n_rows - 1);
        const __half *x0 = p.x + (size_t)row_of(first) * p.n_cols, *x1 = p.x + (size_t)row_of(second) * p.n_cols;
#pragma unroll 2
        for (uint32_t piece = threadIdx.x; piece < p.n_cols / 8; piece += blockDim.x) {
            const uint4 v0 = *reinterpret_cast<const uint4 *>(x0 + piece * 8);
            const uint4 v1 = second > first ? *reinterpret_cast<const uint4 *>(x1 + piece * 8) : v0;
            store(v0, first, piece);
            if (second > first) store(v1, second, piece);
        }
    }
}

/* sum += a tile times the rows of x that begin at x[0 ..]. */
template <int NT>
static __device__ __forceinline__ void multiply_tile(float (&sum)[NT][4], const lane_tile &tile,
                                                     const unsigned char *const (&x)[NT], uint32_t offset) {
    const uint32_t words[4] = { tile.codes.x, tile.codes.y, tile.codes.z, tile.codes.w };
    float scale[4];
    float_scales(tile.scales, scale);
#pragma unroll
    for (int block = 0; block < 2; block++) {
        uint32_t low[4], high[4];
        unpack(words[2 * block], low);
        unpack(words[2 * block + 1], high);
#pragma unroll
        for (int i = 0; i < NT; i++) {
            const uint4 v = *reinterpret_cast<const uint4 *>(x[i] + offset + block * 64);
            const uint32_t b[4] = { v.x, v.y, v.z, v.w };
            multiply_block(sum[i], low, high, b, scale[2 * block], scale[2 * block + 1]);
        }
    }
}

/* sum[u] += tile u of the ring's first COUNT, `step` apart in x. */
template <int COUNT, int NT>
static __device__ __forceinline__ void multiply_tiles(float (&sum)[GEMV_STAGES][NT][4],
                                                      const lane_tile (&ring)[GEMV_STAGES],
                                                      const unsigned char *const (&x)[NT], uint32_t offset,
                                                      uint32_t step) {
#pragma unroll
    for (int u = 0; u < COUNT; u++) multiply_tile<NT>(sum[u], ring[u], x, offset + u * step);
}

/* The sum of of(0) to of(WARPS - 1): the halves side by side, each in order. */
template <int WARPS, typename Of> static __device__ __forceinline__ float add_warps(const Of &of) {
    float low = 0, high = 0;
#pragma unroll
    for (int w = 0; w < WARPS / 2; w++) low += of(w), high += of(w + WARPS / 2);
    return low + high;
}

/* A group of 16 outputs for a chunk of rows. */
struct gemv_item {
    uint32_t chunk, group;
    __device__ __forceinline__ void advance(uint32_t n_groups) {
        if (++group == n_groups) group = 0, chunk++;
    }
};

template <int COLUMNS>
__global__ void __launch_bounds__(GEMV_WARPS * 32, COLUMNS == 8 ? 2 : 1)
    gemv_kernel(const __grid_constant__ gemv_params g) {
    constexpr int WARPS = GEMV_WARPS, NT = COLUMNS / 8, PARTIAL_ROWS = GROUP_ROWS + 1;
    constexpr uint32_t ROUND = WARPS * GEMV_STAGES, TILE_X_BYTES = TILE_COLS * sizeof(__half);
    extern __shared__ uint4 gemv_memory[];
    __shared__ float partial[2][WARPS][COLUMNS][PARTIAL_ROWS];
    __shared__ gemv_chunks chunks;
    unsigned char *x_shared = reinterpret_cast<unsigned char *>(gemv_memory);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t n_tiles = g.p.n_cols / TILE_COLS, n_groups = g.p.n_out / GROUP_ROWS;
    const uint32_t x_bytes = g.p.n_cols * (uint32_t)sizeof(__half) + X_PAD_BYTES;
    const bool sorted = g.p.ids != NULL;
    const lane_view weight(g.p.weight, g.p.n_cols, lane);
    lane_tile ring[GEMV_STAGES] = {};
    kg_dependents_start();
    uint32_t n_chunks = (g.p.n_rows + g.chunk_rows - 1) / g.chunk_rows;
    if (sorted) {
        kg_dependency_wait(); /* ids and x are visible; nothing reads y any more */
        sort_rows(&chunks, g);
        n_chunks = chunks.n_chunks;
    }
    /* Items [begin, begin + n) of n_chunks x n_groups: evenly among blocks, the first have one more. */
    const uint32_t n_items = n_chunks * n_groups, each = n_items / gridDim.x, more = n_items % gridDim.x;
    const uint32_t begin = blockIdx.x * each + min(blockIdx.x, more), n = each + (blockIdx.x < more);
    if (n == 0) return;
    gemv_item item = { begin / n_groups, begin % n_groups };
    const auto group_of = [&](const gemv_item &i) {
        return (sorted ? chunks.expert[i.chunk] * n_groups : 0) + i.group;
    };
    const uint8_t *codes = weight.codes_at(group_of(item), warp), *scales = weight.scales_at(group_of(item), warp);
    const auto load = [&](int u, uint32_t first, bool any) {
        kg_load_constant_if(any && first + u * WARPS < n_tiles, ring[u].codes, codes + u * WARPS * CODES_BYTES,
                            ring[u].scales, scales + u * WARPS * SCALES_BYTES);
    };
#pragma unroll
    for (int u = 0; u < GEMV_STAGES; u++) load(u, warp, true);
    if (!sorted) kg_dependency_wait(); /* x is visible; nothing reads y any more */
    uint32_t staged = UINT32_MAX, size = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t chunk = item.chunk;
        if (chunk != staged) {
            if (k > 0) __syncthreads(); /* write-after-read: the chunk before is read */
            const uint32_t first = chunk * g.chunk_rows;
            size = sorted ? chunks.size[chunk] : min(g.chunk_rows, g.p.n_rows - first);
            if (sorted)
                stage_x(x_shared, size, g.p, x_bytes,
                        [&](uint32_t i) { return chunks.x_row[chunks.first[chunk] + i]; });
            else stage_x(x_shared, size, g.p, x_bytes, [&](uint32_t i) { return first + i; });
            staged = chunk;
            __syncthreads(); /* x is visible */
        }
        const unsigned char *x[NT];
#pragma unroll
        for (int i = 0; i < NT; i++) x[i] = x_shared + min(lane / 4 + 8 * i, size - 1) * x_bytes + lane % 4 * 16;
        float sum[GEMV_STAGES][NT][4] = {};
        uint32_t first = warp, offset = warp * TILE_X_BYTES;
        /* Rounds before the group's last; after the last, the next item's first tiles are loaded. */
        for (; first + ROUND < n_tiles; first += ROUND, offset += ROUND * TILE_X_BYTES) {
            codes += ROUND * CODES_BYTES, scales += ROUND * SCALES_BYTES;
#pragma unroll
            for (int u = 0; u < GEMV_STAGES; u++) {
                multiply_tile<NT>(sum[u], ring[u], x, offset + u * WARPS * TILE_X_BYTES);
                load(u, first + ROUND, true);
            }
        }
        const uint32_t left = first < n_tiles ? min((n_tiles - first + WARPS - 1) / WARPS, (uint32_t)GEMV_STAGES) : 0;
        static_assert(GEMV_STAGES == 4, "the last round has up to four tiles");
        if (left == 4) multiply_tiles<4>(sum, ring, x, offset, WARPS * TILE_X_BYTES);
        else if (left == 3) multiply_tiles<3>(sum, ring, x, offset, WARPS * TILE_X_BYTES);
        else if (left == 2) multiply_tiles<2>(sum, ring, x, offset, WARPS * TILE_X_BYTES);
        else if (left == 1) multiply_tiles<1>(sum, ring, x, offset, WARPS * TILE_X_BYTES);
        const gemv_item now = item;
        const bool any = k + 1 < n;
        if (any) item.advance(n_groups);
        codes = weight.codes_at(group_of(item), warp), scales = weight.scales_at(group_of(item), warp);
#pragma unroll
        for (int u = 0; u < GEMV_STAGES; u++) load(u, warp, any);
        float(*mine)[PARTIAL_ROWS] = partial[k % 2][warp];
#pragma unroll
        for (int i = 0; i < NT; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                mine[8 * i + lane % 4 * 2 + j % 2][lane / 4 + j / 2 * 8] =
                    (sum[0][i][j] + sum[1][i][j]) + (sum[2][i][j] + sum[3][i][j]);
        __syncthreads(); /* all warps' sums are visible; those of the item before last are read */
        /* The adding warps rotate from item to item. */
        for (uint32_t i = (threadIdx.x + k * 32) % (WARPS * 32); i < size * GROUP_ROWS; i += WARPS * 32) {
            const uint32_t col = i / GROUP_ROWS, r = i % GROUP_ROWS, o = now.group * GROUP_ROWS + r;
            float total = add_warps<WARPS>([&](int w) { return partial[k % 2][w][col][r]; }) * (1 / UNPACKED_UNIT);
            if (g.p.bias) total += g.p.bias[sorted ? (size_t)chunks.expert[chunk] * g.p.n_out + o : o];
            const uint32_t row = sorted ? chunks.row[chunks.first[chunk] + col] : chunk * g.chunk_rows + col;
            const size_t at = (size_t)row * g.p.n_out + o;
            if (g.p.y_is_f16) static_cast<__half *>(g.p.y)[at] = __float2half_rn(total);
            else static_cast<float *>(g.p.y)[at] = total;
        }
    }
}

} // namespace kg_mxfp4

#endif
