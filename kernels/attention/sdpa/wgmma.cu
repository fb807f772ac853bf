/* sdpa by Hopper's warpgroup products, for prefill (sm_90a; up to 64 dims without a window: wgmma_64.cu).
 *
 *     y[i] = sum_j softmax_j(scale q[i] . k[j]) v[j]      per batch entry and head (contract in ops/sdpa.h)
 *
 * A block takes WORKERS x 64 queries of one head at a time and goes through the keys they see in tiles of KEYS, the
 * last one first. One thread of the last warpgroup fetches: queries, and keys and values into rings of STAGES tiles, by
 * tensor copies. The other warpgroups, the workers, compute, 64 queries each: scores by a product of two operands in
 * shared memory, softmax in registers, values by a product whose left operand, the weights rounded to f16, stays in
 * registers. Products are exact, summed in float32.
 *
 * Inputs of a byte: scores of E4M3 are made by products of E4M3, of whose sums tensor cores keep some 14 bits: scores
 * of normal queries and keys are off by 1e-4; those of int8 are exact sums of integers. The head's scales of queries
 * and keys are part of the scores' scale, that of values of the result's. Copies leave values in a separate ring, from
 * which the last warpgroup's other warps write them as halves to the ring that products read (narrow.cuh).
 *
 * The scores of a tile are made while the values of the tile before are summed. Weights are relative to the largest
 * score of the first tile, so that nothing waits for a tile's maximum; where that would take a weight out of f16's
 * range, or its score's exponent out of the fused product's precision, the warp takes such rows again relative to the
 * largest so far. The two workers issue products alternately, so that one's softmax runs beside the other's
 * products.
 *
 * Tiles of queries go to as many blocks as there are multiprocessors, in rounds of one each; causal ones longest first,
 * and every second round from the last block to the first: so each block has about as many keys as any other. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/attention/sdpa/tile.cuh"
#include "kernels/preload.h"

KG_PRELOADED(sdpa_wgmma, KG_SOME_PROMPTS)

namespace kg_sdpa {

/* 128 keys take too many registers of FP16 at 128 dims, and of bytes at fewer. */
template <typename In, int DIMS>
constexpr bool LESS_KEYS = sizeof(In) > 1 ? DIMS > 96 : DIMS <= (std::is_same_v<In, int8_t> ? 96 : 64);
template <typename In, int DIMS> using wgmma_tile = tile_shape<In, DIMS, LESS_KEYS<In, DIMS> ? 112 : 128>;

template <typename In, int DIMS> struct wgmma_shape : wgmma_tile<In, DIMS> {
    using tile = wgmma_tile<In, DIMS>;
    /* Stages: of the rings of keys and of values as they come; V_STAGES: of values that products read. */
    static constexpr bool LARGE = DIMS > 64;
    static constexpr int STAGES = LARGE ? 2 : 4, V_STAGES = tile::NARROW && LARGE ? 3 : STAGES,
                         Q_STAGES = LARGE ? 2 : 1;
    static constexpr int WORKERS = 2, QUERIES = WORKERS * ROWS, THREADS = (WORKERS + 1) * 128;
    static constexpr int CONVERTERS = tile::NARROW ? 3 : 0; /* warps */

    /* Shared memory, in bytes from its beginning. FETCHED: values of a byte as they come. */
    static constexpr int Q_BYTES = tile::INPUT_PANELS * QUERIES * tile::ROW_BYTES;
    static constexpr int K = Q_STAGES * Q_BYTES, V = K + STAGES * tile::TILE_BYTES,
                         FETCHED = V + V_STAGES * tile::V_BYTES,
                         Q_FULL = FETCHED + (tile::NARROW ? STAGES * tile::TILE_BYTES : 0),
                         Q_EMPTY = Q_FULL + 8 * Q_STAGES, K_FULL = Q_EMPTY + 8 * Q_STAGES,
                         K_EMPTY = K_FULL + 8 * STAGES, V_FULL = K_EMPTY + 8 * STAGES, V_EMPTY = V_FULL + 8 * V_STAGES,
                         FETCHED_FULL = V_EMPTY + 8 * V_STAGES, FETCHED_EMPTY = FETCHED_FULL + 8 * STAGES;
    static constexpr int BYTES = FETCHED_EMPTY + 8 * STAGES + 1024; /* and to begin at a multiple of 1024 */
    static_assert(tile::NARROW || V_STAGES == STAGES, "nothing is between the copies and the products");

    /* Registers of a thread: the launch's 168 a thread are dealt out anew. */
    static constexpr int FETCH_REGISTERS = tile::NARROW ? 40 : 24, WORKER_REGISTERS = tile::NARROW ? 232 : 240;
    static_assert(FETCH_REGISTERS + WORKERS * WORKER_REGISTERS <= THREADS / 128 * 168, "what the launch has");
};

