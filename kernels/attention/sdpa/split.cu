/* Decode attention: few queries over many keys (contract in ops/sdpa.h), bound by reading keys and values once.
 *
 * The rows of a KV head, (query head of its group, query), are packed 8 or 16 to a block (COLS tiles of 8): keys and
 * values are read once for all of them. Keys are split over blocks, a block's over its warps, tiles of 16 keys round
 * robin. Tensor cores compute transposed, so that 8 rows of queries waste nothing: scores^T (16 keys x 8 rows) = k (16
 * keys x D) q^T,    values^T (D x 8 rows) += v^T (D x 16 keys) weights^T A lane (g, t) loads its operands from global
 * memory straight into registers, 16 bytes at a time: the order of D within a product is free as long as q has the same
 * (order_k), and that of v's dims is undone at the end (dim_of). What is in flight lies in registers: nothing passes
 * through shared memory, no warp waits for another one before the end. Softmax is online in float32, per warp; weights,
 * at most 1, are rounded to f16 for the product with the values.
 *
 * Partial results (values, exponent of the largest score, sum of weights) are merged in three levels, each in a fixed
 * order: warps through shared memory; the blocks of a cluster (sm_90), where every block gets a share of the items
 * (row, 4 dims) and the others write theirs into its shared memory; clusters through args->workspace, where those of
 * the last keys wait for the others' items. Only these wait for another block, at most half of all, and blocks start in
 * order: the others can run. workspace: for each group of rows and each cluster its items, then their (exponent, sum).
 */
#include "kernels/attention/sdpa/split.cuh"
#include "kernels/preload.h"

KG_PRELOADED(sdpa_split, KG_SOME_PROMPTS)

using namespace kg_sdpa_mma;

namespace {

constexpr int N_WARPS = 8;
constexpr uint32_t MAX_CLUSTER = 16;

/* Grid: (split, KV head, (batch entry, tile of rows)). TILES: tiles of 16 keys that a warp has in flight. EXACT:
 * head_dim is DIMS. */
template <typename T, int DIMS, int COLS, bool EXACT, int N_WARPS, int TILES, bool DECODE>
__global__ void __launch_bounds__(N_WARPS * 32) split_kernel(const split_params p) {
    using shared_t = split_shared<DIMS, 8 * COLS, N_WARPS>;
    constexpr int ROWS = shared_t::ROWS, STEPS = DIMS / 16;
    constexpr int STEP_KEYS = TILES * TILE_KEYS;
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    shared_t &shared = *reinterpret_cast<shared_t *>(dynamic_shared);

    const struct kg_sdpa_args &a = p.args;
    const block_job job = job_of<DECODE>(p);
    if (DECODE && blockIdx.x >> p.cluster_log2 >= job.n_parts) return; /* whole clusters without keys */
    const split_cluster cluster(p, shared);
    kg_dependents_start();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const T *k = (const T *)a.k + job.batch * a.k_strides.batch + job.kv_head * a.k_strides.head;
    const T *v = (const T *)a.v + job.batch * a.v_strides.batch + job.kv_head * a.v_strides.head;
    prefetch_keys(p, job, k, v, N_WARPS * 32);
    const T *q_row[COLS];
#pragma unroll
    for (int col = 0; col < COLS; col++) {
        const row_place place = row_of<ROWS>(p, job, 8 * col + g);
        q_row[col] = (const T *)a.q + job.batch * a.q_strides.batch + place.head * a.q_strides.head +
                     place.query * a.q_strides.row;
        kg_make_opaque(q_row[col]);
    }
    const size_t kv_index = (size_t)job.batch * a.n_kv_heads + job.kv_head;
    flight<T, DIMS, TILES, EXACT> f;
    int at = job.begin + warp * STEP_KEYS; /* this warp's next keys */
    f.find_keys(k, p, at, job.end, lane);
    f.find_values(v, p, at, job.end, lane);
    kg_dependency_wait();

    /* Lane g holds row g of q as right operand; lane t holds rows 2t and 2t + 1 of everything else. */
    warp_rows<DIMS, COLS> s;
    begin_rows<T>(s, p, job, t);
    float k_scale = 1, v_scale = 1, sink = -CUDART_INF_F;
    if (sizeof(T) == 1) k_scale = kg_load_global(a.k_scale + kv_index), v_scale = kg_load_global(a.v_scale + kv_index);
    if (a.sinks && threadIdx.x < ROWS) sink = kg_load_global(a.sinks + row_of<ROWS>(p, job, threadIdx.x).head) * LOG2_E;
    unsigned q_words[COLS][words<T, DIMS>::K] = {}, q[COLS][STEPS][2];
#pragma unroll
    for (int col = 0; col < COLS; col++) load_key<T, DIMS, EXACT>(q_words[col], q_row[col], t, a.head_dim);
    if (at < job.end) {
        f.load_keys(p, lane);
        f.load_values(p, lane);
    }
    if (threadIdx.x < ROWS) shared.sinks[threadIdx.x] = sink;
    __syncwarp();
    if (cluster.n > 1) kg_cluster_wait(); /* every block of the cluster has started */
    const key_range unmasked = seen_by_all(p, job);
#pragma unroll
    for (int col = 0; col < COLS; col++) {
#pragma unroll
        for (int e = 0; e < 2; e++) s.c[col][e] *= exponent_factor(a.scale) * k_scale;
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            step_of<T>(q[col][i], q_words[col], i);
            q[col][i][0] ^= sign_flip(a.scale), q[col][i][1] ^= sign_flip(a.scale);
        }
    }

