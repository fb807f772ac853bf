/* sdpa by Hopper's warpgroup products where there are few tiles (sm_90a): the time of one wave of blocks, as short as
 * it gets.
 *
 *     y[i] = sum_j softmax_j(scale q[i] . k[j]) v[j]      per batch entry and head (contract in ops/sdpa.h)
 *
 * A cluster of two blocks takes 64 queries of one head. Its blocks' two warpgroups, four parts in all, take a tile of
 * 128 keys each: at most 512 keys. A block's keys and values all lie in shared memory at once, asked for by its first
 * thread before anything else. Scores are made by products of two operands in shared memory; softmax is in registers,
 * relative to 0 where that is as good as relative to the part's largest score; values are summed by products whose left
 * operand, the weights rounded to f16, stays in registers. Products are exact, summed in float32.
 *
 * Inputs of a byte are as in wgmma.cu; after its softmax a warpgroup writes its values as halves, beside the other's.
 *
 * Each warp then sends its 16 rows' partial sums, in the layout of its registers, to the block that merges these rows
 * (the first warps' to the first block), where all warps divide the columns among them. Parts are merged in their
 * order: the same bits each time. What goes to the other block counts at that block's barrier by its bytes.
 *
 * Two blocks on one multiprocessor would each be slower than the other's idle multiprocessor. Where two fit (64 dims),
 * the grid has a block for every multiprocessor, those beyond the work only waiting: blocks of the next launch then
 * come to the other places, one on each as well, and have all prepared when this launch ends. Else a block takes more
 * than half of the memory. */
#include "kernels/ptx/cluster.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/dependent.cuh"
#include "kernels/attention/sdpa/tile.cuh"

KG_PRELOADED(sdpa_cluster, KG_SOME_PROMPTS)

namespace kg_sdpa {

constexpr int KEYS = 128, SPLITS = 2, CLUSTER = 2, PARTS = SPLITS * CLUSTER, MAX_KEYS = PARTS * KEYS;

template <typename In, int DIMS> struct cluster_shape : tile_shape<In, DIMS, KEYS> {
    using tile = tile_shape<In, DIMS, KEYS>;
    static constexpr int THREADS = SPLITS * 128;
    static constexpr int SETS = 4 / CLUSTER;          /* of 16 rows, that a block merges */
    static constexpr int SHARES = SPLITS * 4 / SETS;  /* warps that share a set */
    static constexpr int COLUMNS = DIMS / 8 / SHARES; /* eights of columns of a warp's share */
    static_assert(DIMS % (8 * SHARES) == 0, "shares are equal");

    /* Shared memory, in bytes from its beginning. FETCHED: values of a byte as they come. */
    static constexpr int Q_BYTES = tile::INPUT_PANELS * ROWS * tile::ROW_BYTES;
    static constexpr int VALUE_BYTES = 16 * DIMS * 4, SUM_BYTES = 16 * 8; /* of a set, of one part */
    static constexpr int K = Q_BYTES, V = K + SPLITS * tile::TILE_BYTES, FETCHED = V + SPLITS * tile::V_BYTES,
                         PARTIAL = FETCHED + (tile::NARROW ? SPLITS * tile::TILE_BYTES : 0),
                         SUMS = PARTIAL + SETS * PARTS * VALUE_BYTES, Q_FULL = SUMS + SETS * PARTS * SUM_BYTES,
                         MERGE_FULL = Q_FULL + 8, K_FULL = MERGE_FULL + 8, V_FULL = K_FULL + 8 * SPLITS;
    static constexpr int BYTES = V_FULL + 8 * SPLITS + 1024; /* and to begin at a multiple of 1024 */
    static constexpr int SENT_BYTES = SETS * SPLITS * (VALUE_BYTES + SUM_BYTES); /* by the other block */
    static constexpr int RESIDENT = DIMS <= 64 ? 2 : 1; /* blocks that fit on a multiprocessor */
};

/* Softmax of the part's one tile relative to 0, which waits for no largest score; relative to that for rows where a
 * weight would leave f16's range or all be so small that f16 keeps too few of their bits. */
template <int N>
static __device__ __forceinline__ void softmax(row_sums &r, float (&score)[N], unsigned (&weight)[N / 2], float scale) {
    constexpr float LEAST_WEIGHT = 0.0625f; /* of a row: what f16 loses below 2^-14 is then less than its rounding */
    row_sums plain;
    float sum[2], shrink[2];
    bool good[2];
    plain.reference[0] = plain.reference[1] = 0;
    make_weights(plain, score, weight, sum, scale);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float whole = row_weight(sum[half]); /* by all lanes, whatever each has */
        good[half] = sum[half] <= MOST_WEIGHT && whole >= LEAST_WEIGHT;
    }
    r.clear();
    if (__all_sync(0xFFFFFFFF, good[0] && good[1])) {
        r.reference[0] = r.reference[1] = 0;
        r.weight[0] = sum[0], r.weight[1] = sum[1];
        return;
    }
    whole_rows(good);
#pragma unroll
    for (int half = 0; half < 2; half++)
        if (good[half]) r.reference[half] = 0;
    softmax_exact(r, score, weight, shrink, scale, good);
}

