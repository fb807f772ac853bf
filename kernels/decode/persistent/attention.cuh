/* Attention in the persistent kernel. A job is a KV head, a part of its query heads and a split of the positions. Its
 * block rotates those queries and the new key, scores the split's keys, and publishes the weighted values. With few
 * splits there are more parts: fewer heads take a block less time, and their keys come from L2 once more.
 *
 *     s_j = q . k_j * scale,   y = sum_j exp(s_j - m) v_j / sum_j exp(s_j - m),   m = max_j s_j
 *
 * Cached keys and values do not depend on the step: a warp loads its first ones before its block waits for q. The
 * position's own key and value come from shared memory; the job that has the position writes them to the cache.
 *
 * Float16: a warp has 16 keys at a time, both products by tensor cores (m16n8k16). Scores have query heads in the rows
 * of the first operand. Values have dims there, and the weights are the second operand in the registers of the scores.
 * Elements go from memory to fragments as they lie, 16 or 8 bytes a lane: the order of dims in k (scores) or rows
 * (values) of a fragment is free as long as both operands agree. Weights exp(s - m) are rounded to float16 for the
 * second product; scores, maxima and sums are float32.
 *
 * Float32: a subgroup of D / 4 lanes has a key at a time, 4 dims a lane, for all query heads. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_ATTENTION_CUH
#define KIGO_KERNELS_DECODE_PERSISTENT_ATTENTION_CUH

#include "kernels/block/softmax_state.cuh"
#include "kernels/decode/persistent/block.cuh"
#include "kernels/ptx/mma.cuh"

namespace kg_persistent {

enum { TILE_KEYS = 16 }; /* keys of a warp at a time, float16 */

struct job {
    uint32_t kv_head, split, begin, end; /* keys [begin, end) */
    uint32_t first_head, n_heads;        /* query heads, of all */
    uint32_t position;                   /* of the step: its key is not in the cache yet */
};

__device__ __forceinline__ uint32_t n_jobs(const kg_persistent_program &p) {
    return p.n_kv_heads * p.n_parts * p.n_splits;
}

__device__ __forceinline__ job job_of(const kg_persistent_program &p, uint32_t index) {
    job j;
    const uint32_t of_group = index / p.n_splits % p.n_parts * p.part_heads;
    j.split = index % p.n_splits;
    j.kv_head = index / (p.n_splits * p.n_parts);
    j.first_head = j.kv_head * p.group + of_group;
    j.n_heads = min(p.part_heads, p.group - of_group);
    j.begin = p.first_key + j.split * p.keys_per_split;
    j.end = min(p.position + 1, j.begin + p.keys_per_split);
    j.position = p.position;
    return j;
}

/* exp(score - largest), 0 for a score of -inf. Float16 scores are in units of log 2. */
template <typename T> __device__ __forceinline__ float weight_of(float score, float largest) {
    if (score == -CUDART_INF_F) return 0.0f;
    if constexpr (sizeof(T) == sizeof(__half)) return exp2f(score - largest);
    else return expf(score - largest);
}

template <typename T> __device__ __forceinline__ float score_scale(const kg_persistent_program &p) {
    if constexpr (sizeof(T) == sizeof(__half)) return p.attn_scale * 1.44269504088896341f;
    else return p.attn_scale;
}

