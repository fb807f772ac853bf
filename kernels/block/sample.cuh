/* What the kernels of a draw share (sample.cu, sample_draw.cu): parameters, keys, the memory between kernels,
 * reductions over a block.
 *
 * Every sum is one of whole numbers and every comparison one of exact scores, so nothing depends on the order in which
 * threads and blocks run, and the ids are those of kg_cpu_sample. */
#ifndef KIGO_KERNELS_BLOCK_SAMPLE_CUH
#define KIGO_KERNELS_BLOCK_SAMPLE_CUH

#include "kernels/cuda_backend.h"

namespace kg_sample {

constexpr int THREADS = 256, WARP = 32, WARPS = THREADS / WARP, MAX_BLOCKS = 128;
constexpr int DIGIT_BITS = 11, BINS = 1 << DIGIT_BITS;
constexpr uint32_t NONE = UINT32_MAX;
static_assert(MAX_BLOCKS <= THREADS, "the last block has a thread for each block's result");
static_assert(BINS % THREADS == 0, "each thread has as many bins");

/* The best of some ids, and the lowest id whose logit is not finite (NONE if all are). */
struct candidate {
    uint64_t key; /* 0: of none */
    uint32_t id, first_bad;
};

/* Of a block's ids: the weight of those that rank before the cut, and how many are as good as it. */
struct tally {
    uint64_t before;
    uint32_t n_ties;
};

/* What one kernel leaves to the next. */
struct state {
    double best; /* score */
    uint32_t first_bad;
    /* The cut: ids with larger keys are kept, and the first n_ties of those with this key. 0 while there is no filter,
     * which every key is larger than. While it is looked for, its known digits. */
    uint64_t cut;
    uint64_t n_ties;
    uint64_t before_n, before_weight; /* of the keys that are larger */
    uint64_t needed;                  /* ids or weight that the cut completes */
    uint64_t total;                   /* weight of what top-k keeps */
};

struct scratch {
    struct state state;
    candidate candidates[MAX_BLOCKS];
    tally tallies[MAX_BLOCKS];
    uint64_t bin_weights[BINS];
    uint32_t bin_sizes[BINS];
    uint32_t penalised[]; /* a bit an id */
};

struct params {
    const float *logits;
    uint32_t n_vocab, n_drawable, per_block, sequence;
    int32_t *history, *next;
    uint32_t n_history, repeat_last_n, top_k;
    bool is_greedy, has_cut;
    int weight_bits;
    double temperature, repeat_penalty, top_p, least_distance, uniform;
    struct kg_sample_result *result;
    struct scratch *scratch;
    uint32_t *n_blocks_done;
};

/* Scores and keys, PENALTY or not. Keys order as scores do, -0 as 0, and none is 0; without a penalty scores are
 * float32 and the lower half of a key is 0. */
template <bool PENALTY> static __device__ __forceinline__ double score_of(const params &p, float logit, uint32_t id) {
    const double score = logit;
    if (!PENALTY || !(p.scratch->penalised[id / 32] >> id % 32 & 1)) return score;
    return score > 0 ? score / p.repeat_penalty : score * p.repeat_penalty;
}

template <bool PENALTY> static __device__ __forceinline__ uint64_t key_of(double score) {
    if constexpr (PENALTY) {
        const uint64_t bits = (uint64_t)__double_as_longlong(score + 0.0);
        return bits ^ (bits >> 63 ? UINT64_MAX : UINT64_C(1) << 63);
    } else {
        const uint32_t bits = __float_as_uint((float)score + 0.0f);
        return (uint64_t)(bits ^ (bits >> 31 ? UINT32_MAX : UINT32_C(1) << 31)) << 32;
    }
}

template <bool PENALTY> static __device__ __forceinline__ double score_of_key(uint64_t key) {
    if constexpr (PENALTY) return __longlong_as_double((long long)(key ^ (key >> 63 ? UINT64_C(1) << 63 : UINT64_MAX)));
    else return __uint_as_float((uint32_t)(key >> 32) ^ (key >> 63 ? UINT32_C(1) << 31 : UINT32_MAX));
}

/* 0 where min-p leaves the score out, unless it does not matter yet. */
static __device__ __forceinline__ uint64_t weight_of(const params &p, double score, double best, bool by_min_p) {
    const double distance = kg_sample_distance(score, best);
    if (by_min_p && distance < p.least_distance) return 0;
    return kg_sample_weight(distance / p.temperature, p.weight_bits);
}

/* The sum over the block's threads before this one, and of all. `shared` holds WARPS and may be used again at once. */
static __device__ uint64_t sum_before(uint64_t x, uint64_t *shared, uint64_t *total) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    uint64_t up_to = x;
#pragma unroll
    for (int apart = 1; apart < WARP; apart *= 2) {
        const uint64_t other = __shfl_up_sync(0xFFFFFFFFu, up_to, apart);
        if (lane >= apart) up_to += other;
    }
    if (lane == WARP - 1) shared[warp] = up_to;
    __syncthreads(); /* every warp's sum is visible */
    uint64_t before = 0, all = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        if (w < warp) before += shared[w];
        all += shared[w];
    }
    __syncthreads(); /* all have read `shared` */
    *total = all;
    return before + up_to - x;
}

/* Whether this is the block that is done last; what the others wrote before may then be read, past the first cache. */
static __device__ bool is_last_block(uint32_t *n_blocks_done) {
    __shared__ bool last;
    __threadfence(); /* what this thread wrote is seen before its block is counted */
    __syncthreads(); /* all of the block have written */
    if (threadIdx.x == 0) {
        last = atomicInc(n_blocks_done, gridDim.x - 1) == gridDim.x - 1; /* which wraps to 0 for the next kernel */
        __threadfence();
    }
    __syncthreads(); /* `last` is visible */
    return last;
}

/* By one thread: id NONE for logits that are not finite, the first of which is first_bad. */
static __device__ void publish(const params &p, uint32_t id, uint32_t first_bad) {
    const bool bad = first_bad != NONE;
    const int32_t evaluated = bad ? 0 : (int32_t)id;
    if (p.next) *p.next = evaluated;
    if (p.history) p.history[p.n_history] = evaluated;
    volatile struct kg_sample_result *result = p.result;
    result->id = bad ? -1 : (int32_t)id;
    result->first_bad = bad ? first_bad : p.n_vocab;
    result->bad = bad ? p.logits[first_bad] : 0;
    __threadfence_system(); /* the host sees the sequence after the rest */
    result->sequence = p.sequence;
}

/* Enqueues the kernels that follow the best's where the id is not simply that (sample_draw.cu). */
enum kg_status draw(struct kg_cuda_backend *cuda, const params &p, bool penalty, struct kg_error *err);

static inline unsigned blocks_for(const params &p, uint32_t n) {
    return (n + p.per_block - 1) / p.per_block;
}

} // namespace kg_sample

#endif
