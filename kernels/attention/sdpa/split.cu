/* Decode attention: few queries over many keys (contract in ops/sdpa.h), bound by reading keys and values once.
 *
 * The rows of a KV head, (query head of its group, query), are packed 8 or 16 to a block (COLS tiles of 8): keys and
 * values are read once for all of them. Keys are split over blocks, a block's over its warps, tiles of 16 keys in turn.
 * Tensor cores compute transposed, so that 8 rows of queries waste nothing:
 *     scores^T (16 keys x 8 rows) = k (16 keys x D) q^T,    values^T (D x 8 rows) += v^T (D x 16 keys) weights^T
 * A lane (g, t) loads its operands from global memory straight into registers, 16 bytes at a time: the order of D
 * within a product is free as long as q has the same (order_k), and that of v's dims is undone at the end (dim_of).
 * What is in flight lies in registers: nothing passes through shared memory, no warp waits for another one before the
 * end. Softmax is online in float32, per warp; weights, at most 1, are rounded to f16 for the product with the values.
 *
 * Partial results (values, exponent of the largest score, sum of weights) are merged in three levels, each in a fixed
 * order: warps through shared memory; the blocks of a cluster (sm_90), where every block gets a share of the items
 * (row, 4 dims) and the others write theirs into its shared memory; clusters through args->workspace, where those of
 * the last keys wait for the others' items. Only these wait for another block, at most half of all, and blocks start in
 * order: the others can run. workspace: for each group of rows and each cluster its items, then their (exponent, sum).
 */
#include "kernels/attention/sdpa/operands.cuh"
#include "kernels/attention/sdpa/partial.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/compiler.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"

using namespace kg_sdpa_mma;

namespace {

constexpr int TILE_KEYS = 16, ROW_PAD = 4, PER_ITEM = 4; /* floats */
constexpr int N_WARPS = 8;
constexpr uint32_t MAX_CLUSTER = 16;

struct split_params {
    struct kg_sdpa_args args;
    uint32_t group, n_rows, n_row_tiles;            /* heads of a KV head; rows of it; tiles of 8 COLS of them */
    uint32_t prefetch_keys;                         /* of a split, while the launch before runs */
    uint32_t keys_per_split, cluster_log2, n_parts; /* 2^cluster_log2 blocks a cluster, n_parts clusters for all keys */
    float4 *items;
    float2 *weights;
};

/* Words (4 bytes) of a lane. K: a share of one key's row; V: a share of one key's row; both of DIMS dims. */
template <typename T, int DIMS> struct words {
    static constexpr int PER_WORD = 4 / sizeof(T), K = DIMS / 4 / PER_WORD, V = DIMS / 8 / PER_WORD;
};

/* A row's words in whole blocks of BLOCK dims, each lane taking BLOCK / LANES dims of a block, then half a block. Words
 * of dims from head_dim on stay as they are. */
template <typename T, int DIMS, int LANES, int BLOCK, bool EXACT>
__device__ __forceinline__ void load_row(unsigned *to, const T *row, uint32_t lane, uint32_t head_dim) {
    constexpr int DIMS_AT_ONCE = BLOCK / LANES, WORDS = DIMS_AT_ONCE * (int)sizeof(T) / 4;
#pragma unroll
    for (int i = 0; i < DIMS / BLOCK; i++) {
        const uint32_t d = i * BLOCK + lane * DIMS_AT_ONCE;
        if (EXACT || d < head_dim) kg_load_no_allocate<WORDS>(to + i * WORDS, row + d);
    }
    if constexpr (DIMS % BLOCK != 0) {
        static_assert(DIMS % BLOCK == BLOCK / 2, "the rest is half a block");
        const uint32_t d = DIMS / BLOCK * BLOCK + lane * (DIMS_AT_ONCE / 2);
        if (EXACT || d < head_dim) kg_load_no_allocate<WORDS / 2>(to + DIMS / BLOCK * WORDS, row + d);
    }
}

/* Of a row to be loaded: zeros where some dims are not; else whatever the registers have, which takes no instruction.
 */
template <bool EXACT, int N> __device__ __forceinline__ void begin_words(unsigned (&row)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        if constexpr (EXACT) kg_leave_undefined(row[i]);
        else row[i] = 0;
    }
}