/* Rotated q of the job's heads, rotated k_new, and v_new: from packets to shared memory. */
template <typename T, int D>
__device__ __forceinline__ void stage_heads(const consumer<T, D> &c, const job &j, uint32_t epoch) {
    const kg_persistent_program &p = c.p;
    const uint32_t n_heads = j.n_heads, half = p.head_dim / 2, n_rotated = p.rope.n_rot / 2;
    kg_mbarrier_poll(kg_shared_address(&c.s.cos_sin_full), 0);
    for (uint32_t item = c.thread; item < (n_heads + 2) * half; item += CONSUMERS) {
        const uint32_t h = item / half, i = item % half;
        const bool rotates = h <= n_heads && i < n_rotated;
        const uint32_t head = h < n_heads ? j.first_head + h : p.n_heads + (h - n_heads) * p.n_kv_heads + j.kv_head;
        const uint32_t unrotated =
            h <= n_heads ? p.rope.n_rot + 2 * (i - n_rotated) : 2 * i; /* dims that are not rotated */
        const uint32_t at = rotates ? (p.rope_half ? i : 2 * i) : unrotated;
        const uint32_t other = rotates && p.rope_half ? i + n_rotated : at + 1;
        const uint32_t first = head * p.head_dim + at, second = head * p.head_dim + other;
        const uint64_t *packets = p.packets.qkv;
        const uint2 bits =
            wait_two_packets(packets + first / PACKET_ELEMS<T>, packets + second / PACKET_ELEMS<T>, epoch);
        float2 v = make_float2(element<T>(bits.x, first), element<T>(bits.y, second));
        if (rotates) {
            const float2 rotation = c.s.cos_sin[i];
            v = make_float2(v.x * rotation.x - v.y * rotation.y, v.x * rotation.y + v.y * rotation.x);
        }
        T *to = h < n_heads ? c.s.q[h] : h == n_heads ? c.s.k_new : c.s.v_new;
        kg_store(to + at, v.x);
        kg_store(to + other, v.y);
    }
    c.sync(); /* q, k_new and v_new are visible */
}

template <typename T, int D>
__device__ __forceinline__ void write_cache(const consumer<T, D> &c, const kg_persistent_layer &layer, const job &j) {
    const uint32_t d = c.thread % D;
    if (c.thread >= 2 * D || d >= c.p.head_dim) return;
    T *cache = static_cast<T *>(c.thread < D ? layer.k_cache : layer.v_cache);
    cache[((size_t)j.kv_head * c.p.n_ctx + j.position) * c.p.head_dim + d] = c.thread < D ? c.s.k_new[d] : c.s.v_new[d];
}

/* N float16 in registers, in memory order. */
template <int N> struct __align__(2 * N) packed {
    uint32_t word[N / 2];
};

/* 16 keys and values as fragments. Keys: tile n = 0, 1 of 8 keys, lane (g, t) has dims 32 u + 8 t .. + 7 of key 8 n +
 * g. Values: lane (g, t) has dims (8 u + g) TOGETHER .. of keys 2t, 2t + 1, 2t + 8, 2t + 9. Zeros where there is no key
 * or dim. */
