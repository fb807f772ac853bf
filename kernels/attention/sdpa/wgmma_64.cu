/* sdpa by Hopper's warpgroup products, for prefill with head sizes up to 64 (sm_90a): four warpgroups a block, of so
 * few registers that one's softmax runs beside the products of three.
 *
 *     y[i] = sum_j softmax_j(scale q[i] . k[j]) v[j]      per batch entry and head (contract in ops/sdpa.h)
 *
 * A block has two groups of 64 queries of one head and two parts of the keys: warpgroup 2 part + group. Tiles of KEYS
 * keys go to the parts round robin, each part's through its own rings of STAGES tiles; the first thread of a part's
 * group 0 asks for tensor copies. Causal, where every block has a multiprocessor, a block takes a tile of queries as
 * far from the end as its other one is from the beginning, so that all blocks have as much to do; else neighbours,
 * causal ones longest first. Group 0 has the later queries, and so no fewer keys.
 *
 * Left operands of products, the queries and the weights rounded to f16, are in registers; products are exact, summed
 * in float32. Inputs of a byte are as in wgmma.cu: scores by products of bytes (queries in shared memory, for want of
 * registers), values written as halves to the ring that products read, by two warps a part beside the four warpgroups.
 *
 * Weights are relative to the largest score of the part's first tile; where that would take one out of f16's range, the
 * warp takes the tile again relative to the largest so far (fragment.cuh).
 *
 * At the end the parts exchange halves of their columns through shared memory, and each merges what it then has of
 * both: the same bits each time. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/mma.cuh"
#include "kernels/attention/sdpa/tile.cuh"

KG_PRELOADED(sdpa_wgmma_64, KG_SOME_PROMPTS)

namespace kg_sdpa {

constexpr int DIMS = 64, KEYS = 64, STAGES = 4, GROUPS = 2, PARTS = 2, WORKERS = GROUPS * PARTS;
static_assert(STAGES == 4, "the loop over a ring's places is written out");

/* Shared memory, in bytes from its beginning. Rows of halves have 128 bytes. What a thread exchanges are vectors of 16
 * bytes, those of a warpgroup side by side: its values of half of the columns, then its sums. */
constexpr int VECTOR_BYTES = 128 * 16, VALUE_VECTORS = DIMS / 16, EXCHANGE_BYTES = (VALUE_VECTORS + 1) * VECTOR_BYTES,
              RINGS = PARTS * STAGES;
template <typename In> struct wgmma_64_shape : tile_shape<In, DIMS, KEYS> {
    using tile = tile_shape<In, DIMS, KEYS>;
    static constexpr int CONVERTERS = tile::NARROW ? 2 : 0; /* warps a part */
    static constexpr int THREADS = WORKERS * 128 + PARTS * CONVERTERS * 32;
    /* Of a byte, whose queries stay in shared memory: the launch's 96 a thread are dealt out anew. */
    static constexpr int WORKER_REGISTERS = 112, CONVERTER_REGISTERS = 32;
    static constexpr int Q_BYTES = GROUPS * ROWS * tile::ROW_BYTES;
    static constexpr int K = Q_BYTES, V = K + RINGS * tile::TILE_BYTES, FETCHED = V + RINGS * tile::V_BYTES,
                         EXCHANGE = FETCHED + (tile::NARROW ? RINGS * tile::TILE_BYTES : 0),
                         Q_FULL = EXCHANGE + WORKERS * EXCHANGE_BYTES, K_FULL = Q_FULL + 8, V_FULL = K_FULL + 8 * RINGS,
                         FETCHED_FULL = V_FULL + 8 * RINGS,
                         EMPTY = FETCHED_FULL + 8 * RINGS, /* by groups, parts, stages */
        BYTES = EMPTY + 8 * WORKERS * STAGES + 1024;       /* and to begin at a multiple of 1024 */
};

/* What a block does: each group's first query (n_queries: none), and tiles of keys [begin, end). */
struct block_work {
    int head, batch, first[GROUPS], begin, end[GROUPS];