/* Lane t's share of a key's (or a query's) row. */
template <typename T, int DIMS, bool EXACT>
__device__ __forceinline__ void load_key(unsigned *to, const T *row, uint32_t t, uint32_t head_dim) {
    load_row<T, DIMS, 4, 64 / (int)sizeof(T), EXACT>(to, row, t, head_dim);
}

/* Lane g's share of a value's row; dim_of says which dims those are. */
template <typename T, int DIMS, bool EXACT>
__device__ __forceinline__ void load_value(unsigned *to, const T *row, uint32_t g, uint32_t head_dim) {
    load_row<T, DIMS, 8, 64, EXACT>(to, row, g, head_dim);
}

/* First of the two dims that lane g has in values tile m (16 dims): rows g and g + 8 of the accumulator. */
template <int DIMS> __device__ __forceinline__ uint32_t dim_of(uint32_t m, uint32_t g) {
    constexpr uint32_t WHOLE = DIMS / 64;
    return m < 4 * WHOLE ? m / 4 * 64 + 8 * g + m % 4 * 2 : WHOLE * 64 + 4 * g + (m - 4 * WHOLE) * 2;
}

/* Step s (16 dims) of the product over dims: the two registers of a row. */
template <typename T> __device__ __forceinline__ void step_of(unsigned (&r)[2], const unsigned *row, int s) {
    if constexpr (sizeof(T) == sizeof(__half)) {
        r[0] = row[2 * s], r[1] = row[2 * s + 1];
    } else {
        r[0] = halves_of_low(row[s]), r[1] = halves_of_high(row[s]);
    }
}

/* Values tile m as left operand: dims in rows, the 16 keys in columns. v[i]: keys 2t, 2t + 1, 2t + 8, 2t + 9. */
template <typename T, int WORDS>
__device__ __forceinline__ void values_of(unsigned (&a)[4], const unsigned (&v)[4][WORDS], int m) {
    if constexpr (sizeof(T) == sizeof(__half)) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            a[2 * half] = __byte_perm(v[2 * half][m], v[2 * half + 1][m], 0x5410);
            a[2 * half + 1] = __byte_perm(v[2 * half][m], v[2 * half + 1][m], 0x7632);
        }
    } else {
        const int word = m / 2;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const unsigned pairs = __byte_perm(v[2 * half][word], v[2 * half + 1][word], m % 2 ? 0x7362 : 0x5140);
            a[2 * half] = halves_of_low(pairs), a[2 * half + 1] = halves_of_high(pairs);
        }
    }
}

/* Rows 2t and 2t + 1 of each of the COLS tiles of 8: what a warp knows of them. */
template <int DIMS, int COLS> struct warp_rows {
    float value[COLS][DIMS / 16][4]; /* [0], [1]: the tile's first dim for both rows; [2], [3]: its second */
    float score[COLS][2], exponent[COLS][2], weight[COLS][2];
    float c[COLS][2]; /* factor of the exponent */
    key_range seen[COLS][2];
};

/* What a block computes: queries, keys [begin, end). */
struct block_job {
    uint32_t batch, kv_head, row_tile;
    int first_position;     /* of query 0 */
    int all_begin, all_end; /* keys that any query sees */
    int begin, end;         /* the block's */
};

__device__ __forceinline__ block_job job_of(const split_params &p) {
    block_job job = { blockIdx.z, blockIdx.y, 0 };
    if (p.n_row_tiles > 1) job.batch = blockIdx.z / p.n_row_tiles, job.row_tile = blockIdx.z % p.n_row_tiles;
    job.first_position = (int)p.args.n_keys - (int)p.args.n_queries;
    job.all_begin = keys_seen(p.args, job.first_position).begin;
    job.all_end = (int)p.args.n_keys;
    job.begin = min(job.all_begin + (int)(blockIdx.x * p.keys_per_split), job.all_end);
    job.end = min(job.begin + (int)p.keys_per_split, job.all_end);
    return job;
}

/* Scores of 16 keys: rows of queries in columns. */
template <typename T, int DIMS, int COLS>
__device__ __forceinline__ void dot_products(float (&score)[COLS][4], const unsigned (&k)[2][words<T, DIMS>::K],
                                             const unsigned (&q)[COLS][DIMS / 16][2]) {
#pragma unroll
    for (int i = 0; i < DIMS / 16; i++) {
        unsigned low[2], high[2];
        step_of<T>(low, k[0], i), step_of<T>(high, k[1], i);
        const unsigned keys[4] = { low[0], high[0], low[1], high[1] };
#pragma unroll
        for (int col = 0; col < COLS; col++) kg_mma_16x8x16(score[col], keys, q[col][i][0], q[col][i][1]);
    }
}