template <int D> struct fragments {
    static constexpr int TOGETHER = D % 64 == 0 ? 8 : 4; /* dims of a value that a lane loads together */
    static constexpr int PARTS = D / 8 / TOGETHER;
    packed<8> k[2][D / 32];
    packed<TOGETHER> v[4][PARTS];

    static __device__ __forceinline__ uint32_t key_of(int i, uint32_t t) {
        return 2 * t + i % 2 + i / 2 * 8;
    }

    __device__ __forceinline__ void load_keys(const consumer<__half, D> &c, const kg_persistent_layer &layer,
                                              const job &j, uint32_t first) {
        const uint32_t lane = kg_opaque(c.lane), g = lane / 4, t = lane % 4, head_dim = c.p.head_dim;
        const uint32_t end = min(j.end, j.position);
        const __half *keys = static_cast<const __half *>(layer.k_cache) + (size_t)j.kv_head * c.p.n_ctx * head_dim;
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int u = 0; u < D / 32; u++) {
                const uint32_t key = first + 8 * n + g, dim = 32 * u + 8 * t;
                k[n][u] = {};
                if (key < end && dim < head_dim)
                    k[n][u] = *reinterpret_cast<const packed<8> *>(keys + (size_t)key * head_dim + dim);
            }
    }

    __device__ __forceinline__ void load_values(const consumer<__half, D> &c, const kg_persistent_layer &layer,
                                                const job &j, uint32_t first) {
        const uint32_t lane = kg_opaque(c.lane), g = lane / 4, t = lane % 4, head_dim = c.p.head_dim;
        const uint32_t end = min(j.end, j.position);
        const __half *values = static_cast<const __half *>(layer.v_cache) + (size_t)j.kv_head * c.p.n_ctx * head_dim;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int u = 0; u < PARTS; u++) {
                const uint32_t key = first + key_of(i, t), dim = (8 * u + g) * TOGETHER;
                v[i][u] = {};
                if (key < end && dim < head_dim)
                    v[i][u] = *reinterpret_cast<const packed<TOGETHER> *>(values + (size_t)key * head_dim + dim);
            }
    }

    /* Replace the position's own key, and its value, if they are among these. */
    __device__ __forceinline__ void patch_keys(const consumer<__half, D> &c, const job &j, uint32_t first) {
        const uint32_t lane = kg_opaque(c.lane), g = lane / 4, t = lane % 4;
        if (j.position < first || j.position >= first + TILE_KEYS) return;
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int u = 0; u < D / 32; u++)
                if (first + 8 * n + g == j.position)
                    k[n][u] = *reinterpret_cast<const packed<8> *>(c.s.k_new + 32 * u + 8 * t);
    }

    __device__ __forceinline__ void patch_values(const consumer<__half, D> &c, const job &j, uint32_t first) {
        const uint32_t lane = kg_opaque(c.lane), g = lane / 4, t = lane % 4;
        if (j.position < first || j.position >= first + TILE_KEYS) return;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int u = 0; u < PARTS; u++)
                if (first + key_of(i, t) == j.position)
                    v[i][u] = *reinterpret_cast<const packed<TOGETHER> *>(c.s.v_new + (8 * u + g) * TOGETHER);
    }
};

/* Of 16 keys, as the second operand of the product with their values; what earlier values of heads 2t and 2t + 1 are
 * multiplied by. */
struct tile_weights {
    unsigned low, high;
    float even, odd;
};

/* The online softmax of a warp: lane (g, t) has head g's largest score and weight, and of heads 2t and 2t + 1 the
 * values of the dims that it loads. */