    __device__ __forceinline__ block_work(const hopper_params &p, int w) {
        const int planes = p.n_heads * p.n_batch, n_pairs = (p.n_row_tiles + 1) / 2;
        int plane, pair;
        if (p.causal) pair = n_pairs - 1 - w / planes, plane = w % planes; /* the longest first */
        else pair = w % n_pairs, plane = w / n_pairs;
        head = plane % p.n_heads;
        batch = plane / p.n_heads;
        const int early = p.folded ? pair : 2 * pair,
                  late = p.folded ? p.n_row_tiles - 1 - pair : min(2 * pair + 1, p.n_row_tiles - 1);
        first[0] = late * ROWS;
        first[1] = early < late ? early * ROWS : p.n_queries;
        begin = key_range(p, early * ROWS, ROWS).begin / KEYS;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            end[g] = first[g] < p.n_queries ? (key_range(p, first[g], ROWS).end + KEYS - 1) / KEYS : begin;
    }
    /* How many of them are the part's: begin + part + i PARTS. */
    __device__ __forceinline__ int n_tiles(int group, int part) const {
        return max((group ? end[1] : end[0]) - begin - part + PARTS - 1, 0) / PARTS;
    }
};

/* A part's rings: tile i is in place i % STAGES, for the i / STAGES'th time. */
template <typename Shape> struct rings {
    unsigned k, v, fetched; /* in shared memory; fetched: values as copies leave them (f16: v, at the keys' barrier) */
    unsigned k_full, v_full, fetched_full, empty;

    __device__ __forceinline__ rings(unsigned shared, int part)
        : k(shared + Shape::K + part * STAGES * Shape::TILE_BYTES),
          v(shared + Shape::V + part * STAGES * Shape::V_BYTES),
          fetched(Shape::NARROW ? shared + Shape::FETCHED + part * STAGES * Shape::TILE_BYTES : v),
          k_full(shared + Shape::K_FULL + part * STAGES * 8), v_full(shared + Shape::V_FULL + part * STAGES * 8),
          fetched_full(Shape::NARROW ? shared + Shape::FETCHED_FULL + part * STAGES * 8 : k_full),
          empty(shared + Shape::EMPTY + part * STAGES * 8) {
    }
    static __device__ __forceinline__ void wait(unsigned barriers, unsigned i) {
        kg_mbarrier_wait(barriers + 8 * (i % STAGES), i / STAGES & 1);
    }
    /* The place's tile is no longer needed by the group. */
    __device__ __forceinline__ void release(int group, int place) const {
        if (threadIdx.x % 32 == 0) kg_mbarrier_arrive(empty + (group * PARTS * STAGES + place) * 8);
    }
    __device__ __forceinline__ void wait_empty(int group, unsigned i) const {
        wait(empty + group * PARTS * STAGES * 8, i);
    }
    __device__ __forceinline__ void fetch(const hopper_params &p, unsigned i, int key, int kv_head, int batch) const {
        const unsigned stage = i % STAGES;
        kg_mbarrier_expect(k_full + 8 * stage, (Shape::NARROW ? 1 : 2) * Shape::TILE_BYTES);
        kg_tensor_copy(k + stage * Shape::TILE_BYTES, &p.k, k_full + 8 * stage, 0, key, kv_head, batch);
        if (Shape::NARROW) kg_mbarrier_expect(fetched_full + 8 * stage, Shape::TILE_BYTES);
        kg_tensor_copy(fetched + stage * Shape::TILE_BYTES, &p.v, fetched_full + 8 * stage, 0, key, kv_head, batch);
    }
    /* A warp writes its share of the n tiles of fetched values as halves; n_other: those that group 1 needs. */
    __device__ __forceinline__ void convert(int warp, int n, int n_other) const {
        const narrow_place<Shape::ROW_BYTES> place(threadIdx.x % 32);
#pragma unroll 1
        for (int i = 0; i < n; i++) {
            if (i >= STAGES) {
                wait_empty(0, i - STAGES);
                if (i - STAGES < n_other) wait_empty(1, i - STAGES);
            }
            wait(fetched_full, i);
            place.template convert<Shape, Shape::CONVERTERS, 1>(fetched + i % STAGES * Shape::TILE_BYTES,
                                                                v + i % STAGES * Shape::V_BYTES, warp);
            __syncwarp();
            if (threadIdx.x % 32 == 0) kg_mbarrier_arrive(v_full + i % STAGES * 8);
        }
    }
};

