/* What a warp of split.cu does (the design is there): rows of queries, keys and values from global memory as operands,
 * online softmax, and items of the result to shared memory. */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_SPLIT_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_SPLIT_CUH

#include "kernels/attention/sdpa/partial.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/compiler.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"

namespace kg_sdpa_mma {

constexpr int TILE_KEYS = 16, ROW_PAD = 4, PER_ITEM = 4; /* floats */

struct split_params {
    struct kg_sdpa_args args;
    uint32_t group, n_rows, n_row_tiles;            /* heads of a KV head; rows of it; tiles of 8 COLS of them */
    uint32_t prefetch_keys;                         /* of a split, while the launch before runs */
    uint32_t keys_per_split, cluster_log2, n_parts; /* 2^cluster_log2 blocks a cluster, n_parts clusters for all keys */
    float4 *items;
    float2 *weights;
    const struct kg_cuda_step *step; /* decode: n_keys is step->position + 1; NULL: args.n_keys */
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
        r[0] = halves_of_low<T>(row[s]), r[1] = halves_of_high<T>(row[s]);
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
            a[2 * half] = halves_of_low<T>(pairs), a[2 * half + 1] = halves_of_high<T>(pairs);
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
    uint32_t n_parts;       /* that have keys: the first ones */
};

/* DECODE: the number of keys is read when the kernel runs, the grid is for all of the context. At most KEYS_OF_A_BLOCK
 * keys a block stay in the first cluster: to read them there takes less time than the way through memory. */
template <bool DECODE, uint32_t KEYS_OF_A_BLOCK = 512>
__device__ __forceinline__ block_job job_of(const split_params &p) {
    block_job job = { blockIdx.z, blockIdx.y, 0 };
    if (p.n_row_tiles > 1) job.batch = blockIdx.z / p.n_row_tiles, job.row_tile = blockIdx.z % p.n_row_tiles;
    const uint32_t n_keys = DECODE && p.step ? p.step->position + 1 : p.args.n_keys;
    job.first_position = (int)n_keys - (int)p.args.n_queries;
    job.all_begin = keys_seen(p.args, job.first_position).begin;
    job.all_end = (int)n_keys;
    uint32_t per_split = p.keys_per_split;
    job.n_parts = p.n_parts;
    if (DECODE) {
        const uint32_t n = n_keys - job.all_begin, cluster = 1u << p.cluster_log2;
        const uint32_t n_splits = n <= cluster * KEYS_OF_A_BLOCK ? cluster : gridDim.x;
        per_split = ((n + n_splits - 1) / n_splits + TILE_KEYS - 1) / TILE_KEYS * TILE_KEYS;
        job.n_parts = (n + per_split * cluster - 1) / (per_split * cluster);
    }
    job.begin = min(job.all_begin + (int)(blockIdx.x * per_split), job.all_end);
    job.end = min(job.begin + (int)per_split, job.all_end);
    return job;
}

/* The block's first keys and values to L2, while the launch before runs. Rows that it writes may be among them. */
template <typename T>
__device__ __forceinline__ void prefetch_keys(const split_params &p, const block_job &job, const T *k, const T *v,
                                              int n_threads) {
    const int end = min(job.end, job.begin + (int)p.prefetch_keys);
    for (int key = job.begin + (int)threadIdx.x; key < end; key += n_threads) {
        kg_bulk_prefetch(k + (uint64_t)key * p.args.k_strides.row, p.args.head_dim * sizeof(T));
        kg_bulk_prefetch(v + (uint64_t)key * p.args.v_strides.row, p.args.head_dim * sizeof(T));
    }
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

template <int N_DIMS, int N_ROWS, int WARPS> struct split_shared {
    static constexpr int DIMS = N_DIMS, ROWS = N_ROWS, N_WARPS = WARPS, USED = ROWS * DIMS / PER_ITEM;
    static constexpr int ITEMS = (USED + 31) / 32 * 32; /* whole warps merge: those from USED on are empty */
    float values[N_WARPS][ROWS][DIMS + ROW_PAD]; /* tensor cores: dims in the order (tile, lane g, which of two) */
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
 * last one. Finding a lane's rows is apart from loading them: those of the first keys are known before the wait.
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
template <typename Shared> __device__ __forceinline__ partial merge_warps(const Shared &shared, int row, int place) {
    constexpr int N_WARPS = Shared::N_WARPS;
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

/* A block and its cluster. shares_full: the mbarrier that this block's share of the items completes. */
struct split_cluster {
    uint32_t n, rank;
    unsigned shares_full;

    /* Waited for (kg_cluster_wait) before anything is sent to another block. */
    template <typename Shared>
    __device__ __forceinline__ split_cluster(const split_params &p, Shared &shared)
        : n(1u << p.cluster_log2), rank(kg_cluster_rank()), shares_full(kg_shared_address(&shared.shares_full)) {
        if (n <= 1) return;
        if (threadIdx.x == 0) {
            kg_mbarrier_init(shares_full, 1);
            kg_mbarrier_init_fence();
            kg_mbarrier_expect(shares_full, Shared::ITEMS * (sizeof(float4) + sizeof(float2)));
        }
        __syncwarp();
        kg_cluster_arrive();
    }
};

/* Merges the block's items over its warps, the blocks of its cluster and the parts, the last of which writes them:
 * write(row of the block, place of the item, the item). */
template <typename Shared, typename Write>
__device__ __forceinline__ void merge_items(const split_params &p, const block_job &job, Shared &shared,
                                            const split_cluster &cluster, const Write &write) {
    constexpr int THREADS = Shared::N_WARPS * 32, ITEMS = Shared::ITEMS, PLACES = Shared::DIMS / PER_ITEM;
    const uint32_t group = blockIdx.z * gridDim.y + blockIdx.y, n_cluster = cluster.n, n_parts = job.n_parts;
    const size_t first_item = (size_t)group * p.n_parts * ITEMS;
    const part_items parts = { p.items + first_item, p.weights + first_item, ITEMS };
    auto merge_parts = [&](uint32_t item, const partial &x) {
        const uint32_t part = blockIdx.x >> p.cluster_log2, row = item / PLACES, place = item % PLACES * PER_ITEM;
        if (part == n_parts - 1) write(row, place, parts.sum(x, n_parts - 1, item));
        else parts.store(part, item, x);
    };
    /* Item i is in the share of block i % n_cluster. */
    for (uint32_t item = threadIdx.x; item < ITEMS; item += THREADS) {
        partial x = empty_partial();
        if (ITEMS == Shared::USED || item < Shared::USED)
            x = merge_warps(shared, item / PLACES, item % PLACES * PER_ITEM);
        if (n_cluster > 1) {
            const uint32_t slot = (item & ~(n_cluster - 1)) + cluster.rank, owner = item & (n_cluster - 1);
            const unsigned full = kg_peer_address(cluster.shares_full, owner);
            kg_send_peer(kg_peer_address(&shared.shares[slot], owner), x.value, full);
            kg_send_peer(kg_peer_address(&shared.share_weights[slot], owner), x.weight, full);
        } else merge_parts(item, x);
    }
    if (n_cluster > 1) {
        kg_mbarrier_wait_cluster(cluster.shares_full, 0);         /* this block's share has come, from every block */
        for (uint32_t i = threadIdx.x; i < ITEMS; i += THREADS) { /* whole warps */
            partial x = { shared.shares[i], shared.share_weights[i] };
            merge_lanes(x, n_cluster);
            if ((i & (n_cluster - 1)) == 0) merge_parts(i + cluster.rank, x);
        }
    }
}

/* Host code. */

/* How a call is cut: n_splits is a multiple of cluster. */
struct split_plan {
    uint32_t n_splits, cluster, prefetch_keys, keys_per_split;
};

/* A call; of a decode, args has n_queries 1 and causal, and the grid is for at most most_keys keys. */
struct split_call {
    const struct kg_sdpa_args *args;
    const struct kg_cuda_step *step; /* as in split_params */
    uint32_t most_keys;              /* 0: no decode */
};

constexpr uint32_t SPLIT_PREFETCH_KEYS = 384;
/* Loads in flight have their place in L1, which MaxShared leaves 28 KiB: less than a block asks for at once. */
constexpr int SPLIT_CARVEOUT = 50;

/* Blocks that merge through memory, at most: the workspace has a place for the items of each. */
static inline uint32_t most_split_blocks(const struct kg_cuda_backend *cuda) {
    return cuda->n_sms < KG_SDPA_SPLIT_MAX_BLOCKS ? (uint32_t)cuda->n_sms : (uint32_t)KG_SDPA_SPLIT_MAX_BLOCKS;
}

/* n_groups: KV heads of all batch entries, times tiles of their rows. */
split_plan plan_split(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args, uint32_t most_keys,
                      uint64_t n_groups);

/* The decode of an f16 cache with f16 activations, heads of at most 128. */
enum kg_status decode_split(const struct kg_cuda_backend *cuda, const split_call &call, struct kg_error *err);

template <typename Shared>
static enum kg_status launch_split(const struct kg_cuda_backend *cuda, void (*kernel)(split_params),
                                   const split_call &call, struct kg_error *err) {
    static_assert(sizeof(Shared) <= 99 * 1024, "what every device since 8.0 has");
    const struct kg_sdpa_args *args = call.args;
    split_params p;
    p.args = *args;
    p.group = args->n_heads / args->n_kv_heads;
    p.n_rows = p.group * args->n_queries;
    p.n_row_tiles = kg_blocks_for(p.n_rows, Shared::ROWS);
    const uint64_t n_groups = (uint64_t)args->n_batch * args->n_kv_heads * p.n_row_tiles;
    const split_plan plan = plan_split(cuda, args, call.most_keys ? call.most_keys : args->n_keys, n_groups);
    p.cluster_log2 = (uint32_t)__builtin_ctz(plan.cluster);
    p.n_parts = plan.n_splits / plan.cluster;
    p.keys_per_split = plan.keys_per_split;
    /* A step's weights have taken the place of the cache in L2. */
    p.prefetch_keys = call.most_keys ? SPLIT_PREFETCH_KEYS : plan.prefetch_keys;
    p.step = call.step;
    p.items = (float4 *)args->workspace;
    p.weights = (float2 *)(p.items + n_groups * p.n_parts * Shared::ITEMS);
    const dim3 grid(plan.n_splits, args->n_kv_heads, args->n_batch * p.n_row_tiles);
    return kg_launch_dependent(cuda, kernel, grid, Shared::N_WARPS * 32, p,
                               call.most_keys ? "attention (decode)" : "sdpa (split)", err, sizeof(Shared),
                               plan.cluster, call.most_keys ? cudaSharedmemCarveoutMaxShared : SPLIT_CARVEOUT);
}

} // namespace kg_sdpa_mma

#endif