/* The block's item in a round; none from the first on that is n_work or more. */
static __device__ __forceinline__ int item_of(const hopper_params &p, int round) {
    const int n = (int)gridDim.x, block = (int)blockIdx.x;
    return round * n + (p.causal && round % 2 ? n - 1 - block : block);
}

/* The thread that fetches. */
template <typename Shape> static __device__ __forceinline__ void fetch(const hopper_params &p, unsigned shared) {
    constexpr int KEYS = Shape::KEYS, PANELS = Shape::INPUT_PANELS, ROW_BYTES = Shape::ROW_BYTES;
    ring_place<Shape::STAGES> k_at, v_at; /* values as they come: of a byte to a separate ring */
    ring_place<Shape::Q_STAGES> q_at;
    const int n_work = p.n_row_tiles * p.n_heads * p.n_batch;
    for (int round = 0, w; (w = item_of(p, round)) < n_work; round++) {
        const work_item<Shape> item(p, w);
        const int kv_head = item.head / p.group;
        if (item.tile_begin >= item.tile_end) continue;
        const unsigned q = shared + q_at.stage * Shape::Q_BYTES, q_full = shared + Shape::Q_FULL + 8 * q_at.stage;
        q_at.wait_empty(shared + Shape::Q_EMPTY);
        kg_mbarrier_expect(q_full, Shape::Q_BYTES);
#pragma unroll
        for (int panel = 0; panel < PANELS; panel++)
#pragma unroll
            for (int i = 0; i < Shape::WORKERS; i++)
                kg_tensor_copy(q + (panel * Shape::QUERIES + i * ROWS) * ROW_BYTES, &p.q, q_full, 64 * panel,
                               item.first + i * ROWS, item.head, item.batch);
        q_at.advance();
        const auto fetch_tile = [&](const CUtensorMap *map, ring_place<Shape::STAGES> &at, int data, int full,
                                    int empty, int tile) {
            const unsigned barrier = shared + full + 8 * at.stage;
            at.wait_empty(shared + empty);
            kg_mbarrier_expect(barrier, Shape::TILE_BYTES);
#pragma unroll
            for (int panel = 0; panel < PANELS; panel++)
                kg_tensor_copy(shared + data + at.stage * Shape::TILE_BYTES + panel * KEYS * ROW_BYTES, map, barrier,
                               64 * panel, tile * KEYS, kv_head, item.batch);
            at.advance();
        };
        for (int tile = item.tile_end; tile >= item.tile_begin; tile--) { /* values one tile behind the keys */
            if (tile > item.tile_begin) fetch_tile(&p.k, k_at, Shape::K, Shape::K_FULL, Shape::K_EMPTY, tile - 1);
            if (tile == item.tile_end) continue;
            if (Shape::NARROW) fetch_tile(&p.v, v_at, Shape::FETCHED, Shape::FETCHED_FULL, Shape::FETCHED_EMPTY, tile);
            else fetch_tile(&p.v, v_at, Shape::V, Shape::V_FULL, Shape::V_EMPTY, tile);
        }
    }
}