template <int D> struct running {
    static constexpr int TOGETHER = fragments<D>::TOGETHER, PARTS = fragments<D>::PARTS;
    float largest, weight, value[PARTS][TOGETHER / 2][4]; /* two heads of a dim, two of its neighbour */

    __device__ __forceinline__ void clear() {
        largest = -CUDART_INF_F;
        weight = 0;
#pragma unroll
        for (int u = 0; u < PARTS; u++)
#pragma unroll
            for (int i = 0; i < TOGETHER / 2; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) value[u][i][e] = 0;
    }

    __device__ __forceinline__ tile_weights weigh(const consumer<__half, D> &c, const fragments<D> &f, const job &j,
                                                  uint32_t first) {
        const uint32_t lane = kg_opaque(c.lane), g = lane / 4, t = lane % 4;
        float score[2][2];
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float sum[4] = {};
#pragma unroll
            for (int u = 0; u < D / 32; u++) {
                const uint4 q = *reinterpret_cast<const uint4 *>(&c.s.q[g][32 * u + 8 * t]);
                const unsigned low[4] = { q.x, 0, q.y, 0 }, high[4] = { q.z, 0, q.w, 0 };
                kg_mma_16x8x16(sum, low, f.k[n][u].word[0], f.k[n][u].word[1]);
                kg_mma_16x8x16(sum, high, f.k[n][u].word[2], f.k[n][u].word[3]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
                score[n][i] = first + 8 * n + 2 * t + i < j.end ? sum[i] * score_scale<__half>(c.p) : -CUDART_INF_F;
        }
        float now = fmaxf(fmaxf(score[0][0], score[0][1]), fmaxf(score[1][0], score[1][1]));
        now = fmaxf(now, __shfl_xor_sync(0xFFFFFFFFu, now, 1));
        now = fmaxf(largest, fmaxf(now, __shfl_xor_sync(0xFFFFFFFFu, now, 2)));
        const float shrink = weight_of<__half>(largest, now);
        largest = now;
        float w[2][2];
        weight *= shrink;
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) weight += w[n][i] = weight_of<__half>(score[n][i], now);
        return { kg_pack_halves(w[0][0], w[0][1]), kg_pack_halves(w[1][0], w[1][1]),
                 __shfl_sync(0xFFFFFFFFu, shrink, 8 * t), __shfl_sync(0xFFFFFFFFu, shrink, 8 * t + 4) };
    }

    __device__ __forceinline__ void add(const fragments<D> &f, const tile_weights &w) {
#pragma unroll
        for (int u = 0; u < PARTS; u++)
#pragma unroll
            for (int i = 0; i < TOGETHER / 2; i++) {
                const uint32_t low[2] = { f.v[0][u].word[i], f.v[2][u].word[i] };
                const uint32_t high[2] = { f.v[1][u].word[i], f.v[3][u].word[i] };
                const unsigned of_dims[4] = { __byte_perm(low[0], high[0], 0x5410),
                                              __byte_perm(low[0], high[0], 0x7632),
                                              __byte_perm(low[1], high[1], 0x5410),
                                              __byte_perm(low[1], high[1], 0x7632) };
                float(&sum)[4] = value[u][i];
                sum[0] *= w.even, sum[1] *= w.odd, sum[2] *= w.even, sum[3] *= w.odd;
                kg_mma_16x8x16(sum, of_dims, w.low, w.high);
            }
    }

    __device__ __forceinline__ void put(const consumer<__half, D> &c, const job &j) const {
        const uint32_t lane = kg_opaque(c.lane), g = lane / 4, t = lane % 4;
        float sum = weight + __shfl_xor_sync(0xFFFFFFFFu, weight, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        if (t == 0) c.s.attention.largest[g][c.warp] = largest, c.s.attention.weight[g][c.warp] = sum;
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const uint32_t head = 2 * t + n;
            if (head >= j.n_heads) return;
#pragma unroll
            for (int u = 0; u < PARTS; u++)
#pragma unroll
                for (int i = 0; i < TOGETHER / 2; i += 2)
                    *reinterpret_cast<float4 *>(c.values(c.warp, head) + (8 * u + g) * TOGETHER + 2 * i) =
                        make_float4(value[u][i][n], value[u][i][n + 2], value[u][i + 1][n], value[u][i + 1][n + 2]);
        }
    }
};

/* Every warp's part of a job's keys, to c.values and s.attention. */
template <int D>
__device__ __forceinline__ void score_keys(const consumer<__half, D> &c, const kg_persistent_layer &layer, const job &j,
                                           uint32_t epoch) {
    running<D> state;
    fragments<D> f;
    uint32_t first = j.begin + c.warp * TILE_KEYS;
    f.load_keys(c, layer, j, first);
    f.load_values(c, layer, j, first);
    stage_heads(c, j, epoch);
    state.clear();
    while (first < j.end) {
        const uint32_t then = first + CONSUMER_WARPS * TILE_KEYS;
        f.patch_keys(c, j, first);
        const tile_weights weights = state.weigh(c, f, j, first);
        if (then < j.end) f.load_keys(c, layer, j, then); /* in flight while values are added */
        f.patch_values(c, j, first);
        state.add(f, weights);
        if (then < j.end) f.load_values(c, layer, j, then); /* and these while keys are scored */
        first = then;
    }
    state.put(c, j);
}

