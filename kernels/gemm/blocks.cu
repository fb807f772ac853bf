/* Launches blocks.cuh: the shape of a block, and the split of the columns, whose estimated time is the shortest. The
 * choice depends on shapes, the format and the device only. */
#include "kernels/gemm/blocks.h"
#include "kernels/gemm/blocks.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/tensor_map.h"

KG_PRELOADED(gemm_blocks, KG_NEXT_TOKENS)

namespace kg_block_gemm {

enum { SHAPES = 4, MAX_ROWS = 1024, MAX_OUTPUTS = 65535 * 128 /* a grid's tiles of outputs */ };

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

/* Maps of boxes of x_rows and of w_rows rows. */
static enum kg_status make_maps(block_gemm_params *g, const struct kg_linear_args *args, uint32_t x_rows,
                                uint32_t w_rows, struct kg_error *err) {
    static const char WHAT[] = "linear: block formats";
    const struct kg_weight *w = &args->weight;
    kg_tensor_extent e = {};
    e.data = args->x, e.strides.row = w->n_cols;
    e.n_batch = e.n_heads = 1, e.n_rows = args->n_rows, e.head_dim = w->n_cols;
    e.element_bytes = 2, e.box_rows = x_rows, e.box_bytes = X_ROW_BYTES;
    enum kg_status status = kg_tensor_map_make(&g->x, &e, WHAT, err);
    e.strides.row = (uint64_t)g->n_maps * g->row_bytes / 2, e.box_rows = w_rows / g->n_maps, e.box_bytes = g->w_stride;
    for (uint32_t i = 0; i < g->n_maps && !status; i++) {
        const uint64_t begin = (uint64_t)i * g->row_bytes, before = begin % COPY_BYTES;
        e.data = static_cast<const uint8_t *>(w->data) + begin - before;
        e.n_rows = ceil_div(w->n_rows - i, g->n_maps), e.head_dim = (uint32_t)((before + g->row_bytes) / 2);
        status = kg_tensor_map_make(&g->w[i], &e, WHAT, err);
    }
    return status;
}

template <typename S>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args, bool adds,
                             uint32_t n_split, struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    block_gemm_params g = {};
    g.bias = args->bias, g.y = args->y;
    g.n_rows = args->n_rows, g.n_out = w->n_rows, g.n_cols = w->n_cols, g.n_split = n_split;
    g.y_is_f16 = args->output == KG_PRECISION_F16, g.adds = adds;
    g.row_bytes = (uint32_t)kg_weight_row_bytes(w);
    g.n_maps = g.row_bytes % COPY_BYTES == 0 ? 1 : MAX_W_MAPS;
    g.w_stride = chunk_stride(w->dtype, g.n_maps > 1 || chunk_bytes(w->dtype) % COPY_BYTES != 0);
    const enum kg_status status = make_maps(&g, args, S::N, S::M, err);
    if (status) return status;
    const dim3 grid(n_split, ceil_div(g.n_rows, S::N), ceil_div(g.n_out, S::M));
    return kg_launch_dependent(cuda, block_gemm_kernel<S>, grid, S::THREADS, g, "linear: block formats", err, S::BYTES,
                               n_split);
}

/* A shape. Times of a block in ns: prologue and epilogue, the exchange of sums in a cluster, and what each of its
 * blocks adds to that. */
struct kernel {
    enum kg_status (*launch)(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args, bool adds,
                             uint32_t n_split, struct kg_error *err);
    uint32_t (*clusters)(uint32_t n_split); /* that the device runs at the same time */
    uint32_t m, n, ends, exchange, peer;
};

template <typename S> static constexpr kernel kernel_of(uint32_t ends, uint32_t exchange, uint32_t peer) {
    return { launch<S>,
             [](uint32_t n_split) { return kg_clusters_at_once(block_gemm_kernel<S>, S::THREADS, S::BYTES, n_split); },
             S::M,
             S::N,
             ends,
             exchange,
             peer };
}