/* Merges both parts' sums of the thread's rows: half of the columns each, which become the part's result in `kept`. */
static __device__ __forceinline__ void merge_parts(unsigned exchange, int part, int group,
                                                   const float (&value)[DIMS / 2], float (&kept)[DIMS / 4],
                                                   const row_sums &sums, float scale, float sink, float unit) {
    const unsigned at = exchange + threadIdx.x % 128 * 16, to = at + (part * GROUPS + group) * EXCHANGE_BYTES,
                   from = at + ((part ^ 1) * GROUPS + group) * EXCHANGE_BYTES;
#pragma unroll
    for (int i = 0; i < DIMS / 4; i++) kept[i] = part ? value[DIMS / 4 + i] : value[i];
#pragma unroll
    for (int i = 0; i < VALUE_VECTORS; i++)
        kg_store_shared(to + i * VECTOR_BYTES, part ? vector_of(value, i) : vector_of(value, VALUE_VECTORS + i));
    kg_store_shared(to + VALUE_VECTORS * VECTOR_BYTES,
                    make_float4(sums.reference[0], sums.weight[0], sums.reference[1], sums.weight[1]));
    kg_barrier_sync(1 + group, PARTS * 128);
    const float4 more = kg_load_shared<float4>(from + VALUE_VECTORS * VECTOR_BYTES);
    const float2 parts[2][PARTS] = {
        { make_float2(more.x, more.y), make_float2(sums.reference[0], sums.weight[0]) },
        { make_float2(more.z, more.w), make_float2(sums.reference[1], sums.weight[1]) },
    };
    float factor[2][PARTS]; /* of a row: theirs, and this part's */
    merge_factors(factor[0], parts[0], scale, sink, unit);
    merge_factors(factor[1], parts[1], scale, sink, unit);
#pragma unroll
    for (int i = 0; i < VALUE_VECTORS; i++) {
        const float4 x = kg_load_shared<float4>(from + i * VECTOR_BYTES);
        kept[4 * i] = kept[4 * i] * factor[0][1] + x.x * factor[0][0];
        kept[4 * i + 1] = kept[4 * i + 1] * factor[0][1] + x.y * factor[0][0];
        kept[4 * i + 2] = kept[4 * i + 2] * factor[1][1] + x.z * factor[1][0];
        kept[4 * i + 3] = kept[4 * i + 3] * factor[1][1] + x.w * factor[1][0];
    }
}

/* The group's queries as left operands of products, 32 bytes of a row each, from rows with a swizzle of their bytes. */
template <int ROW_BYTES>
static __device__ __forceinline__ void load_queries(unsigned (&query)[ROW_BYTES / 8], unsigned rows) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < ROW_BYTES / 32; i++)
        kg_load_matrices_at(reinterpret_cast<unsigned(&)[4]>(query[4 * i]),
                            rows + narrow_offset<ROW_BYTES>(row, 2 * i + lane / 16));
}

template <typename Shape>
static __device__ __forceinline__ void begin_barriers(const hopper_params &p, unsigned shared) {
    prefetch_maps(p);
    kg_mbarrier_init(shared + Shape::Q_FULL, 1);
    for (int i = 0; i < RINGS; i++) {
        kg_mbarrier_init(shared + Shape::K_FULL + 8 * i, 1);
        kg_mbarrier_init(shared + Shape::V_FULL + 8 * i, Shape::NARROW ? Shape::CONVERTERS : 1);
        if (Shape::NARROW) kg_mbarrier_init(shared + Shape::FETCHED_FULL + 8 * i, 1);
    }
    for (int i = 0; i < WORKERS * STAGES; i++)
        kg_mbarrier_init(shared + Shape::EMPTY + 8 * i, 4); /* a thread of each warp */
    kg_mbarrier_init_fence();
}

template <typename Shape>
static __device__ __forceinline__ void fetch_queries(const hopper_params &p, const block_work &work, unsigned shared) {
    kg_mbarrier_expect(shared + Shape::Q_FULL, Shape::Q_BYTES);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        kg_tensor_copy(shared + g * ROWS * Shape::ROW_BYTES, &p.q, shared + Shape::Q_FULL, 0, work.first[g], work.head,
                       work.batch);
}