/* Sends the part's sums of the warp's rows to the block that merges them. */
template <typename Shape>
static __device__ __forceinline__ void send(unsigned shared, int rank, int part, int warp, int lane,
                                            const float (&value)[Shape::DIMS / 2], const row_sums &sums) {
    const int to = warp / Shape::SETS, place = warp % Shape::SETS * PARTS + part;
    unsigned values = shared + Shape::PARTIAL + place * Shape::VALUE_BYTES + lane * 16,
             rows = shared + Shape::SUMS + place * Shape::SUM_BYTES + lane / 4 * 8,
             barrier = shared + Shape::MERGE_FULL;
    const float2 sum[2] = { make_float2(sums.reference[0], sums.weight[0]),
                            make_float2(sums.reference[1], sums.weight[1]) };
    if (to == rank) {
#pragma unroll
        for (int i = 0; i < Shape::DIMS / 8; i++) kg_store_shared(values + i * 512, vector_of(value, i));
        if (lane % 4 == 0) kg_store_shared(rows, sum[0]), kg_store_shared(rows + 64, sum[1]);
        __syncwarp();
        if (lane == 0) kg_mbarrier_arrive(barrier);
    } else {
        values = kg_peer_address(values, to), rows = kg_peer_address(rows, to), barrier = kg_peer_address(barrier, to);
#pragma unroll
        for (int i = 0; i < Shape::DIMS / 8; i++) kg_send_peer(values + i * 512, vector_of(value, i), barrier);
        if (lane % 4 == 0) kg_send_peer(rows, sum[0], barrier), kg_send_peer(rows + 64, sum[1], barrier);
    }
}

/* Adds the parts' values of both rows, each times its factor. */
template <typename Shape>
static __device__ __forceinline__ void add_partials(float (&out)[4], unsigned shared, int set, int column, int lane,
                                                    const float (&factor)[2][PARTS]) {
#pragma unroll
    for (int j = 0; j < PARTS; j++) {
        const float4 x = kg_load_shared<float4>(shared + Shape::PARTIAL + (set * PARTS + j) * Shape::VALUE_BYTES +
                                                (column * 32 + lane) * 16);
        out[0] = fmaf(x.x, factor[0][j], out[0]), out[1] = fmaf(x.y, factor[0][j], out[1]);
        out[2] = fmaf(x.z, factor[1][j], out[2]), out[3] = fmaf(x.w, factor[1][j], out[3]);
    }
}

/* One thread: the barriers, and what of n tiles is to come before they complete. */
template <typename Shape>
static __device__ __forceinline__ void begin_barriers(const hopper_params &p, unsigned shared, int n) {
    prefetch_maps(p);
    kg_mbarrier_init(shared + Shape::Q_FULL, 1);
    kg_mbarrier_init(shared + Shape::MERGE_FULL, 1 + Shape::SETS * SPLITS); /* who expects, and the block's own warps */
#pragma unroll
    for (int s = 0; s < SPLITS; s++)
        kg_mbarrier_init(shared + Shape::K_FULL + 8 * s, 1), kg_mbarrier_init(shared + Shape::V_FULL + 8 * s, 1);
    kg_mbarrier_init_fence();
    kg_mbarrier_expect(shared + Shape::MERGE_FULL, Shape::SENT_BYTES);
    kg_mbarrier_expect(shared + Shape::Q_FULL, Shape::Q_BYTES);
#pragma unroll
    for (int s = 0; s < SPLITS; s++)
        if (s < n) {
            kg_mbarrier_expect(shared + Shape::K_FULL + 8 * s, Shape::TILE_BYTES);
            kg_mbarrier_expect(shared + Shape::V_FULL + 8 * s, Shape::TILE_BYTES);
        }
}