/* Scores of key `key` (rows 0-7 of the tile) and key + 8 of rows that do not see it. */
template <int DIMS, int COLS>
__device__ __forceinline__ void mask(float (&score)[COLS][4], const warp_rows<DIMS, COLS> &s, int key) {
#pragma unroll
    for (int col = 0; col < COLS; col++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int at = key + e / 2 * 8;
            if (at < s.seen[col][e % 2].begin || at >= s.seen[col][e % 2].end) score[col][e] = -CUDART_INF_F;
        }
}

/* Scores become weights relative to the rows' new maxima; what was summed so far is scaled to them. */
template <int DIMS, int COLS, int TILES>
__device__ __forceinline__ void softmax_step(warp_rows<DIMS, COLS> &s, float (&score)[TILES][COLS][4]) {
#pragma unroll
    for (int col = 0; col < COLS; col++) {
        float shrink[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float largest = s.score[col][e];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++)
                largest = fmaxf(largest, fmaxf(score[tile][col][e], score[tile][col][e + 2]));
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2) /* the row's eight lanes */
                largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, apart));
            const float exponent = top_exponent(largest, s.c[col][e]);
            shrink[e] = kg_exp2_fast(s.exponent[col][e] - exponent);
            s.score[col][e] = largest, s.exponent[col][e] = exponent;
            const exponent_shift shift(largest, exponent);
            if (shift.shifts) {
#pragma unroll
                for (int tile = 0; tile < TILES; tile++)
                    score[tile][col][e] -= shift.score, score[tile][col][e + 2] -= shift.score;
            }
            float sum = 0; /* of this lane's keys; lanes are added at the end */
#pragma unroll
            for (int tile = 0; tile < TILES; tile++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float &x = score[tile][col][e + 2 * half];
                    x = kg_exp2_fast(fmaf(x, s.c[col][e], -shift.exponent));
                    sum += x;
                }
            s.weight[col][e] = fmaf(s.weight[col][e], shrink[e], sum);
        }
#pragma unroll
        for (int m = 0; m < DIMS / 16; m++)
#pragma unroll
            for (int e = 0; e < 4; e++) s.value[col][m][e] *= shrink[e % 2];
    }
}