/* Warp `warp` of those that write fetched values of a byte as halves: a strip of rows after another. */
template <typename Shape>
static __device__ __forceinline__ void convert(const hopper_params &p, unsigned shared, int warp) {
    const narrow_place<Shape::ROW_BYTES> place(threadIdx.x % 32);
    const int n_work = p.n_row_tiles * p.n_heads * p.n_batch;
    ring_place<Shape::STAGES> from_at;
    ring_place<Shape::V_STAGES> to_at;
    for (int round = 0, w; (w = item_of(p, round)) < n_work; round++) {
        const work_item<Shape> item(p, w);
        for (int n = item.tile_end - item.tile_begin; n > 0; n--) {
            from_at.wait_full(shared + Shape::FETCHED_FULL);
            to_at.wait_empty(shared + Shape::V_EMPTY);
            place.template convert<Shape, Shape::CONVERTERS, Shape::PANELS == 1 ? 2 : 1>(
                shared + Shape::FETCHED + from_at.stage * Shape::TILE_BYTES,
                shared + Shape::V + to_at.stage * Shape::V_BYTES, warp);
            __syncwarp();
            from_at.release(shared + Shape::FETCHED_EMPTY);
            to_at.release(shared + Shape::V_FULL);
        }
    }
}

/* A warpgroup that computes. */
template <typename Shape> struct worker {
    static constexpr int DIMS = Shape::DIMS, KEYS = Shape::KEYS;
    const hopper_params &p;
    const unsigned shared;
    const int index, lane, warp;
    const uint64_t q_matrix, k_matrix, v_matrix; /* of its queries, and of the first stages */
    ring_place<Shape::STAGES> k_at;
    ring_place<Shape::V_STAGES> v_at;
    ring_place<Shape::Q_STAGES> q_at;
    float scale; /* of the head's scores, in powers of two */
    row_sums sums;
    float score[KEYS / 2], value[DIMS / 2];
    int first; /* of its queries */

    __device__ __forceinline__ worker(const hopper_params &params, unsigned memory)
        : p(params), shared(memory), index(__shfl_sync(0xFFFFFFFF, threadIdx.x / 128, 0)), lane(threadIdx.x % 32),
          warp(threadIdx.x / 32 % 4),
          q_matrix(kg_matrix_descriptor<Shape::ROW_BYTES>(memory + index * ROWS * Shape::ROW_BYTES)),
          k_matrix(kg_matrix_descriptor<Shape::ROW_BYTES>(memory + Shape::K)),
          v_matrix(kg_matrix_descriptor(memory + Shape::V, KEYS * 128)) {
    }

    __device__ __forceinline__ void wait_keys() const {
        k_at.wait_full(shared + Shape::K_FULL);
    }
    __device__ __forceinline__ void wait_values() const {
        v_at.wait_full(shared + Shape::V_FULL);
    }
    __device__ __forceinline__ void release_keys() {
        k_at.release(shared + Shape::K_EMPTY);
    }
    __device__ __forceinline__ void release_values() {
        v_at.release(shared + Shape::V_EMPTY);
    }
    __device__ __forceinline__ void wait_to_issue() const {
        kg_barrier_sync(1 + index, 2 * 128);
    }
    __device__ __forceinline__ void let_other_issue() const {
        kg_barrier_arrive(1 + (index ^ 1), 2 * 128);
    }

    __device__ __forceinline__ void make_scores() {
        const uint64_t q = q_matrix + (Shape::Q_STAGES > 1 ? q_at.stage * (Shape::Q_BYTES / 16) : 0),
                       k = k_matrix + k_at.stage * (Shape::TILE_BYTES / 16);
        begin_scores<Shape, Shape::QUERIES>(score, q, k);
    }
    __device__ __forceinline__ void add_values(unsigned (&weight)[KEYS / 4], bool add) {
        kg_pin(value);
        begin_values<Shape>(value, weight, v_matrix + v_at.stage * (Shape::V_BYTES / 16), add);
    }
    __device__ __forceinline__ void mask(int tile) {
        const int key = tile * KEYS;
        const key_range mine(p, first, ROWS);
        if (key >= mine.all_begin && key + KEYS <= mine.all_end) return;
        int first_key[2], last_key[2];
        row_limits(p, first + warp * 16 + lane / 4, first_key, last_key);
        mask_scores(score, key, first_key, last_key);
    }

    /* Makes `fresh`, the tile's weights, while the values of the tile before, whose weights are `used`, are summed. */
    __device__ __forceinline__ void step(unsigned (&used)[KEYS / 4], unsigned (&fresh)[KEYS / 4], int tile, bool add) {
        wait_keys();
        wait_to_issue();
        make_scores();
        wait_values();
        add_values(used, add);
        let_other_issue();
        kg_wgmma_wait<1>(); /* the scores */
        release_keys();
        finish_scores<Shape>(score);
        mask(tile);
        bool good_rows[2];
        const bool good = try_weights(sums, score, fresh, scale, good_rows);
        kg_wgmma_wait<0>(); /* the values */
        release_values();
        if (!good) redo_weights(sums, score, fresh, value, scale, good_rows);
    }

    /* The tiles from `end` - 1 down to `begin`, begin < end, but for the wait for the last values. head_scales: of
     * inputs of a byte, queries' and keys', which may still be loading. */
    __device__ __forceinline__ void run_tiles(int begin, int end, const float (&head_scales)[2]) {
        unsigned even[KEYS / 4], odd[KEYS / 4];
        float shrink[2];
        int tile = end - 1;
        wait_keys();
        wait_to_issue();
        make_scores();
        let_other_issue();
        kg_wgmma_wait<0>();
        release_keys();
        finish_scores<Shape>(score);
        scale = p.scale * (head_scales[0] * head_scales[1]);
        mask(tile);
        softmax_exact(sums, score, even, shrink, scale, { false, false });
        for (; tile - 2 >= begin; tile -= 2) {
            step(even, odd, tile - 1, tile < end - 1);
            step(odd, even, tile - 2, true);
        }
        if (tile > begin) {
            step(even, odd, begin, tile < end - 1);
            wait_values();
            add_values(odd, true);
        } else {
            wait_values();
            add_values(even, tile < end - 1);
        }
        q_at.release(shared + Shape::Q_EMPTY);
    }

    /* Where the first of the thread's two rows of item w goes, and what its values are to be multiplied by. */
    struct result {
        __half *y;
        int row;
        float share[2];
    };
    __device__ __forceinline__ result result_of(int w) const {
        kg_make_opaque(w); /* computed again after the tiles: it would take their registers */
        const work_item<Shape> item(p, w);
        float unit = 1; /* of the values */
        if (Shape::NARROW) unit = p.v_scale[(item.batch * p.n_heads + item.head) / p.group];
        const float sink = p.sinks ? p.sinks[item.head] * LOG2_E : -CUDART_INF_F;
        return { p.y + item.batch * p.y_strides.batch + item.head * p.y_strides.head,
                 item.first + index * ROWS + warp * 16 + lane / 4,
                 { unit * row_share(sums.reference[0], row_weight(sums.weight[0]), scale, sink),
                   unit * row_share(sums.reference[1], row_weight(sums.weight[1]), scale, sink) } };
    }

    __device__ __forceinline__ void run() {
        const int n_work = p.n_row_tiles * p.n_heads * p.n_batch;
        if (index == 1) let_other_issue();
        if (Shape::NARROW) kg_dependency_wait(); /* for the heads' scales */
        for (int round = 0, w; (w = item_of(p, round)) < n_work; round++) {
            const work_item<Shape> item(p, w);
            first = item.first + index * ROWS;
            sums.clear();
            float head_scales[2] = { 1, 1 };
            if (Shape::NARROW) {
                const int plane = item.batch * p.n_heads + item.head;
                head_scales[0] = p.q_scale[plane], head_scales[1] = p.k_scale[plane / p.group];
            }
            result to;
            if (item.tile_begin < item.tile_end) {
                q_at.wait_full(shared + Shape::Q_FULL);
                run_tiles(item.tile_begin, item.tile_end, head_scales);
                to = result_of(item_of(p, round)); /* beside the last products */
                kg_wgmma_wait<0>();
                release_values();
            } else {
                kg_dependency_wait(); /* with no data to wait for */
                scale = p.scale;
#pragma unroll
                for (int i = 0; i < DIMS / 2; i++) value[i] = 0;
                to = result_of(item_of(p, round));
            }
            scale_rows(value, to.share);
            store_rows(to.y, p.y_strides.row, to.row, p.n_queries, p.head_dim, value);
        }
    }
};