/* Float32: lanes share a key, 4 dims each; UNROLL keys of a subgroup are in flight together. */
template <int D>
__device__ __forceinline__ void score_keys(const consumer<float, D> &c, const kg_persistent_layer &layer, const job &j,
                                           uint32_t epoch) {
    constexpr int LANES = D / 4, KEYS = WARP / LANES, UNROLL = 2;
    const uint32_t dim = c.lane % LANES * 4, head_dim = c.p.head_dim, stride = CONSUMER_WARPS * KEYS;
    const uint32_t n_heads = j.n_heads;
    const size_t plane = (size_t)j.kv_head * c.p.n_ctx * head_dim;
    const float *keys = static_cast<const float *>(layer.k_cache) + plane;
    const float *values = static_cast<const float *>(layer.v_cache) + plane;
    softmax_of_dims<4> state[MAX_GROUP];
#pragma unroll
    for (int h = 0; h < MAX_GROUP; h++) clear(state[h]);
    stage_heads(c, j, epoch);
    for (uint32_t at = j.begin; at < j.end;
         at += UNROLL * stride) { /* uniform in the block: all lanes take part in the shuffles */
        float4 k[UNROLL];
        float v[UNROLL][4];
        uint32_t key[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            key[u] = at + u * stride + c.warp * KEYS + c.lane / LANES;
            float4 value = make_float4(0, 0, 0, 0);
            k[u] = value;
            if (key[u] < j.end && dim < head_dim) {
                const bool is_new = key[u] == j.position;
                const size_t place = (size_t)key[u] * head_dim + dim;
                k[u] = *reinterpret_cast<const float4 *>(is_new ? c.s.k_new + dim : keys + place);
                value = *reinterpret_cast<const float4 *>(is_new ? c.s.v_new + dim : values + place);
            }
            v[u][0] = value.x, v[u][1] = value.y, v[u][2] = value.z, v[u][3] = value.w;
        }
#pragma unroll
        for (int h = 0; h < MAX_GROUP; h++) {
            if (h >= n_heads) break;
            const float4 q = *reinterpret_cast<const float4 *>(&c.s.q[h][dim]);
            float score[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                float dot = fmaf(q.w, k[u].w, fmaf(q.z, k[u].z, fmaf(q.y, k[u].y, q.x * k[u].x)));
#pragma unroll
                for (int mask = LANES / 2; mask > 0; mask /= 2) dot += __shfl_xor_sync(0xFFFFFFFFu, dot, mask);
                score[u] = key[u] < j.end ? dot * score_scale<float>(c.p) : -CUDART_INF_F;
            }
            add_keys<UNROLL>(state[h], score, v);
        }
    }
#pragma unroll
    for (int h = 0; h < MAX_GROUP; h++) {
#pragma unroll
        for (int apart = LANES; apart < WARP; apart *= 2) merge_lanes(state[h], apart);
        const float *value = state[h].value;
        if (c.lane == 0) {
            c.s.attention.largest[h][c.warp] = state[h].largest;
            c.s.attention.weight[h][c.warp] = state[h].weight;
        }
        if (c.lane < LANES && h < n_heads)
            *reinterpret_cast<float4 *>(c.values(c.warp, h) + dim) =
                make_float4(value[0], value[1], value[2], value[3]);
    }
}

/* Publishes activations 2i and 2i + 1: one packet, or two. */
template <typename T>
__device__ __forceinline__ void publish_pair(uint64_t *packets, uint32_t i, float low, float high, uint32_t epoch) {
    if constexpr (sizeof(T) == sizeof(__half)) {
        publish(packets + i, kg_pack_halves(low, high), epoch);
    } else {
        publish(packets + 2 * i, low, epoch);
        publish(packets + 2 * i + 1, high, epoch);
    }
}

/* The warps' results of a job, added in order and published: the head's attention if this is the only split, else the
 * split's part of it. Warps without keys add nothing. */