/* Adds 16 keys' values. */
template <typename T, int DIMS, int COLS>
__device__ __forceinline__ void add_values(warp_rows<DIMS, COLS> &s, const float (&weight)[COLS][4],
                                           const unsigned (&v)[4][words<T, DIMS>::V]) {
    unsigned weights[COLS][2]; /* right operands: rows in columns, keys in rows */
#pragma unroll
    for (int col = 0; col < COLS; col++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            weights[col][half] = kg_transpose_matrix(kg_pack_halves(weight[col][2 * half], weight[col][2 * half + 1]));
#pragma unroll
    for (int m = 0; m < DIMS / 16; m++) {
        unsigned values[4];
        values_of<T>(values, v, m);
#pragma unroll
        for (int col = 0; col < COLS; col++) kg_mma_16x8x16(s.value[col][m], values, weights[col][0], weights[col][1]);
    }
}

template <typename T, int DIMS, int COLS, int N_WARPS> struct split_shared {
    static constexpr int ROWS = 8 * COLS, ITEMS = ROWS * DIMS / PER_ITEM;
    float values[N_WARPS][ROWS][DIMS + ROW_PAD]; /* a row's dims in the order (tile, lane g, which of its two) */
    float2 weights[N_WARPS][ROWS];
    float4 shares[ITEMS]; /* (item of this block's share, block of the cluster) */
    float2 share_weights[ITEMS];
    float sinks[ROWS]; /* -inf: none */
    uint64_t shares_full;
};

/* Row of a KV head -> head of its group, query. One query is the usual case, and a division takes a while. */
struct row_place {
    uint32_t head, query;
};

__device__ __forceinline__ row_place place_of(const split_params &p, uint32_t row) {
    if (p.args.n_queries == 1) return { row, 0 };
    return { row / p.args.n_queries, row % p.args.n_queries };
}

/* The finished item: v's scale, the sink, the sum; rows and dims beyond the tensor are not written. */
template <int DIMS>
__device__ __forceinline__ void write_item(const split_params &p, const block_job &job, uint32_t row, uint32_t place,
                                           const partial &x, float sink, float v_scale) {
    const struct kg_sdpa_args &a = p.args;
    if (row >= p.n_rows) return;
    const row_place at = place_of(p, row);
    const float share = share_of_sum(x.weight.x, x.weight.y, sink) * v_scale;
    __half *y = (__half *)a.y + job.batch * a.y_strides.batch + (job.kv_head * p.group + at.head) * a.y_strides.head +
                at.query * a.y_strides.row;
    const uint32_t m = place / 16, g = place % 16 / 2, d0 = dim_of<DIMS>(m, g), d1 = dim_of<DIMS>(m, g + 1);
    if (d0 < a.head_dim) *reinterpret_cast<unsigned *>(y + d0) = kg_pack_halves(x.value.x * share, x.value.y * share);
    if (d1 < a.head_dim) *reinterpret_cast<unsigned *>(y + d1) = kg_pack_halves(x.value.z * share, x.value.w * share);
}

/* The row of a KV head that is row `at` of the block's; those beyond the last repeat it and are not written. */
template <int ROWS>
__device__ __forceinline__ row_place row_of(const split_params &p, const block_job &job, uint32_t at) {
    row_place place = place_of(p, min(job.row_tile * ROWS + at, p.n_rows - 1));
    place.head += job.kv_head * p.group;
    return place;
}

/* Scales, and what the rows see. Loads come back in the order in which they are asked for, so few bytes go first. */
template <typename T, int DIMS, int COLS>
__device__ __forceinline__ void begin_rows(warp_rows<DIMS, COLS> &s, const split_params &p, const block_job &job,
                                           int t) {
    const struct kg_sdpa_args &a = p.args;
#pragma unroll
    for (int col = 0; col < COLS; col++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const row_place place = row_of<8 * COLS>(p, job, 8 * col + 2 * t + e);
            s.c[col][e] = 1;
            if (sizeof(T) == 1) s.c[col][e] = kg_load_global(a.q_scale + (size_t)job.batch * a.n_heads + place.head);
            s.seen[col][e] = keys_seen(a, job.first_position + (int)place.query);
            s.seen[col][e].end = min(s.seen[col][e].end, job.end);
            s.score[col][e] = -CUDART_INF_F, s.exponent[col][e] = -FLT_MAX, s.weight[col][e] = 0;
        }
#pragma unroll
        for (int m = 0; m < DIMS / 16; m++)
#pragma unroll
            for (int e = 0; e < 4; e++) s.value[col][m][e] = 0;
    }
}

/* Keys [begin, end) that all rows of the block see: the last query's window begins last, the first one's keys end
 * first. */
__device__ __forceinline__ key_range seen_by_all(const split_params &p, const block_job &job) {
    key_range all = { job.all_begin, job.end };
    if (p.args.n_queries == 1) return all;
    all.begin = keys_seen(p.args, (int)p.args.n_keys - 1).begin;
    all.end = min(keys_seen(p.args, job.first_position).end, job.end);
    return all;
}

/* What a warp has in flight: TILES tiles of 16 keys and their values. Keys from the end of the block's on repeat the
 * last one. Where a lane's rows are is told apart from loading them: of the first keys it can be known before the wait.
 */
template <typename T, int DIMS, int TILES, bool EXACT> struct flight {
    unsigned k[TILES][2][words<T, DIMS>::K], v[TILES][4][words<T, DIMS>::V];
    const T *k_row[TILES][2], *v_row[TILES][4];

    __device__ __forceinline__ flight() {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
            for (int half = 0; half < 2; half++) begin_words<EXACT>(k[tile][half]);
#pragma unroll
            for (int i = 0; i < 4; i++) begin_words<EXACT>(v[tile][i]);
        }
    }

    __device__ __forceinline__ void find_keys(const T *rows, const split_params &p, int at, int end, int lane) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                k_row[tile][half] =
                    rows + (uint64_t)min(at + tile * TILE_KEYS + lane / 4 + 8 * half, end - 1) * p.args.k_strides.row;
    }
    __device__ __forceinline__ void find_values(const T *rows, const split_params &p, int at, int end, int lane) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                v_row[tile][i] =
                    rows + (uint64_t)min(at + tile * TILE_KEYS + lane % 4 * 2 + i % 2 + i / 2 * 8, end - 1) *
                               p.args.v_strides.row;
    }
    __device__ __forceinline__ void load_keys(const split_params &p, int lane) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                load_key<T, DIMS, EXACT>(k[tile][half], k_row[tile][half], lane % 4, p.args.head_dim);
    }
    __device__ __forceinline__ void load_values(const split_params &p, int lane) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                load_value<T, DIMS, EXACT>(v[tile][i], v_row[tile][i], lane / 4, p.args.head_dim);
    }
};