template <typename Shape>
static __global__ void __launch_bounds__(Shape::THREADS, Shape::RESIDENT)
    sdpa_cluster_kernel(const __grid_constant__ hopper_params p) {
    kg_require_sm_90a();
    constexpr int DIMS = Shape::DIMS;
    kg_dependents_start();
    if ((int)blockIdx.x / CLUSTER >= p.n_row_tiles * p.n_heads * p.n_batch) { /* a place that stays empty */
        kg_dependency_wait();
        return;
    }
    const unsigned shared = tiles_begin();
    const int rank = kg_cluster_rank(), split = __shfl_sync(0xFFFFFFFF, threadIdx.x / 128, 0),
              part = rank * SPLITS + split, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int item = blockIdx.x / CLUSTER, plane = item / p.n_row_tiles, head = plane % p.n_heads,
              batch = plane / p.n_heads, first = item % p.n_row_tiles * ROWS;
    const key_range keys(p, first, ROWS);
    const int tile_begin = keys.begin / KEYS, n_tiles = (keys.end + KEYS - 1) / KEYS - tile_begin; /* part i takes i */
    const int key = (tile_begin + part) * KEYS, block_key = key - split * KEYS;

    const int n = min(n_tiles - rank * SPLITS, SPLITS); /* the block's tiles */
    if (threadIdx.x == 0) begin_barriers<Shape>(p, shared, n);
    /* What follows the wait for the launch before needs these at once: they are read from the parameter here. */
    const int kv_head = head / p.group;
    float scale = p.scale;
    int n_queries = p.n_queries, head_dim = p.head_dim;
    uint64_t y_row = p.y_strides.row;
    __half *y = p.y + batch * p.y_strides.batch + head * p.y_strides.head;
    kg_make_opaque(scale, n_queries, head_dim, y_row, y);
    kg_cluster_arrive();
    kg_cluster_wait(); /* the barriers of both blocks are initialised */
    if (threadIdx.x == 0) {
        kg_dependency_wait();
        const auto fetch = [&](const CUtensorMap *map, int to, int n_rows, int full, int row, int of) {
#pragma unroll
            for (int panel = 0; panel < Shape::INPUT_PANELS; panel++)
                kg_tensor_copy(shared + to + panel * n_rows * Shape::ROW_BYTES, map, shared + full, 64 * panel, row, of,
                               batch);
        };
        fetch(&p.q, 0, ROWS, Shape::Q_FULL, first, head);
#pragma unroll
        for (int s = 0; s < SPLITS; s++)
            if (s < n)
                fetch(&p.k, Shape::K + s * Shape::TILE_BYTES, KEYS, Shape::K_FULL + 8 * s, block_key + s * KEYS,
                      kv_head);
#pragma unroll
        for (int s = 0; s < SPLITS; s++)
            if (s < n)
                fetch(&p.v, (Shape::NARROW ? Shape::FETCHED : Shape::V) + s * Shape::TILE_BYTES, KEYS,
                      Shape::V_FULL + 8 * s, block_key + s * KEYS, kv_head);
    }

    float unit = 1; /* of the values */
    if (Shape::NARROW) {
        kg_dependency_wait();
        const int kv_plane = batch * (p.n_heads / p.group) + kv_head;
        scale *= p.q_scale[plane] * p.k_scale[kv_plane], unit = p.v_scale[kv_plane];
    }

    row_sums sums;
    sums.clear();
    float value[DIMS / 2];
    kg_mbarrier_wait(shared + Shape::Q_FULL, 0); /* and so, what the launch depends on is visible */
    if (part < n_tiles) {
        float score[KEYS / 2];
        unsigned weight[KEYS / 4];
        const uint64_t q = kg_matrix_descriptor<Shape::ROW_BYTES>(shared),
                       k = kg_matrix_descriptor<Shape::ROW_BYTES>(shared + Shape::K + split * Shape::TILE_BYTES),
                       v = kg_matrix_descriptor(shared + Shape::V + split * Shape::V_BYTES, KEYS * 128);
        kg_mbarrier_wait(shared + Shape::K_FULL + 8 * split, 0);
        begin_scores<Shape, ROWS>(score, q, k);
        kg_wgmma_wait<0>();
        finish_scores<Shape>(score);
        if (key < keys.all_begin || key + KEYS > keys.all_end) {
            int first_key[2], last_key[2];
            row_limits(p, first + warp * 16 + lane / 4, first_key, last_key);
            mask_scores(score, key, first_key, last_key);
        }
        softmax(sums, score, weight, scale);
        kg_mbarrier_wait(shared + Shape::V_FULL + 8 * split, 0);
        if (Shape::NARROW) {
            narrow_place<Shape::ROW_BYTES>(lane).template convert<Shape, 4, KEYS / 8 / 4>(
                shared + Shape::FETCHED + split * Shape::TILE_BYTES, shared + Shape::V + split * Shape::V_BYTES, warp);
            kg_barrier_sync(1 + split, 128); /* all of the tile is visible */
        }
        begin_values<Shape>(value, weight, v, false);
        kg_wgmma_wait<0>();
        sums.weight[0] = row_weight(sums.weight[0]), sums.weight[1] = row_weight(sums.weight[1]);
    } else {
#pragma unroll
        for (int i = 0; i < DIMS / 2; i++) value[i] = 0;
    }
    send<Shape>(shared, rank, part, warp, lane, value, sums);

    const int job = split * 4 + warp, set = job % Shape::SETS, share = job / Shape::SETS,
              row = first + (rank * Shape::SETS + set) * 16 + lane / 4;
    y += row * y_row;
    const float sink = p.sinks ? p.sinks[head] * LOG2_E : -CUDART_INF_F;
    float factor[2][PARTS];
    kg_mbarrier_wait(shared + Shape::MERGE_FULL, 0);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float2 sum[PARTS];
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            sum[i] = kg_load_shared<float2>(shared + Shape::SUMS + (set * PARTS + i) * Shape::SUM_BYTES +
                                            (lane / 4 + 8 * half) * 8);
        merge_factors(factor[half], sum, scale, sink, unit);
    }