/* A warp that makes halves of values of a byte. */
template <typename Shape>
static __device__ __forceinline__ void run_converter(const hopper_params &p, unsigned shared) {
    const int warp = ((int)threadIdx.x - WORKERS * 128) / 32, part = warp / Shape::CONVERTERS;
    const block_work work(p, (int)blockIdx.x);
    __syncthreads(); /* the barriers are initialised */
    kg_registers_decrease<Shape::CONVERTER_REGISTERS>();
    rings<Shape>(shared, part).convert(warp % Shape::CONVERTERS, work.n_tiles(0, part), work.n_tiles(1, part));
}

template <typename Shape>
static __global__ void __launch_bounds__(Shape::THREADS, 1)
    sdpa_wgmma_64_kernel(const __grid_constant__ hopper_params p) {
    kg_require_sm_90a();
    const unsigned shared = tiles_begin();
    kg_dependents_start();
    if (threadIdx.x == 0) begin_barriers<Shape>(p, shared);
    if constexpr (Shape::NARROW)
        if (threadIdx.x >= WORKERS * 128) return run_converter<Shape>(p, shared);
    const int index = __shfl_sync(0xFFFFFFFF, threadIdx.x / 128, 0), group = index % GROUPS, part = index / GROUPS,
              lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const block_work work(p, (int)blockIdx.x);
    const int n = work.n_tiles(group, part), n_other = work.n_tiles(1, part), kv_head = work.head / p.group;
    const rings<Shape> ring(shared, part);
    const auto key_of = [&](int i) { return (work.begin + part + i * PARTS) * KEYS; };
    const bool fetches = group == 0 && threadIdx.x % 128 == 0;
    __syncthreads(); /* the barriers are initialised */
    if (Shape::NARROW) kg_registers_increase<Shape::WORKER_REGISTERS>();
    if (fetches) {
        kg_dependency_wait(); /* and so, by its data, does every worker */
        if (part == 0) fetch_queries<Shape>(p, work, shared);
        for (int i = 0; i < min(STAGES, n); i++) ring.fetch(p, i, key_of(i), kv_head, work.batch);
    }

    const int first = group ? work.first[1] : work.first[0], row = first + warp * 16 + lane / 4;
    const key_range mine(p, first, ROWS);
    int first_key[2], last_key[2];
    row_limits(p, row, first_key, last_key);
    float score[KEYS / 2], value[DIMS / 2], shrink[2];
    unsigned weight[KEYS / 4], query[Shape::ROW_BYTES / 8];
    float scale = p.scale, unit = 1; /* of scores in powers of two, and of values */
    if (Shape::NARROW) {
        kg_dependency_wait();
        const int plane = work.batch * p.n_heads + work.head, kv_plane = plane / p.group;
        scale *= p.q_scale[plane] * p.k_scale[kv_plane], unit = p.v_scale[kv_plane];
    }
    row_sums sums;
    sums.clear();
    const uint64_t k_matrix = kg_matrix_descriptor<Shape::ROW_BYTES>(ring.k),
                   v_matrix = kg_matrix_descriptor(ring.v, KEYS * 128);
    const uint64_t q_matrix = kg_matrix_descriptor<Shape::ROW_BYTES>(shared + group * ROWS * Shape::ROW_BYTES);
    /* Of the tile in a place of the ring, in the given round. Places are known when compiled: every instruction
     * beside the products takes time from them. */
    const auto make_scores = [&](const int place, unsigned round) {
        kg_mbarrier_wait(ring.k_full + 8 * place, round & 1);
        kg_wgmma_fence();
#pragma unroll
        for (int j = 0; j < Shape::ROW_BYTES / 32; j++) {
            const uint64_t tile = k_matrix + place * (Shape::TILE_BYTES / 16) + j * 2;
            if constexpr (Shape::NARROW) add_byte_products<Shape>(score, q_matrix + j * 2, tile, j > 0);
            else
                kg_wgmma<KEYS>::template registers<false>(score, reinterpret_cast<const unsigned(&)[4]>(query[4 * j]),
                                                          tile, j > 0);
        }
        kg_wgmma_commit();
    };
    const auto add_values = [&](const int place, unsigned round) {
        if (Shape::NARROW) kg_mbarrier_wait(ring.v_full + 8 * place, round & 1); /* else they came with the keys */
        kg_pin(value);
        begin_values<Shape>(value, weight, v_matrix + place * (Shape::V_BYTES / 16), true);
    };
    const auto mask = [&](int i) {
        const int key = key_of(i);
        if (key < mine.all_begin || key + KEYS > mine.all_end) mask_scores(score, key, first_key, last_key);
    };
    /* The next tile to where tile i was. */
    const auto refill = [&](int i) {
        if (!fetches || i < 0 || i + STAGES >= n) return;
        ring.wait_empty(0, i);
        if (i < n_other) ring.wait_empty(1, i);
        ring.fetch(p, i + STAGES, key_of(i + STAGES), kv_head, work.batch);
    };
    /* Tile i's scores, the values of the tile before, tile i's weights. */
    const auto step = [&](int i, const int place, unsigned round) {
        const int used = (place + STAGES - 1) % STAGES;
        make_scores(place, round);
        add_values(used, place ? round : round - 1);
        refill(i - 2);
        kg_wgmma_wait<0>();
        ring.release(group, used);
        finish_scores<Shape>(score);
        mask(i);
        bool good_rows[2];
        if (!try_weights(sums, score, weight, scale, good_rows))
            redo_weights(sums, score, weight, value, scale, good_rows);
    };
#pragma unroll
    for (int i = 0; i < DIMS / 2; i++) value[i] = 0;
    if (n > 0) {
        kg_mbarrier_wait(shared + Shape::Q_FULL, 0);
        if (!Shape::NARROW) load_queries<Shape::ROW_BYTES>(query, shared + group * ROWS * Shape::ROW_BYTES);
        make_scores(0, 0);
        kg_wgmma_wait<0>();
        finish_scores<Shape>(score);
        mask(0);
        softmax_exact(sums, score, weight, shrink, scale, { false, false });
        unsigned round = 0;
        for (int i = 1; i < n; i += STAGES) { /* written out: a loop over the places made it 3% slower */
            step(i, 1, round);
            if (i + 1 < n) step(i + 1, 2, round);
            if (i + 2 < n) step(i + 2, 3, round);
            round++;
            if (i + 3 < n) step(i + 3, 0, round);
        }
        add_values((n - 1) % STAGES, (n - 1) / STAGES);
        kg_wgmma_wait<0>();
        ring.release(group, (n - 1) % STAGES);
    } else kg_dependency_wait(); /* with no data to wait for */
    sums.weight[0] = row_weight(sums.weight[0]), sums.weight[1] = row_weight(sums.weight[1]);

    float kept[DIMS / 4];
    merge_parts(shared + Shape::EXCHANGE, part, group, value, kept, sums, scale,
                p.sinks ? p.sinks[work.head] * LOG2_E : -CUDART_INF_F, unit);
    store_rows(p.y + work.batch * p.y_strides.batch + work.head * p.y_strides.head + part * (DIMS / 2), p.y_strides.row,
               row, p.n_queries, p.head_dim - part * (DIMS / 2), kept);
}

bool wgmma_64_suits(const struct kg_sdpa_args *args) {
    return args->head_dim <= DIMS && (args->window == 0 || args->window >= args->n_keys);
}

template <typename Shape>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                             struct kg_error *err) {
    struct hopper_params p;
    const enum kg_status status = hopper_params_make(&p, args, ROWS, KEYS, err);
    if (status) return status;
    const unsigned n_blocks = (unsigned)((p.n_row_tiles + 1) / 2 * p.n_heads * p.n_batch);
    p.folded = p.causal && p.window == 0 && n_blocks <= (unsigned)cuda->n_sms;
    return kg_launch_dependent(cuda, sdpa_wgmma_64_kernel<Shape>, dim3(n_blocks), Shape::THREADS, p, "sdpa (wgmma)",
                               err, Shape::BYTES);
}

enum kg_status wgmma_64_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                               struct kg_error *err) {
    return launch_inputs(args, [=](auto in) { return launch<wgmma_64_shape<decltype(in)>>(cuda, args, err); });
}

} // namespace kg_sdpa