/* What a warp has summed, to shared memory. */
template <typename Shared, int DIMS, int COLS>
__device__ __forceinline__ void store_rows(Shared &shared, warp_rows<DIMS, COLS> &s, int warp, int lane) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int col = 0; col < COLS; col++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int row = 8 * col + 2 * t + e;
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2)
                s.weight[col][e] += __shfl_xor_sync(0xFFFFFFFF, s.weight[col][e], apart);
            if (g == 0) shared.weights[warp][row] = make_float2(s.exponent[col][e], s.weight[col][e]);
#pragma unroll
            for (int m = 0; m < DIMS / 16; m++)
                *reinterpret_cast<float2 *>(&shared.values[warp][row][16 * m + 2 * g]) =
                    make_float2(s.value[col][m][e], s.value[col][m][e + 2]);
        }
}

/* An item of all warps. */
template <int N_WARPS, typename Shared>
__device__ __forceinline__ partial merge_warps(const Shared &shared, int row, int place) {
    partial x = empty_partial(), of_warp[N_WARPS];
#pragma unroll
    for (int w = 0; w < N_WARPS; w++) {
        of_warp[w].weight = shared.weights[w][row];
        of_warp[w].value = *reinterpret_cast<const float4 *>(&shared.values[w][row][place]);
        x.weight.x = fmaxf(x.weight.x, of_warp[w].weight.x);
    }
#pragma unroll
    for (int w = 0; w < N_WARPS; w++) add(x, of_warp[w], kg_exp2_fast(of_warp[w].weight.x - x.weight.x));
    return x;
}

/* Grid: (split, KV head, (batch entry, tile of rows)). TILES: tiles of 16 keys that a warp has in flight. EXACT:
 * head_dim is DIMS. */
template <typename T, int DIMS, int COLS, bool EXACT, int N_WARPS, int TILES>
__global__ void __launch_bounds__(N_WARPS * 32) split_kernel(const split_params p) {
    using shared_t = split_shared<T, DIMS, COLS, N_WARPS>;
    constexpr int THREADS = N_WARPS * 32, ROWS = shared_t::ROWS, ITEMS = shared_t::ITEMS, STEPS = DIMS / 16;
    constexpr int STEP_KEYS = TILES * TILE_KEYS, PLACES = DIMS / PER_ITEM;
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    shared_t &shared = *reinterpret_cast<shared_t *>(dynamic_shared);

    const struct kg_sdpa_args &a = p.args;
    const uint32_t n_cluster = 1u << p.cluster_log2, rank = kg_cluster_rank();
    const unsigned shares_full = kg_shared_address(&shared.shares_full);
    if (n_cluster > 1) {
        if (threadIdx.x == 0) {
            kg_mbarrier_init(shares_full, 1);
            kg_mbarrier_init_fence();
            kg_mbarrier_expect(shares_full, ITEMS * (sizeof(float4) + sizeof(float2)));
        }
        __syncwarp();
        kg_cluster_arrive(); /* waited for before anything is sent to another block */
    }
    kg_dependents_start();
    const block_job job = job_of(p);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const T *k = (const T *)a.k + job.batch * a.k_strides.batch + job.kv_head * a.k_strides.head;
    const T *v = (const T *)a.v + job.batch * a.v_strides.batch + job.kv_head * a.v_strides.head;
    const int prefetch_end = min(job.end, job.begin + (int)p.prefetch_keys);
    for (int key = job.begin + (int)threadIdx.x; key < prefetch_end; key += THREADS) {
        kg_bulk_prefetch(k + (uint64_t)key * a.k_strides.row, a.head_dim * sizeof(T));
        kg_bulk_prefetch(v + (uint64_t)key * a.v_strides.row, a.head_dim * sizeof(T));
    }
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
    if (n_cluster > 1) kg_cluster_wait(); /* every block of the cluster has begun */
    const key_range unmasked = seen_by_all(p, job);
#pragma unroll
    for (int col = 0; col < COLS; col++) {
#pragma unroll
        for (int e = 0; e < 2; e++) s.c[col][e] *= exponent_factor(a.scale) * k_scale;
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            step_of<T>(q[col][i], q_words[col], i);
            q[col][i][0] ^= sign_turn(a.scale), q[col][i][1] ^= sign_turn(a.scale);
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
    __syncthreads(); /* every warp's rows are there */

    const uint32_t group = blockIdx.z * gridDim.y + blockIdx.y, n_parts = p.n_parts;
    const size_t first_item = (size_t)group * n_parts * ITEMS;
    const part_items parts = { p.items + first_item, p.weights + first_item, ITEMS };
    auto finish = [&](uint32_t item, const partial &x) {
        const uint32_t row = item / PLACES;
        write_item<DIMS>(p, job, job.row_tile * ROWS + row, item % PLACES * PER_ITEM, x, shared.sinks[row], v_scale);
    };
    auto hand_on = [&](uint32_t item, const partial &x) { /* of the part */
                                                          const uint32_t part = blockIdx.x >> p.cluster_log2;
                                                          if (part == n_parts - 1)
                                                              finish(item, parts.sum(x, n_parts - 1, item));
                                                          else parts.store(part, item, x);
    };
    /* Item i is in the share of block i % n_cluster. */
    for (uint32_t item = threadIdx.x; item < ITEMS; item += THREADS) {
        const partial x = merge_warps<N_WARPS>(shared, item / PLACES, item % PLACES * PER_ITEM);
        if (n_cluster > 1) {
            const uint32_t slot = (item & ~(n_cluster - 1)) + rank, owner = item & (n_cluster - 1);
            const unsigned full = kg_peer_address(shares_full, owner);
            kg_send_peer(kg_peer_address(&shared.shares[slot], owner), x.value, full);
            kg_send_peer(kg_peer_address(&shared.share_weights[slot], owner), x.weight, full);
        } else hand_on(item, x);
    }
    if (n_cluster > 1) {
        kg_mbarrier_wait_cluster(shares_full, 0);                 /* this block's share is here, from every block */
        for (uint32_t i = threadIdx.x; i < ITEMS; i += THREADS) { /* whole warps */
            partial x = { shared.shares[i], shared.share_weights[i] };
            merge_lanes(x, n_cluster);
            if ((i & (n_cluster - 1)) == 0) hand_on(i + rank, x);
        }
    }
}

} // namespace

