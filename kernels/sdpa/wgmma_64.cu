/* sdpa by Hopper's warpgroup products, for prefill with head sizes up to 64 and few tiles (sm_90a): four warpgroups a block, of so few
 * registers that one's softmax runs beside the products of three.
 *
 *     y[i] = sum_j softmax_j(scale q[i] . k[j]) v[j]      per batch entry and head (contract in ops/sdpa.h)
 *
 * A block has two groups of 64 queries of one head and two parts of the keys: warpgroup 2 part + group. Tiles of KEYS keys go
 * to the parts in turn, each part's through its own rings of STAGES tiles; the first thread of a part's group 0 asks for
 * tensor copies. Causal without a window, a block takes a tile of queries as far from the end as its other one is from the
 * beginning, so that all blocks have as much to do; else neighbours. Group 0 has the later queries, and so no fewer keys.
 *
 * Left operands of products, the queries and the weights rounded to f16, are in registers; products are exact, summed in
 * float32. Weights are relative to the largest score of the part's first tile;
 * where that would take one out of f16's range, the warp takes the tile again relative to the largest so far (fragment.cuh).
 *
 * At the end the parts exchange halves of their columns through shared memory, and each merges what it then has of both:
 * the same bits each time. */
#include "kernels/dependent.cuh"
#include "kernels/mma.cuh"
#include "kernels/sdpa/fragment.cuh"
#include "kernels/sdpa/products.cuh"

namespace kg_sdpa {

constexpr int DIMS = 64, KEYS = 64, STAGES = 4, GROUPS = 2, PARTS = 2, WORKERS = GROUPS * PARTS,
              THREADS = WORKERS * 128;
static_assert((STAGES & (STAGES - 1)) == 0, "places in a ring are by its low bits");

/* Shared memory, in bytes from its beginning. Rows have 128 bytes. What a thread exchanges are vectors of 16 bytes, those
 * of a warpgroup side by side: its values of half of the columns, then its sums. */
constexpr int TILE_BYTES = KEYS * 128, VECTOR_BYTES = 128 * 16, VALUE_VECTORS = DIMS / 16,
              EXCHANGE_BYTES = (VALUE_VECTORS + 1) * VECTOR_BYTES;
constexpr int K = GROUPS * ROWS * 128, V = K + PARTS * STAGES * TILE_BYTES, EXCHANGE = V + PARTS * STAGES * TILE_BYTES,
              Q_FULL = EXCHANGE + WORKERS * EXCHANGE_BYTES, K_FULL = Q_FULL + 8, V_FULL = K_FULL + 8 * PARTS * STAGES,
              EMPTY = V_FULL + 8 * PARTS * STAGES, /* by groups, parts, stages */
    BYTES = EMPTY + 8 * WORKERS * STAGES + 1024;   /* and to begin at a multiple of 1024 */

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
        const bool folded = p.causal && p.window == 0;
        const int early = folded ? pair : 2 * pair,
                  late = folded ? p.n_row_tiles - 1 - pair : min(2 * pair + 1, p.n_row_tiles - 1);
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
struct rings {
    unsigned k, v, k_full, v_full, empty; /* in shared memory */