#pragma unroll
    for (int i = 0; i < Shape::COLUMNS; i++) {
        const int column = share * Shape::COLUMNS + i, d = 8 * column + lane % 4 * 2;
        float out[4] = { 0, 0, 0, 0 };
        add_partials<Shape>(out, shared, set, column, lane, factor);
        if (d >= head_dim) continue;
        if (row < n_queries) *reinterpret_cast<unsigned *>(y + d) = kg_convert_to_halves(out[0], out[1]);
        if (row + 8 < n_queries)
            *reinterpret_cast<unsigned *>(y + 8 * y_row + d) = kg_convert_to_halves(out[2], out[3]);
    }
}

template <typename Shape>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                             struct kg_error *err) {
    struct hopper_params p;
    const enum kg_status status = hopper_params_make(&p, args, ROWS, KEYS, err);
    if (status) return status;
    const unsigned n_work = (unsigned)(p.n_row_tiles * p.n_heads * p.n_batch),
                   n_places = (unsigned)cuda->n_sms / CLUSTER, alone = cuda->shared_bytes / 2 + 1024;
    const bool shares = Shape::RESIDENT > 1;
    const unsigned n_blocks = (shares && n_work < n_places ? n_places : n_work) * CLUSTER;
    return kg_launch_dependent(cuda, sdpa_cluster_kernel<Shape>, dim3(n_blocks), Shape::THREADS, p, "sdpa (cluster)",
                               err, shares || Shape::BYTES > alone ? Shape::BYTES : alone, CLUSTER);
}

} // namespace kg_sdpa

const char *kg_sdpa_cluster_refuses(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args) {
    if (args->n_keys > kg_sdpa::MAX_KEYS) return "there are more than 512 keys";
    if ((uint64_t)args->n_batch * args->n_heads * args->n_queries > INT32_MAX / 4) return "there are too many queries";
    return kg_sdpa_wgmma_refuses(cuda, args);
}

enum kg_status kg_sdpa_cluster_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                      struct kg_error *err) {
    using namespace kg_sdpa;
    return launch_for(args,
                      [=](auto in, auto dims) { return launch<cluster_shape<decltype(in), dims>>(cuda, args, err); });
}
