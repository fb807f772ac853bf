/* Launches gemm.cuh, after sorting rows by expert. */
#include "kernels/mxfp4/gemm.cuh"
#include <algorithm>

namespace kg_mxfp4 {

enum { SORT_THREADS = 1024, MAX_EXPERTS = 1024, SMALLEST_N = 64 };

struct sort_params {
    const int32_t *ids; /* (n) */
    uint32_t n, n_experts, tile_rows;
    uint32_t *row; /* (n), sorted by expert; stable */
    struct gemm_tile *tiles;
    uint32_t *n_tiles;
};

/* One block. A warp counts an expert's rows, then writes their numbers in order. */
static __global__ void __launch_bounds__(SORT_THREADS) sort_kernel(const sort_params s) {
    __shared__ uint32_t count[MAX_EXPERTS], first_row[MAX_EXPERTS], first_tile[MAX_EXPERTS];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    kg_dependents_start();
    kg_dependency_wait(); /* ids are visible; nothing reads `row` any more */
    for (uint32_t e = warp; e < s.n_experts; e += SORT_THREADS / 32) {
        uint32_t n = 0;
#pragma unroll 4
        for (uint32_t i = 0; i < s.n; i += 32)
            n += __popc(__ballot_sync(0xFFFFFFFFu, i + lane < s.n && s.ids[i + lane] == (int32_t)e));
        if (lane == 0) count[e] = n;
    }
    __syncthreads(); /* all counts are written */
    if (threadIdx.x == 0) {
        uint32_t rows = 0, tiles = 0;
        for (uint32_t e = 0; e < s.n_experts; e++) {
            first_row[e] = rows;
            first_tile[e] = tiles;
            rows += count[e];
            tiles += (count[e] + s.tile_rows - 1) / s.tile_rows;
        }
        *s.n_tiles = tiles;
    }
    __syncthreads(); /* all offsets are written */
    for (uint32_t e = warp; e < s.n_experts; e += SORT_THREADS / 32) {
        uint32_t to = first_row[e];
        for (uint32_t i = lane; i * s.tile_rows < count[e]; i += 32)
            s.tiles[first_tile[e] + i] = { e, to + i * s.tile_rows, min(s.tile_rows, count[e] - i * s.tile_rows) };
#pragma unroll 4
        for (uint32_t i = 0; i < s.n; i += 32) {
            const bool mine = i + lane < s.n && s.ids[i + lane] == (int32_t)e;
            const uint32_t all = __ballot_sync(0xFFFFFFFFu, mine);
            if (mine) s.row[to + __popc(all & ((1u << lane) - 1))] = i + lane;
            to += __popc(all);
        }
    }
}

struct sorted {
    uint32_t *row, *n_tiles;
    struct gemm_tile *tiles;
    uint64_t size_bytes;
};

static struct sorted lay_out(void *workspace, uint32_t n_rows, uint32_t n_experts) {
    const uint64_t rows_bytes = ((uint64_t)n_rows + 64) / 64 * 256, n_tiles = n_rows / SMALLEST_N + n_experts;
    char *at = static_cast<char *>(workspace);
    return { reinterpret_cast<uint32_t *>(at + 256), reinterpret_cast<uint32_t *>(at),
             reinterpret_cast<struct gemm_tile *>(at + 256 + rows_bytes),
             256 + rows_bytes + n_tiles * sizeof(struct gemm_tile) };
}

/* Upper bound of the tiles of rows. */
static uint32_t most_tiles(const struct kg_mxfp4_product *p, uint32_t n) {
    return p->ids ? p->n_rows / n + std::min(p->n_experts, p->n_rows) : (p->n_rows + n - 1) / n;
}

template <typename S>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t n_split,
                             uint32_t, struct kg_error *err) {
    gemm_params g = { *p, NULL, NULL, NULL, n_split };
    if (p->ids) {
        if (!p->workspace || p->n_experts > MAX_EXPERTS)
            return kg_fail(err, KG_ERR_USAGE, "mxfp4: %u rows of %u experts need a workspace", p->n_rows, p->n_experts);
        const struct sorted to = lay_out(p->workspace, p->n_rows, p->n_experts);
        const sort_params s = { p->ids, p->n_rows, p->n_experts, (uint32_t)S::N, to.row, to.tiles, to.n_tiles };
        const enum kg_status status =
            kg_launch_dependent(cuda, sort_kernel, dim3(1), SORT_THREADS, s, "experts_linear: sorting rows", err);
        if (status) return status;
        g.row = to.row, g.tiles = to.tiles, g.n_tiles = to.n_tiles;
    }
    const dim3 grid(n_split, (p->n_out + S::M - 1) / S::M, most_tiles(p, (uint32_t)S::N));
    return kg_launch_dependent(cuda, gemm_kernel<S>, grid, S::THREADS, g, "linear: mxfp4", err, S::BYTES, n_split);
}

template <typename S> static uint32_t clusters(uint32_t n_split) {
    return clusters_at_once(gemm_kernel<S>, n_split, S::THREADS, S::BYTES);
}

template <typename S> static constexpr struct kg_mxfp4_gemm entry(uint32_t step, uint32_t ends, uint32_t exchange) {
    return { launch<S>, clusters<S>, S::M, S::N, KG_MXFP4_MAX_SPLIT, true, step, ends, exchange };
}

} // namespace kg_mxfp4

using namespace kg_mxfp4;

const struct kg_mxfp4_gemm kg_mxfp4_gemms[KG_MXFP4_GEMMS] = {
    entry<gemm_shape<2, 1, 64, 10, 4, 216, 72>>(320, 3900, 1200),
    entry<gemm_shape<4, 1, 64, 8, 2, 104, 64>>(505, 5000, 1200),
    entry<gemm_shape<3, 1, 128, 8, 4, 144, 80>>(537, 5000, 1700),
    entry<gemm_shape<2, 2, 128, 8, 2, 216, 72>>(716, 6700, 5000),
};

uint64_t kg_mxfp4_gemm_workspace_bytes(uint32_t n_rows, uint32_t n_experts) {
    return lay_out(NULL, n_rows, n_experts).size_bytes;
}