    for (; at < job.end; at += N_WARPS * STEP_KEYS) {
        const int next = at + N_WARPS * STEP_KEYS;
        float score[TILES][COLS][4] = {};
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) dot_products<T, DIMS>(score[tile], f.k[tile], q);
        if (next < job.end) {
            f.find_keys(k, p, next, job.end, lane);
            f.load_keys(p, lane);
        }
        if (at < unmasked.begin || at + STEP_KEYS > unmasked.end) { /* the same for the whole warp */
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) mask(score[tile], s, at + tile * TILE_KEYS + g);
        }
        __syncwarp(); /* values are waited for no sooner than they are needed */
        softmax_step<DIMS, COLS, TILES>(s, score);
        __syncwarp();
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) add_values<T>(s, score[tile], f.v[tile]);
        if (next < job.end) {
            f.find_values(v, p, next, job.end, lane);
            f.load_values(p, lane);
        }
    }
    __syncwarp();
    store_rows(shared, s, warp, lane);
    __syncthreads(); /* every warp's rows are visible */
    merge_items(p, job, shared, cluster, [&](uint32_t row, uint32_t place, const partial &x) {
        write_item<DIMS>(p, job, job.row_tile * ROWS + row, place, x, shared.sinks[row], v_scale);
    });
}

} // namespace

/* Keys that any query sees, from the first one to the last, of n_keys. */
static uint32_t keys_read(const struct kg_sdpa_args *args, uint32_t n_keys) {
    const uint64_t reach = (uint64_t)args->window + args->n_queries - 1;
    return args->causal && args->window > 0 && reach < n_keys ? (uint32_t)reach : n_keys;
}

/* Splits double as long as every block has a multiprocessor and enough keys. Clusters lie within a part of the GPU, of
 * which some have a few multiprocessors less: an eighth of all stays out of use, and where the splits are too many for
 * that they go through memory, in pairs if they are more than are read there at once. Beyond a cluster's worth of
 * splits, memory pays where a block would read for longer than that takes. */