template <enum kg_dtype D>
static constexpr kernel KERNELS[SHAPES] = {
    kernel_of<block_shape<D, 64, 4, 2>>(2300, 640, 200),
    kernel_of<block_shape<D, 64, 6, 1>>(2200, 2000, 75),
    kernel_of<block_shape<D, 128, 5, 1>>(3000, 2100, 50),
    kernel_of<block_shape<D, 256, 4, 1>>(3000, 4200, 0),
};

/* A format's shapes, and the time of a chunk of columns in ns. All times are fitted to those that the H100 took. */
struct format {
    enum kg_dtype dtype;
    const kernel *kernels;
    uint32_t chunk[SHAPES];
};
static const format FORMATS[] = {
    { KG_DTYPE_Q4_0, KERNELS<KG_DTYPE_Q4_0>, { 2350, 1370, 1730, 2830 } },
    { KG_DTYPE_Q5_0, KERNELS<KG_DTYPE_Q5_0>, { 3000, 1720, 2100, 3050 } },
    { KG_DTYPE_Q8_0, KERNELS<KG_DTYPE_Q8_0>, { 2930, 1590, 1930, 2970 } },
    { KG_DTYPE_Q4_K, KERNELS<KG_DTYPE_Q4_K>, { 3120, 1720, 2080, 2980 } },
    { KG_DTYPE_Q5_K, KERNELS<KG_DTYPE_Q5_K>, { 3390, 2010, 2360, 3260 } },
    { KG_DTYPE_Q6_K, KERNELS<KG_DTYPE_Q6_K>, { 3680, 2120, 2540, 3560 } },
};
static_assert(sizeof FORMATS / sizeof *FORMATS * SHAPES == KG_BLOCK_KERNELS, "a place in the cache for each");

/* NULL where the kernel has not the format. */
static const format *format_of(enum kg_dtype dtype) {
    for (const format &f : FORMATS)
        if (f.dtype == dtype) return &f;
    return NULL;
}

} // namespace kg_block_gemm

using namespace kg_block_gemm;

bool kg_cuda_block_gemm_takes(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args) {
    const struct kg_weight *w = &args->weight;
    return cuda->compute_capability == 90 && args->activations == KG_PRECISION_F16 && args->n_rows <= MAX_ROWS &&
           format_of(w->dtype) && w->n_cols % TILE_COLS == 0 && w->n_rows >= MAX_W_MAPS && w->n_rows <= MAX_OUTPUTS &&
           (uintptr_t)w->data % COPY_BYTES == 0 && kg_vector_aligned(args->x) && kg_vector_aligned(args->y);
}

enum kg_status kg_cuda_block_gemm(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args, bool adds,
                                  struct kg_error *err) {
    const format *f = format_of(args->weight.dtype);
    const uint32_t n_chunks = ceil_div(args->weight.n_cols, CHUNK_COLS);
    const kernel *best = NULL;
    uint32_t best_split = 1;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < SHAPES; i++) {
        const kernel *k = &f->kernels[i];
        for (uint32_t n_split = 1; n_split <= KG_MAX_SPLIT && n_split <= n_chunks; n_split++) {
            uint32_t *clusters = &cuda->block_clusters[(f - FORMATS) * SHAPES + i][n_split];
            if (*clusters == 0) *clusters = k->clusters(n_split);
            const uint64_t tiles = (uint64_t)ceil_div(args->weight.n_rows, k->m) * ceil_div(args->n_rows, k->n),
                           waves = (tiles + *clusters - 1) / *clusters;
            const uint64_t ns = waves * (ceil_div(n_chunks, n_split) * f->chunk[i] + k->ends +
                                         (n_split > 1 ? k->exchange + n_split * k->peer : 0));
            if (ns < least) least = ns, best = k, best_split = n_split;
        }
    }
    return best->launch(cuda, args, adds, best_split, err);
}