template <typename T, int D>
__device__ __forceinline__ void publish_job(const consumer<T, D> &c, const job &j, uint32_t epoch) {
    const kg_persistent_program &p = c.p;
    const attention_shared &all = c.s.attention;
    const uint32_t half = p.head_dim / 2;
    for (uint32_t item = c.thread; item < j.n_heads * half; item += CONSUMERS) {
        const uint32_t h = item / half, i = item % half, head = j.first_head + h;
        float largest = all.largest[h][0], weight = 0;
        float2 value = make_float2(0, 0);
#pragma unroll
        for (int w = 1; w < CONSUMER_WARPS; w++) largest = fmaxf(largest, all.largest[h][w]);
#pragma unroll 7
        for (int w = 0; w < CONSUMER_WARPS; w++) {
            const float2 v = get_pair(c.values(w, h), i);
            const float share = weight_of<T>(all.largest[h][w], largest);
            weight = fmaf(all.weight[h][w], share, weight);
            value.x = fmaf(v.x, share, value.x);
            value.y = fmaf(v.y, share, value.y);
        }
        if (p.n_splits == 1) {
            publish_pair<T>(p.packets.attention, head * half + i, __fdiv_rn(value.x, weight),
                            __fdiv_rn(value.y, weight), epoch);
            continue;
        }
        const size_t of_split = (size_t)j.split * p.n_heads + head;
        publish_pair<float>(p.packets.partial, (uint32_t)(of_split * half + i), value.x, value.y, epoch);
        if (i == 0) publish_pair<float>(p.packets.weight, (uint32_t)of_split, largest, weight, epoch);
    }
}

template <typename T, int D>
__device__ __forceinline__ void attend(const consumer<T, D> &c, const kg_persistent_layer &layer, uint32_t epoch) {
#pragma unroll 1
    for (uint32_t index = blockIdx.x; index < n_jobs(c.p); index += gridDim.x) {
        const job j = job_of(c.p, index);
        score_keys(c, layer, j, epoch);
        c.sync(); /* all warps' results are visible */
        publish_job(c, j, epoch);
        if (j.end == j.position + 1 && j.first_head % c.p.group == 0) write_cache(c, layer, j);
        c.sync(); /* write-after-read: q and the warps' results are read */
    }
}

/* Many splits: each block merges some pairs of elements, a warp a pair at a time, lanes the splits. A lane's packets of
 * several splits are in flight together: each trip to L2 would be one of every layer. */
template <typename T, int D> __device__ __forceinline__ void merge_splits(const consumer<T, D> &c, uint32_t epoch) {
    constexpr int AT_ONCE = D > 96 ? 2 : 3; /* as registers are left */
    const kg_persistent_program &p = c.p;
    const uint32_t end = c.s.merge_begin + c.s.merge_n, half = p.head_dim / 2;
    for (uint32_t at = c.s.merge_begin + c.warp; at < end; at += CONSUMER_WARPS) {
        const uint32_t head = at / half;
        float largest = -CUDART_INF_F, weight = 0;
        float2 value = make_float2(0, 0);
        const auto add = [&](float other_largest, float other_weight, float x, float y) {
            const float now = fmaxf(largest, other_largest);
            const float own = weight_of<T>(largest, now), other = weight_of<T>(other_largest, now);
            largest = now;
            weight = weight * own + other_weight * other;
            value = make_float2(value.x * own + x * other, value.y * own + y * other);
        };
        for (uint32_t s = c.lane; s < p.n_splits; s += AT_ONCE * WARP) {
            packet_pair of_head[AT_ONCE], of_value[AT_ONCE]; /* past the last split, the last again */
            uint32_t n_polls = 0;
            bool all = false;
            while (!all) {
                all = true;
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++) {
                    const size_t of_split = (size_t)min(s + k * WARP, p.n_splits - 1) * p.n_heads + head;
                    of_head[k].load(p.packets.weight + of_split * 2);
                    of_value[k].load(p.packets.partial + (of_split * half + at % half) * 2);
                }
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++) all = all && of_head[k].is_from(epoch) && of_value[k].is_from(epoch);
                if (!all) count_poll(n_polls);
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (s + k * WARP < p.n_splits)
                    add(of_head[k].floats().x, of_head[k].floats().y, of_value[k].floats().x, of_value[k].floats().y);
        }
#pragma unroll
        for (int apart = WARP / 2; apart > 0; apart /= 2)
            add(__shfl_xor_sync(0xFFFFFFFFu, largest, apart), __shfl_xor_sync(0xFFFFFFFFu, weight, apart),
                __shfl_xor_sync(0xFFFFFFFFu, value.x, apart), __shfl_xor_sync(0xFFFFFFFFu, value.y, apart));
        if (c.lane == 0)
            publish_pair<T>(p.packets.attention, at, __fdiv_rn(value.x, weight), __fdiv_rn(value.y, weight), epoch);
    }
}