    __device__ __forceinline__ rings(unsigned shared, int part)
        : k(shared + K + part * STAGES * TILE_BYTES), v(shared + V + part * STAGES * TILE_BYTES),
          k_full(shared + K_FULL + part * STAGES * 8), v_full(shared + V_FULL + part * STAGES * 8),
          empty(shared + EMPTY + part * STAGES * 8) {
    }
    __device__ __forceinline__ void wait_keys(unsigned i) const {
        kg_hopper::barrier_wait(k_full + 8 * (i % STAGES), i / STAGES & 1);
    }
    __device__ __forceinline__ void wait_values(unsigned i) const {
        kg_hopper::barrier_wait(v_full + 8 * (i % STAGES), i / STAGES & 1);
    }
    /* Tile i is no longer needed by the group. */
    __device__ __forceinline__ void release(int group, unsigned i) const {
        if (threadIdx.x % 32 == 0) kg_hopper::barrier_arrive(empty + (group * PARTS * STAGES + i % STAGES) * 8);
    }
    __device__ __forceinline__ void wait_empty(int group, unsigned i) const {
        kg_hopper::barrier_wait(empty + (group * PARTS * STAGES + i % STAGES) * 8, i / STAGES & 1);
    }
    __device__ __forceinline__ void fetch(const hopper_params &p, unsigned i, int key, int kv_head, int batch) const {
        const unsigned stage = i % STAGES;
        kg_hopper::barrier_expect(k_full + 8 * stage, TILE_BYTES);
        kg_hopper::copy_box(k + stage * TILE_BYTES, &p.k, k_full + 8 * stage, 0, key, kv_head, batch);
        kg_hopper::barrier_expect(v_full + 8 * stage, TILE_BYTES);
        kg_hopper::copy_box(v + stage * TILE_BYTES, &p.v, v_full + 8 * stage, 0, key, kv_head, batch);
    }
};

/* Merges both parts' sums of the thread's rows: half of the columns each, which become the part's result in `kept`. */
static __device__ __forceinline__ void merge_parts(unsigned shared, int part, int group, const float (&value)[DIMS / 2],
                                                   float (&kept)[DIMS / 4], const row_sums &sums, float scale,
                                                   float sink) {
    using namespace kg_hopper;
    const unsigned at = shared + EXCHANGE + threadIdx.x % 128 * 16, to = at + (part * GROUPS + group) * EXCHANGE_BYTES,
                   from = at + ((part ^ 1) * GROUPS + group) * EXCHANGE_BYTES;
#pragma unroll
    for (int i = 0; i < DIMS / 4; i++) kept[i] = part ? value[DIMS / 4 + i] : value[i];
#pragma unroll
    for (int i = 0; i < VALUE_VECTORS; i++) {
        const int other = DIMS / 4 + 4 * i;
        store_shared(to + i * VECTOR_BYTES,
                     part ? make_float4(value[4 * i], value[4 * i + 1], value[4 * i + 2], value[4 * i + 3])
                          : make_float4(value[other], value[other + 1], value[other + 2], value[other + 3]));
    }
    store_shared(to + VALUE_VECTORS * VECTOR_BYTES,
                 make_float4(sums.reference[0], sums.weight[0], sums.reference[1], sums.weight[1]));
    named_barrier_sync(1 + group, PARTS * 128);
    const float4 more = load_shared_4(from + VALUE_VECTORS * VECTOR_BYTES);
    const float reference[2] = { more.x, more.z }, weight[2] = { more.y, more.w };
    float mine[2], theirs[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float largest = fmaxf(sums.reference[half], reference[half]),
                    zero = largest == -CUDART_INF_F ? 0.0f : largest;
        mine[half] = exp2_fast((sums.reference[half] - zero) * scale);
        theirs[half] = exp2_fast((reference[half] - zero) * scale);
        const float share =
            row_share(largest, sums.weight[half] * mine[half] + weight[half] * theirs[half], scale, sink);
        mine[half] *= share, theirs[half] *= share;
    }
#pragma unroll
    for (int i = 0; i < VALUE_VECTORS; i++) {
        const float4 x = load_shared_4(from + i * VECTOR_BYTES);
        kept[4 * i] = kept[4 * i] * mine[0] + x.x * theirs[0];
        kept[4 * i + 1] = kept[4 * i + 1] * mine[0] + x.y * theirs[0];
        kept[4 * i + 2] = kept[4 * i + 2] * mine[1] + x.z * theirs[1];
        kept[4 * i + 3] = kept[4 * i + 3] * mine[1] + x.w * theirs[1];
    }
}

/* The group's queries as left operands of products, 16 dims each, from rows with 128-byte swizzle. */
static __device__ __forceinline__ void load_queries(unsigned (&query)[DIMS / 4], unsigned rows) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < DIMS / 16; i++) {
        const unsigned at = rows + row * 128 + (((2 * i + lane / 16) ^ (row % 8)) * 16);
        kg_load_matrices_at(reinterpret_cast<unsigned(&)[4]>(query[4 * i]), at);
    }
}