/* Keys that any query sees, from the first one to the last. */
static uint32_t keys_read(const struct kg_sdpa_args *args) {
    const uint64_t reach = (uint64_t)args->window + args->n_queries - 1;
    return args->causal && args->window > 0 && reach < args->n_keys ? (uint32_t)reach : args->n_keys;
}

/* Whether there is code for clusters on this device: code for 9.0 is for 9.0 alone. */
static bool has_clusters(const struct kg_cuda_backend *cuda) {
    constexpr int ARCHITECTURES[] = { __CUDA_ARCH_LIST__ };
    if (cuda->compute_capability != 90) return false;
    for (const int architecture : ARCHITECTURES)
        if (architecture == 900) return true;
    return false;
}

/* How a call is cut: n_splits is a multiple of cluster. */
struct split_plan {
    uint32_t n_splits, cluster, prefetch_keys;
};

/* Splits double as long as every block has a multiprocessor and enough keys. Clusters lie within a part of the GPU, of
 * which some have a few multiprocessors less: an eighth of all stays out of use, and where the splits are too many for
 * that they go through memory, in pairs if they are more than are read there at once. Beyond a cluster's worth of
 * splits, memory pays where a block would read for longer than that takes. */
static split_plan plan_for(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args, uint64_t n_groups) {
    constexpr uint64_t MIN_KEYS = 128, LONG_BYTES = 256 << 10, BEYOND_CACHE_BYTES = 32 << 20;
    constexpr uint32_t PREFETCH_KEYS = 384, HALF_CLUSTER = MAX_CLUSTER / 2, MAX_SPLITS = 64;
    const uint64_t n_keys = keys_read(args);
    const uint64_t n_blocks = cuda->n_sms < KG_SDPA_SPLIT_MAX_BLOCKS ? cuda->n_sms : KG_SDPA_SPLIT_MAX_BLOCKS;
    const uint64_t n_clustered = has_clusters(cuda) ? n_blocks - n_blocks / 8 : 0;
    const uint64_t bytes = n_keys * args->head_dim * (args->inputs == KG_PRECISION_F8 ? 2 : 4); /* of a KV head */
    const uint32_t most = n_clustered > 0 ? MAX_CLUSTER : MAX_SPLITS;
    split_plan plan = { 1, 1, 0 };
    while (plan.n_splits < most && 2 * plan.n_splits * n_groups <= n_blocks && 2 * plan.n_splits * MIN_KEYS <= n_keys)
        plan.n_splits *= 2;
    if (plan.n_splits * n_groups <= n_clustered) plan.cluster = plan.n_splits;
    else if (n_clustered > 0 && plan.n_splits > part_items::AT_ONCE) plan.cluster = 2;
    const uint64_t n_long = n_clustered / n_groups / HALF_CLUSTER * HALF_CLUSTER;
    if (plan.cluster == MAX_CLUSTER && n_long > MAX_CLUSTER && bytes > MAX_CLUSTER * LONG_BYTES)
        plan.n_splits = (uint32_t)n_long, plan.cluster = HALF_CLUSTER;
    if (bytes * args->n_kv_heads * args->n_batch >= BEYOND_CACHE_BYTES) plan.prefetch_keys = PREFETCH_KEYS;
    return plan;
}