/* Few splits: every reader of attention merges them. c.x = attention. First what each split of a head counts for, then
 * the values; a thread's packets of several pairs are in flight together. Two splits are where there are twice as many
 * blocks as KV heads: a buffer of sums has room for the shares of 6 heads a block, a group of 8 has 4. */
template <typename T, int D> __device__ __forceinline__ void stage_splits(const consumer<T, D> &c, uint32_t epoch) {
    constexpr int MOST = KG_PERSISTENT_MAX_DIRECT, PAIRS = 3;
    const kg_persistent_program &p = c.p;
    const uint32_t n_values = p.n_heads * p.head_dim, n_pairs = n_values / 2, last = p.n_splits - 1;
    float *shares = c.sums(0); /* (n_heads, MOST): where the next product's sums will be */
    for (uint32_t head = c.thread; head < p.n_heads; head += CONSUMERS) {
        packet_pair weight[MOST]; /* past the last split, the last again */
        wait_packet_pairs(weight, p.packets.weight, head, p.n_heads, last * p.n_heads + head + 1, epoch);
        float largest = -CUDART_INF_F, sum = 0;
#pragma unroll
        for (int s = 0; s < MOST; s++) largest = fmaxf(largest, weight[s].floats().x);
#pragma unroll
        for (int s = 0; s < MOST; s++)
            if (s <= last) sum = fmaf(weight[s].floats().y, weight_of<T>(weight[s].floats().x, largest), sum);
#pragma unroll
        for (int s = 0; s < MOST; s++)
            shares[head * MOST + s] = s <= last ? __fdiv_rn(weight_of<T>(weight[s].floats().x, largest), sum) : 0;
    }
    c.sync(); /* the shares are visible */
#pragma unroll 1
    for (uint32_t at = c.thread; at < n_pairs; at += PAIRS * CONSUMERS) {
        packet_pair value[PAIRS * MOST];
        bool all = false;
        uint32_t n_polls = 0;
        while (!all) {
            all = true;
#pragma unroll
            for (int k = 0; k < PAIRS * MOST; k++) {
                const uint32_t i = min(at + k / MOST * CONSUMERS, n_pairs - 1), s = min((uint32_t)(k % MOST), last);
                value[k].load(p.packets.partial + ((size_t)s * n_pairs + i) * 2);
            }
#pragma unroll
            for (int k = 0; k < PAIRS * MOST; k++) all = all && value[k].is_from(epoch);
            if (!all) count_poll(n_polls);
        }
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            const uint32_t i = at + k * CONSUMERS;
            if (i >= n_pairs) break;
            const float *share = shares + 2 * i / p.head_dim * MOST;
            float2 y = make_float2(0, 0);
#pragma unroll
            for (int s = 0; s < MOST; s++) {
                const float2 v = value[k * MOST + s].floats();
                y = make_float2(fmaf(v.x, share[s], y.x), fmaf(v.y, share[s], y.y));
            }
            put_pair(c.x(), place_of_pair<T>(i), y.x, y.y);
        }
    }
    c.sync(); /* x is visible to all */
}

} // namespace kg_persistent

#endif