template <typename Shape>
static __global__ void __launch_bounds__(Shape::THREADS, 1) sdpa_wgmma_kernel(const __grid_constant__ hopper_params p) {
    kg_require_sm_90a();
    const unsigned shared = tiles_begin();
    constexpr int FETCHER = Shape::WORKERS * 128;
    if (threadIdx.x == FETCHER) {
        prefetch_maps(p);
        constexpr int WORKER_WARPS = Shape::WORKERS * 4; /* a thread of each arrives */
        for (int i = 0; i < Shape::Q_STAGES; i++) {
            kg_mbarrier_init(shared + Shape::Q_FULL + 8 * i, 1);
            kg_mbarrier_init(shared + Shape::Q_EMPTY + 8 * i, WORKER_WARPS);
        }
        for (int i = 0; i < Shape::STAGES; i++) {
            kg_mbarrier_init(shared + Shape::K_FULL + 8 * i, 1);
            kg_mbarrier_init(shared + Shape::K_EMPTY + 8 * i, WORKER_WARPS);
            if (Shape::NARROW) kg_mbarrier_init(shared + Shape::FETCHED_FULL + 8 * i, 1);
            if (Shape::NARROW) kg_mbarrier_init(shared + Shape::FETCHED_EMPTY + 8 * i, Shape::CONVERTERS);
        }
        for (int i = 0; i < Shape::V_STAGES; i++) {
            kg_mbarrier_init(shared + Shape::V_FULL + 8 * i, Shape::NARROW ? Shape::CONVERTERS : 1);
            kg_mbarrier_init(shared + Shape::V_EMPTY + 8 * i, WORKER_WARPS);
        }
        kg_mbarrier_init_fence();
    }
    __syncthreads(); /* the barriers are initialised */
    kg_dependents_start();
    if (threadIdx.x >= FETCHER) {
        kg_registers_decrease<Shape::FETCH_REGISTERS>();
        if (threadIdx.x == FETCHER) {
            kg_dependency_wait(); /* and so, by its data, does every worker */
            fetch<Shape>(p, shared);
        }
        if (Shape::NARROW && threadIdx.x >= FETCHER + 32)
            convert<Shape>(p, shared, (int)threadIdx.x / 32 - FETCHER / 32 - 1);
    } else {
        kg_registers_increase<Shape::WORKER_REGISTERS>();
        worker<Shape>(p, shared).run();
    }
}

template <typename Shape>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                             struct kg_error *err) {
    struct hopper_params p;
    const enum kg_status status = hopper_params_make(&p, args, Shape::QUERIES, Shape::KEYS, err);
    if (status) return status;
    const uint64_t n_work = (uint64_t)p.n_row_tiles * p.n_heads * p.n_batch;
    const unsigned n_blocks = n_work < (uint64_t)cuda->n_sms ? (unsigned)n_work : (unsigned)cuda->n_sms;
    return kg_launch_dependent(cuda, sdpa_wgmma_kernel<Shape>, dim3(n_blocks), Shape::THREADS, p, "sdpa (wgmma)", err,
                               Shape::BYTES);
}

} // namespace kg_sdpa

enum kg_status kg_sdpa_wgmma_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                    struct kg_error *err) {
    using namespace kg_sdpa;
    if (wgmma_64_suits(args)) return wgmma_64_launch(cuda, args, err);
    return launch_for(args,
                      [=](auto in, auto dims) { return launch<wgmma_shape<decltype(in), dims>>(cuda, args, err); });
}