template <typename T, int DIMS, int COLS, bool EXACT>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                             const split_plan &plan, struct kg_error *err) {
    using shared_t = split_shared<T, DIMS, COLS, N_WARPS>;
    /* Registers of a lane that a tile of keys and values takes, and that may be in flight. */
    constexpr int TILE_WORDS = 2 * words<T, DIMS>::K + 4 * words<T, DIMS>::V, WORDS = COLS == 1 ? 128 : 64;
    constexpr int TILES = WORDS / TILE_WORDS < 4 ? WORDS / TILE_WORDS : 4;
    static_assert(sizeof(shared_t) <= 99 * 1024, "what every device since 8.0 has");
    split_params p;
    p.args = *args;
    p.group = args->n_heads / args->n_kv_heads;
    p.n_rows = p.group * args->n_queries;
    p.n_row_tiles = kg_blocks_for(p.n_rows, shared_t::ROWS);
    p.cluster_log2 = (uint32_t)__builtin_ctz(plan.cluster);
    p.n_parts = plan.n_splits / plan.cluster;
    p.prefetch_keys = plan.prefetch_keys;
    p.keys_per_split = kg_blocks_for(keys_read(args), plan.n_splits * TILE_KEYS) * TILE_KEYS;
    p.items = (float4 *)args->workspace;
    p.weights = (float2 *)(p.items + (size_t)KG_SDPA_SPLIT_MAX_BLOCKS * shared_t::ITEMS);
    const dim3 grid(plan.n_splits, args->n_kv_heads, args->n_batch * p.n_row_tiles);
    return kg_launch_dependent(cuda, split_kernel<T, DIMS, COLS, EXACT, N_WARPS, TILES>, grid, N_WARPS * 32, p,
                               "sdpa (split)", err, sizeof(shared_t), plan.cluster);
}

static uint32_t rows_of(const struct kg_sdpa_args *args) { /* of a KV head */
    return args->n_heads / args->n_kv_heads * args->n_queries;
}

template <typename T, int DIMS, bool EXACT>
static enum kg_status launch_rows(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                  struct kg_error *err) {
    const uint32_t cols = rows_of(args) <= 8 ? 1 : 2;
    const uint64_t n_groups = (uint64_t)args->n_batch * args->n_kv_heads * kg_blocks_for(rows_of(args), 8 * cols);
    const split_plan plan = plan_for(cuda, args, n_groups);
    return cols == 1 ? launch<T, DIMS, 1, EXACT>(cuda, args, plan, err)
                     : launch<T, DIMS, 2, EXACT>(cuda, args, plan, err);
}

template <typename T>
static enum kg_status launch_dims(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                  struct kg_error *err) {
    switch (args->head_dim) {
    case 64: return launch_rows<T, 64, true>(cuda, args, err);
    case 96: return launch_rows<T, 96, true>(cuda, args, err);
    case 128: return launch_rows<T, 128, true>(cuda, args, err);
    default:
        return args->head_dim < 96 ? launch_rows<T, 96, false>(cuda, args, err)
                                   : launch_rows<T, 128, false>(cuda, args, err);
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
    if (args->inputs == KG_PRECISION_F8) return launch_dims<uint8_t>(cuda, args, err);
    return launch_dims<__half>(cuda, args, err);
}