split_plan kg_sdpa_mma::plan_split(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                   uint32_t most_keys, uint64_t n_groups) {
    constexpr uint64_t MIN_KEYS = 128, LONG_BYTES = 256 << 10, BEYOND_CACHE_BYTES = 32 << 20;
    constexpr uint32_t HALF_CLUSTER = MAX_CLUSTER / 2, MAX_SPLITS = 64;
    const uint64_t n_keys = keys_read(args, most_keys), n_blocks = most_split_blocks(cuda);
    const uint64_t n_clustered = kg_has_clusters(cuda) ? n_blocks - n_blocks / 8 : 0;
    const uint64_t bytes = n_keys * args->head_dim * 2 * kg_precision_bytes(args->inputs); /* of a KV head */
    const uint32_t most = n_clustered > 0 ? MAX_CLUSTER : MAX_SPLITS;
    split_plan plan = { 1, 1, 0, 0 };
    while (plan.n_splits < most && 2 * plan.n_splits * n_groups <= n_blocks && 2 * plan.n_splits * MIN_KEYS <= n_keys)
        plan.n_splits *= 2;
    if (plan.n_splits * n_groups <= n_clustered) plan.cluster = plan.n_splits;
    else if (n_clustered > 0 && plan.n_splits > part_items::AT_ONCE) plan.cluster = 2;
    const uint64_t n_long = n_clustered / n_groups / HALF_CLUSTER * HALF_CLUSTER;
    if (plan.cluster == MAX_CLUSTER && n_long > MAX_CLUSTER && bytes > MAX_CLUSTER * LONG_BYTES)
        plan.n_splits = (uint32_t)n_long, plan.cluster = HALF_CLUSTER;
    plan.keys_per_split = kg_blocks_for(n_keys, plan.n_splits * TILE_KEYS) * TILE_KEYS;
    if (bytes * args->n_kv_heads * args->n_batch >= BEYOND_CACHE_BYTES) plan.prefetch_keys = SPLIT_PREFETCH_KEYS;
    return plan;
}

template <typename T, int DIMS, int COLS, bool EXACT, bool DECODE>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const split_call &call, struct kg_error *err) {
    using shared_t = split_shared<DIMS, 8 * COLS, N_WARPS>;
    /* Registers of a lane that a tile of keys and values takes, and that may be in flight. */
    constexpr int TILE_WORDS = 2 * words<T, DIMS>::K + 4 * words<T, DIMS>::V, WORDS = COLS == 1 ? 128 : 64;
    constexpr int TILES = WORDS / TILE_WORDS < 4 ? WORDS / TILE_WORDS : 4;
    return launch_split<shared_t>(cuda, split_kernel<T, DIMS, COLS, EXACT, N_WARPS, TILES, DECODE>, call, err);
}

static uint32_t rows_of(const struct kg_sdpa_args *args) { /* of a KV head */
    return args->n_heads / args->n_kv_heads * args->n_queries;
}

template <typename T, int DIMS, bool EXACT, bool DECODE>
static enum kg_status launch_rows(const struct kg_cuda_backend *cuda, const split_call &call, struct kg_error *err) {
    return rows_of(call.args) <= 8 ? launch<T, DIMS, 1, EXACT, DECODE>(cuda, call, err)
                                   : launch<T, DIMS, 2, EXACT, DECODE>(cuda, call, err);
}

template <typename T, bool DECODE>
static enum kg_status launch_dims(const struct kg_cuda_backend *cuda, const split_call &call, struct kg_error *err) {
    const uint32_t head_dim = call.args->head_dim;
    switch (head_dim) {
    case 64: return launch_rows<T, 64, true, DECODE>(cuda, call, err);
    case 96: return launch_rows<T, 96, true, DECODE>(cuda, call, err);
    case 128: return launch_rows<T, 128, true, DECODE>(cuda, call, err);
    default:
        return head_dim < 96 ? launch_rows<T, 96, false, DECODE>(cuda, call, err)
                             : launch_rows<T, 128, false, DECODE>(cuda, call, err);
    }
}

const char *kg_sdpa_split_refuses(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args) {
    constexpr uint64_t MAX_GRID = 65535; /* but for its first dimension */
    if (args->n_queries > KG_SDPA_SPLIT_MAX_QUERIES) return "there are more than 16 queries";
    if (!args->workspace) return "the workspace is missing";
    if (args->n_kv_heads > MAX_GRID || args->n_heads > INT32_MAX / KG_SDPA_SPLIT_MAX_QUERIES ||
        (uint64_t)args->n_batch * kg_blocks_for(rows_of(args), 8) > MAX_GRID)
        return "too many heads or batch entries";
    return refuses_operands(cuda, args);
}

enum kg_status kg_sdpa_split_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                    struct kg_error *err) {
    const split_call call = { args, NULL, 0 };
    return kg_sdpa::launch_inputs(args, [&](auto in) { return launch_dims<decltype(in), false>(cuda, call, err); });
}

enum kg_status kg_sdpa_mma::decode_split(const struct kg_cuda_backend *cuda, const split_call &call,
                                         struct kg_error *err) {
    return launch_dims<__half, true>(cuda, call, err);
}