static __global__ void __launch_bounds__(THREADS, 1) sdpa_wgmma_64_kernel(const __grid_constant__ hopper_params p) {
    using namespace kg_hopper;
    require_hopper();
    extern __shared__ unsigned char memory[];
    const unsigned shared = ((unsigned)__cvta_generic_to_shared(memory) + 1023) & ~1023u;
    kg_dependents_start();
    if (threadIdx.x == 0) {
        prefetch_map(&p.q), prefetch_map(&p.k), prefetch_map(&p.v);
        barrier_init(shared + Q_FULL, 1);
        for (int i = 0; i < PARTS * STAGES; i++)
            barrier_init(shared + K_FULL + 8 * i, 1), barrier_init(shared + V_FULL + 8 * i, 1);
        for (int i = 0; i < WORKERS * STAGES; i++) barrier_init(shared + EMPTY + 8 * i, 4); /* a thread of each warp */
        barrier_init_fence();
    }
    const int index = __shfl_sync(0xFFFFFFFF, threadIdx.x / 128, 0), group = index % GROUPS, part = index / GROUPS,
              lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const block_work work(p, (int)blockIdx.x);
    const int n = work.n_tiles(group, part), n_other = work.n_tiles(1, part), kv_head = work.head / p.group;
    const rings ring(shared, part);
    const auto key_of = [&](int i) { return (work.begin + part + i * PARTS) * KEYS; };
    const bool fetches = group == 0 && threadIdx.x % 128 == 0;
    __syncthreads(); /* the barriers are there */
    if (fetches) {
        kg_dependency_wait(); /* and so, by its data, does every worker */
        if (part == 0) {
            barrier_expect(shared + Q_FULL, GROUPS * ROWS * 128);
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
                copy_box(shared + g * ROWS * 128, &p.q, shared + Q_FULL, 0, work.first[g], work.head, work.batch);
        }
        for (int i = 0; i < min(STAGES, n); i++) ring.fetch(p, i, key_of(i), kv_head, work.batch);
    }

    const int first = group ? work.first[1] : work.first[0], row = first + warp * 16 + lane / 4;
    const key_range mine(p, first, ROWS);
    int first_key[2], last_key[2];
    row_limits(p, row, first_key, last_key);
    float score[KEYS / 2], value[DIMS / 2], shrink[2], sum[2];
    unsigned weight[KEYS / 4], query[DIMS / 4];
    const float scale = p.scale;
    row_sums sums;
    sums.clear();
    const uint64_t k_matrix = matrix_descriptor(ring.k), v_matrix = matrix_descriptor(ring.v, KEYS * 128);
    const auto make_scores = [&](unsigned i) {
        const uint64_t tile = k_matrix + i % STAGES * (TILE_BYTES / 16);
        ring.wait_keys(i);
        products_fence();
#pragma unroll
        for (int j = 0; j < DIMS / 16; j++)
            products<KEYS>::template registers<false>(score, reinterpret_cast<const unsigned(&)[4]>(query[4 * j]),
                                                      tile + j * 2, j > 0);
        products_commit();
    };
    const auto add_values = [&](unsigned i) {
        const uint64_t tile = v_matrix + i % STAGES * (TILE_BYTES / 16);
        ring.wait_values(i);
        pin(weight), pin(value);
        products_fence();
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++)
            products<DIMS>::template registers<true>(value, reinterpret_cast<const unsigned(&)[4]>(weight[4 * j]),
                                                     tile + j * 2048 / 16, i > 0 || j > 0);
        products_commit();
    };
    const auto mask = [&](int i) {
        const int key = key_of(i);
        if (key < mine.all_begin || key + KEYS > mine.all_end) mask_scores(score, key, first_key, last_key);
    };
    const auto refill = [&](int i) { /* where tile i was */
                                     if (!fetches || i < 0 || i + STAGES >= n) return;
                                     ring.wait_empty(0, i);
                                     if (i < n_other) ring.wait_empty(1, i);
                                     ring.fetch(p, i + STAGES, key_of(i + STAGES), kv_head, work.batch);
    };
    if (n > 0) {
        barrier_wait(shared + Q_FULL, 0);
        load_queries(query, shared + group * ROWS * 128);
        make_scores(0);
        products_wait<0>();
        mask(0);
        softmax_exact(sums, score, weight, shrink, scale, { false, false });
        for (int i = 1; i < n; i++) {
            make_scores(i);
            add_values(i - 1);
            refill(i - 2);
            products_wait<0>();
            ring.release(group, i - 1);
            mask(i);
            make_weights(sums, score, weight, sum, scale);
            bool good_rows[2];
            const bool good = __all_sync(0xFFFFFFFF, weights_good(good_rows, sums, sum, scale));
            if (good) sums.weight[0] += sum[0], sums.weight[1] += sum[1];
            if (!good) {
                whole_rows(good_rows);
                softmax_exact(sums, score, weight, shrink, scale, good_rows);
                scale_rows(value, shrink);
            }
        }
        add_values(n - 1);
        products_wait<0>();
        ring.release(group, n - 1);
    } else {
        kg_dependency_wait(); /* with no data to wait for */
#pragma unroll
        for (int i = 0; i < DIMS / 2; i++) value[i] = 0;
    }
    sums.weight[0] = row_weight(sums.weight[0]), sums.weight[1] = row_weight(sums.weight[1]);

    float kept[DIMS / 4];
    merge_parts(shared, part, group, value, kept, sums, scale, p.sinks ? p.sinks[work.head] * LOG2_E : -CUDART_INF_F);
    store_rows(p.y + work.batch * p.y_strides.batch + work.head * p.y_strides.head + part * (DIMS / 2), p.y_strides.row,
               row, p.n_queries, p.head_dim - part * (DIMS / 2), kept);
}

bool wgmma_64_suits(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args) {
    constexpr uint64_t BLOCK_QUERIES = GROUPS * ROWS, MOST_WAVES = 2; /* causal: with more, resident blocks win */
    const uint64_t n_blocks =
        (uint64_t)args->n_batch * args->n_heads * ((args->n_queries + BLOCK_QUERIES - 1) / BLOCK_QUERIES);
    const bool window = args->window > 0 && args->window < args->n_keys;
    return args->inputs == KG_PRECISION_F16 && args->head_dim <= DIMS && !window &&
           (!args->causal || n_blocks <= MOST_WAVES * (uint64_t)cuda->n_sms);
}

enum kg_status wgmma_64_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                               struct kg_error *err) {
    struct hopper_params p;
    const enum kg_status status = hopper_params_make(&p, args, ROWS, KEYS, err);
    if (status) return status;
    const struct hopper_launch grid = { (unsigned)((p.n_row_tiles + 1) / 2 * p.n_heads * p.n_batch), THREADS, BYTES,
                                        1 };
    return hopper_launch_kernel(cuda, sdpa_wgmma_64_kernel, grid, p, "sdpa (wgmma)", err);
}

} // namespace kg_sdpa
