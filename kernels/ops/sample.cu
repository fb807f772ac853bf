/* sample on the GPU (contract in ops/sample.h): the best id and what is not finite, in one kernel, which is all that
 * greedy draws need; else the cut of top-k and top-p, then the draw.
 *
 * The best: a block looks at a range of ids and leaves its best; the block that is done last reduces those of all.
 *
 * The cut is found digit by digit of its key, from the highest: every id whose key begins with the digits known so far
 * adds itself and its weight to the bin of its next digit, and the block that is done last goes through the bins from
 * the highest to the one in which the k-th id, or the id that completes top-p's sum, is. What is left then is one key;
 * how many of the ids that share it are kept follows from their equal weights. top-k's cut gives the sum of which top-p
 * takes its part, so that top-p's cut, found after it, is the nearer one. min-p needs no search: it is a distance.
 *
 * The draw: each block sums the weights of its range of ids; the block that is done last finds the range in which the
 * running sum passes the target, then the id within it.
 *
 * Every sum is one of whole numbers, every comparison one of exact scores, and of equal scores the lowest id is best:
 * so nothing depends on the order in which threads and blocks run, and the ids are those of kg_cpu_sample. */
#include "kernels/cuda_backend.h"
#include "kernels/preload.h"

KG_PRELOADED(ops_sample, KG_FIRST_TOKEN)

namespace {

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
    scratch *scratch;
    uint32_t *n_blocks_done;
};

/* Scores and keys, PENALTY or not. Keys order as scores do, -0 as 0, and none is 0; without a penalty scores are
 * float32 and the lower half of a key is 0. */
template <bool PENALTY> __device__ __forceinline__ double score_of(const params &p, float logit, uint32_t id) {
    const double score = logit;
    if (!PENALTY || !(p.scratch->penalised[id / 32] >> id % 32 & 1)) return score;
    return score > 0 ? score / p.repeat_penalty : score * p.repeat_penalty;
}

template <bool PENALTY> __device__ __forceinline__ uint64_t key_of(double score) {
    if constexpr (PENALTY) {
        const uint64_t bits = (uint64_t)__double_as_longlong(score + 0.0);
        return bits ^ (bits >> 63 ? UINT64_MAX : UINT64_C(1) << 63);
    } else {
        const uint32_t bits = __float_as_uint((float)score + 0.0f);
        return (uint64_t)(bits ^ (bits >> 31 ? UINT32_MAX : UINT32_C(1) << 31)) << 32;
    }
}

template <bool PENALTY> __device__ __forceinline__ double score_of_key(uint64_t key) {
    if constexpr (PENALTY) return __longlong_as_double((long long)(key ^ (key >> 63 ? UINT64_C(1) << 63 : UINT64_MAX)));
    else return __uint_as_float((uint32_t)(key >> 32) ^ (key >> 63 ? UINT32_C(1) << 31 : UINT32_MAX));
}

/* 0 where min-p leaves the score out, unless it does not matter yet. */
__device__ __forceinline__ uint64_t weight_of(const params &p, double score, double best, bool by_min_p) {
    const double distance = kg_sample_distance(score, best);
    if (by_min_p && distance < p.least_distance) return 0;
    return kg_sample_weight(distance / p.temperature, p.weight_bits);
}

/* The sum over the block's threads before this one, and of all. `shared` holds WARPS and may be used again at once. */
__device__ uint64_t sum_before(uint64_t x, uint64_t *shared, uint64_t *total) {
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
__device__ bool is_last_block(uint32_t *n_blocks_done) {
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
__device__ void publish(const params &p, uint32_t id, uint32_t first_bad) {
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

unsigned blocks_for(const params &p, uint32_t n) {
    return (n + p.per_block - 1) / p.per_block;
}

/* ---- the best ---- */

enum { AT_ONCE = 4, MARK_THREADS = 1024 };

/* penalised = bits of the ids in the last repeat_last_n of the history; one block. */
__global__ void __launch_bounds__(MARK_THREADS) sample_mark_kernel(const params p) {
    uint32_t *bits = p.scratch->penalised;
    for (uint32_t i = threadIdx.x; i < (p.n_drawable + 31) / 32; i += MARK_THREADS) bits[i] = 0;
    __syncthreads(); /* before any bit is set */
    const uint32_t first = p.n_history > p.repeat_last_n ? p.n_history - p.repeat_last_n : 0;
    for (uint32_t i = first + threadIdx.x; i < p.n_history; i += MARK_THREADS) {
        const uint32_t id = (uint32_t)p.history[i];
        if (id < p.n_drawable) atomicOr(&bits[id / 32], 1u << id % 32);
    }
}

__device__ __forceinline__ void take_better(candidate &a, const candidate &b) {
    if (b.key > a.key || (b.key == a.key && b.id < a.id)) {
        a.key = b.key;
        a.id = b.id;
    }
    a.first_bad = min(a.first_bad, b.first_bad);
}

/* Of the block, to thread 0. */
__device__ candidate reduce(candidate mine, candidate *shared) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        candidate other;
        other.key = __shfl_down_sync(0xFFFFFFFFu, mine.key, apart);
        other.id = __shfl_down_sync(0xFFFFFFFFu, mine.id, apart);
        other.first_bad = __shfl_down_sync(0xFFFFFFFFu, mine.first_bad, apart);
        take_better(mine, other);
    }
    if (lane == 0) shared[warp] = mine;
    __syncthreads(); /* every warp's best is visible */
    if (threadIdx.x == 0)
        for (int w = 1; w < WARPS; w++) take_better(mine, shared[w]);
    return mine;
}

/* By the last block: the end of a greedy draw or of one from bad logits, else what the next kernels begin with. */
template <bool PENALTY> __device__ void conclude(const params &p, const candidate &best) {
    if (threadIdx.x == 0) {
        if (p.is_greedy || best.first_bad != NONE) publish(p, best.id, best.first_bad);
        struct state *state = &p.scratch->state;
        state->best = score_of_key<PENALTY>(best.key);
        state->first_bad = best.first_bad;
        state->cut = 0;
        state->n_ties = 0;
    }
    if (!p.has_cut) return;
    for (int i = threadIdx.x; i < BINS; i += THREADS) {
        p.scratch->bin_weights[i] = 0;
        p.scratch->bin_sizes[i] = 0;
    }
}

/* Grid: n_vocab over per_block, at most MAX_BLOCKS. */
template <bool PENALTY> __global__ void __launch_bounds__(THREADS) sample_best_kernel(const params p) {
    __shared__ candidate shared[WARPS];
    const uint32_t first = blockIdx.x * p.per_block, end = min(first + p.per_block, p.n_vocab);
    candidate mine = { 0, NONE, NONE };
    for (uint32_t base = first + threadIdx.x; base < end; base += AT_ONCE * THREADS) {
        float x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) x[k] = base + k * THREADS < end ? p.logits[base + k * THREADS] : 0.0f;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const uint32_t i = base + k * THREADS;
            if (i >= end) break;
            if (!isfinite(x[k])) mine.first_bad = min(mine.first_bad, i);
            else if (i < p.n_drawable) take_better(mine, { key_of<PENALTY>(score_of<PENALTY>(p, x[k], i)), i, NONE });
        }
    }
    mine = reduce(mine, shared);
    if (threadIdx.x == 0) p.scratch->candidates[blockIdx.x] = mine;
    if (!is_last_block(p.n_blocks_done)) return;
    mine = { 0, NONE, NONE };
    if (threadIdx.x < gridDim.x) {
        const candidate *theirs = &p.scratch->candidates[threadIdx.x];
        mine.key = __ldcg((const unsigned long long *)&theirs->key);
        mine.id = __ldcg(&theirs->id);
        mine.first_bad = __ldcg(&theirs->first_bad);
    }
    conclude<PENALTY>(p, reduce(mine, shared));
}

/* ---- the cut ---- */

/* One digit of a cut: width bits from `shift` up; `last` has no other below it. */
struct digit {
    int shift, width;
    bool first, last;
};

/* 64 bits by two additions of 32: atomic additions of 64 bits in shared memory are loops. Each low sum that wraps
 * carries one, so once all are done high and low are the sum. */
__device__ __forceinline__ void add_64(uint32_t *low, uint32_t *high, uint64_t x) {
    const uint32_t x_low = (uint32_t)x, before = atomicAdd(low, x_low);
    const uint32_t carry = before + x_low < before ? 1 : 0;
    const uint32_t x_high = (uint32_t)(x >> 32) + carry;
    if (x_high > 0) atomicAdd(high, x_high);
}

/* By the last block: the bin that holds the cut, to the state. A thread has bins next to each other, thread 0 the
 * highest. */
template <bool BY_WEIGHT> __device__ void choose_bin(const params &p, const struct digit &digit, uint64_t *shared) {
    constexpr int EACH = BINS / THREADS;
    struct state *state = &p.scratch->state;
    const int n_bins = 1 << digit.width;
    uint64_t size = 0, weight = 0, sizes[EACH], weights[EACH];
    for (int i = 0; i < EACH; i++) {
        const int bin = n_bins - 1 - (threadIdx.x * EACH + i);
        sizes[i] = bin < 0 ? 0 : __ldcg(&p.scratch->bin_sizes[bin]);
        weights[i] = bin < 0 ? 0 : __ldcg((const unsigned long long *)&p.scratch->bin_weights[bin]);
        size += sizes[i];
        weight += weights[i];
        if (bin < 0) continue;
        p.scratch->bin_sizes[bin] = 0; /* for the next digit */
        p.scratch->bin_weights[bin] = 0;
    }
    uint64_t all_n, all_weight;
    uint64_t before_n = sum_before(size, shared, &all_n), before_weight = sum_before(weight, shared, &all_weight);
    uint64_t needed = state->needed;
    if (digit.first) {
        needed = BY_WEIGHT ? kg_sample_enough(p.top_p, p.top_k > 0 ? state->total : all_weight) : p.top_k;
    } else {
        before_n += state->before_n;
        before_weight += state->before_weight;
    }
    __syncthreads(); /* all have read the state */
    const uint64_t before = BY_WEIGHT ? before_weight : before_n, here = BY_WEIGHT ? weight : size;
    if (before >= needed || before + here < needed) return;
    int i = 0; /* one thread alone is here */
    for (; i < EACH - 1; i++) {
        if ((BY_WEIGHT ? before_weight + weights[i] : before_n + sizes[i]) >= needed) break;
        before_n += sizes[i];
        before_weight += weights[i];
    }
    const uint64_t bin = (uint64_t)(n_bins - 1 - (threadIdx.x * EACH + i));
    state->cut = (digit.first ? 0 : state->cut) | bin << digit.shift;
    state->before_n = before_n;
    state->before_weight = before_weight;
    state->needed = needed;
    if (!digit.last) return;
    const uint64_t each = weights[i] / sizes[i]; /* of the ids that share the cut's key */
    state->n_ties = BY_WEIGHT ? (needed - before_weight + each - 1) / each : needed - before_n;
    if (!BY_WEIGHT) state->total = before_weight + state->n_ties * each;
}

/* Grid: n_drawable over per_block. */
template <bool PENALTY, bool BY_WEIGHT>
__global__ void __launch_bounds__(THREADS) sample_digit_kernel(const params p, const struct digit digit) {
    __shared__ uint32_t sizes[BINS], lows[BINS], highs[BINS];
    __shared__ uint64_t sums[WARPS];
    const struct state *state = &p.scratch->state;
    if (state->first_bad != NONE) return;
    for (int i = threadIdx.x; i < BINS; i += THREADS) sizes[i] = lows[i] = highs[i] = 0;
    __syncthreads(); /* before any is added to */
    const int above = digit.shift + digit.width;
    const uint64_t known = digit.first ? 0 : state->cut >> above;
    const uint32_t first = blockIdx.x * p.per_block, end = min(first + p.per_block, p.n_drawable);
    for (uint32_t i = first + threadIdx.x; i < end; i += THREADS) {
        const double score = score_of<PENALTY>(p, p.logits[i], i);
        const uint64_t key = key_of<PENALTY>(score);
        if (!digit.first && key >> above != known) continue;
        const uint64_t weight = weight_of(p, score, state->best, false);
        if (BY_WEIGHT && weight == 0) continue; /* completes no sum */
        const uint32_t bin = (uint32_t)(key >> digit.shift) & ((1u << digit.width) - 1);
        atomicAdd(&sizes[bin], 1);
        add_64(&lows[bin], &highs[bin], weight);
    }
    __syncthreads(); /* all of the block are in its bins */
    for (int i = threadIdx.x; i < BINS; i += THREADS) {
        if (sizes[i] == 0) continue;
        atomicAdd(&p.scratch->bin_sizes[i], sizes[i]);
        atomicAdd((unsigned long long *)&p.scratch->bin_weights[i],
                  (unsigned long long)((uint64_t)highs[i] << 32 | lows[i]));
    }
    if (is_last_block(p.n_blocks_done)) choose_bin<BY_WEIGHT>(p, digit, sums);
}

/* Where the draw ends: a range of ids, and what of the target is left there. */
struct range {
    uint32_t block;
    uint64_t target, ties_before;
};

/* Of n_here ids as good as the cut, ties_before before them: how many are kept. */
__device__ __forceinline__ uint64_t kept_ties(const struct state &s, uint64_t ties_before, uint64_t n_here) {
    const uint64_t left = s.n_ties > ties_before ? s.n_ties - ties_before : 0;
    return left < n_here ? left : n_here;
}

__device__ void find_range(const params &p, const struct state &s, uint64_t tie_weight, uint64_t *shared,
                           struct range *found) {
    uint64_t before = 0, n_ties = 0, total, all_ties;
    if (threadIdx.x < gridDim.x) {
        before = __ldcg((const unsigned long long *)&p.scratch->tallies[threadIdx.x].before);
        n_ties = __ldcg(&p.scratch->tallies[threadIdx.x].n_ties);
    }
    const uint64_t ties_before = sum_before(n_ties, shared, &all_ties);
    const uint64_t weight = before + kept_ties(s, ties_before, n_ties) * tie_weight;
    const uint64_t sum = sum_before(weight, shared, &total);
    const uint64_t target = kg_sample_target(p.uniform, total);
    if (sum <= target && target < sum + weight) *found = { threadIdx.x, target - sum, ties_before };
    __syncthreads(); /* *found is visible */
}

/* Threads take ids next to each other, thread 0 the first. */
template <bool PENALTY>
__device__ void find_id(const params &p, const struct state &s, uint64_t tie_weight, uint64_t *shared,
                        const struct range &range) {
    const uint32_t start = range.block * p.per_block, limit = min(start + p.per_block, p.n_drawable);
    const uint32_t each = (limit - start + THREADS - 1) / THREADS;
    const uint32_t first = min(start + threadIdx.x * each, limit), end = min(first + each, limit);
    uint64_t n_ties = 0, weight = 0, total;
    for (uint32_t i = first; i < end; i++) {
        const double score = score_of<PENALTY>(p, p.logits[i], i);
        const uint64_t key = key_of<PENALTY>(score);
        n_ties += key == s.cut;
        if (key > s.cut) weight += weight_of(p, score, s.best, true);
    }
    uint64_t ties_before = range.ties_before + sum_before(n_ties, shared, &total);
    weight += kept_ties(s, ties_before, n_ties) * tie_weight;
    uint64_t sum = sum_before(weight, shared, &total);
    if (range.target < sum || range.target >= sum + weight) return;
    for (uint32_t i = first; i < end; i++) { /* one thread alone is here */
        const double score = score_of<PENALTY>(p, p.logits[i], i);
        const uint64_t key = key_of<PENALTY>(score);
        if (key > s.cut) sum += weight_of(p, score, s.best, true);
        else if (key == s.cut && ties_before++ < s.n_ties) sum += tie_weight;
        if (sum <= range.target) continue;
        publish(p, i, NONE);
        return;
    }
}

/* Grid: n_drawable over per_block. */
template <bool PENALTY> __global__ void __launch_bounds__(THREADS) sample_draw_kernel(const params p) {
    __shared__ uint64_t sums[WARPS];
    __shared__ struct range found;
    const struct state s = p.scratch->state;
    if (s.first_bad != NONE) return;
    const uint32_t first = blockIdx.x * p.per_block, end = min(first + p.per_block, p.n_drawable);
    uint64_t before = 0, n_ties = 0;
    for (uint32_t i = first + threadIdx.x; i < end; i += THREADS) {
        const double score = score_of<PENALTY>(p, p.logits[i], i);
        const uint64_t key = key_of<PENALTY>(score);
        n_ties += key == s.cut;
        if (key > s.cut) before += weight_of(p, score, s.best, true);
    }
    (void)sum_before(before, sums, &before);
    (void)sum_before(n_ties, sums, &n_ties);
    if (threadIdx.x == 0) p.scratch->tallies[blockIdx.x] = { before, (uint32_t)n_ties };
    if (!is_last_block(p.n_blocks_done)) return;
    const uint64_t tie_weight = s.n_ties > 0 ? weight_of(p, score_of_key<PENALTY>(s.cut), s.best, true) : 0;
    find_range(p, s, tie_weight, sums, &found);
    find_id<PENALTY>(p, s, tie_weight, sums, found);
}

template <bool PENALTY, bool BY_WEIGHT>
enum kg_status find_cut(struct kg_cuda_backend *cuda, const params &p, struct kg_error *err) {
    enum { KEY_BITS = 64, LOWEST = PENALTY ? 0 : 32 };
    for (int above = KEY_BITS, shift; above > LOWEST; above = shift) {
        shift = above - DIGIT_BITS > LOWEST ? above - DIGIT_BITS : LOWEST;
        const struct digit digit = { shift, above - shift, above == KEY_BITS, shift == LOWEST };
        sample_digit_kernel<PENALTY, BY_WEIGHT><<<blocks_for(p, p.n_drawable), THREADS, 0, cuda->stream>>>(p, digit);
        const enum kg_status status = kg_cuda_launched(err, "sample: cut");
        if (status) return status;
    }
    return KG_OK;
}

/* What follows the best where the id is not simply that. */
template <bool PENALTY>
enum kg_status cut_and_draw(struct kg_cuda_backend *cuda, const params &p, struct kg_error *err) {
    enum kg_status status = KG_OK;
    if (p.top_k > 0) status = find_cut<PENALTY, false>(cuda, p, err);
    if (!status && p.top_p < 1) status = find_cut<PENALTY, true>(cuda, p, err);
    if (status) return status;
    sample_draw_kernel<PENALTY><<<blocks_for(p, p.n_drawable), THREADS, 0, cuda->stream>>>(p);
    return kg_cuda_launched(err, "sample: draw");
}

params params_of(struct kg_cuda_backend *cuda, const struct kg_sample_args *args) {
    const struct kg_sampler_options *o = args->options;
    params p = {};
    p.logits = args->logits;
    p.n_vocab = args->n_vocab;
    p.n_drawable = args->n_drawable;
    p.sequence = args->sequence;
    p.history = args->history;
    p.next = args->next;
    p.n_history = args->n_history;
    p.repeat_last_n = o->repeat_last_n;
    p.top_k = kg_sample_keeps_k(o, args->n_drawable) ? o->top_k : 0;
    p.is_greedy = o->temperature == 0;
    p.has_cut = !p.is_greedy && (p.top_k > 0 || o->top_p < 1);
    p.weight_bits = kg_sample_weight_bits(args->n_drawable);
    p.temperature = o->temperature;
    p.repeat_penalty = o->repeat_penalty;
    p.top_p = o->top_p;
    p.least_distance = kg_sample_least_distance(o);
    p.uniform = args->uniform;
    p.result = args->result;
    p.scratch = static_cast<struct scratch *>(args->workspace);
    p.n_blocks_done = &cuda->step_memory->n_blocks_done;
    const uint32_t least = AT_ONCE * THREADS, even = (args->n_vocab + MAX_BLOCKS - 1) / MAX_BLOCKS;
    p.per_block = even > least ? even : least;
    return p;
}

template <bool PENALTY> enum kg_status enqueue(struct kg_cuda_backend *cuda, const params &p, struct kg_error *err) {
    enum kg_status status = KG_OK;
    if (PENALTY) {
        sample_mark_kernel<<<1, MARK_THREADS, 0, cuda->stream>>>(p);
        status = kg_cuda_launched(err, "sample: penalty");
        if (status) return status;
    }
    sample_best_kernel<PENALTY><<<blocks_for(p, p.n_vocab), THREADS, 0, cuda->stream>>>(p);
    status = kg_cuda_launched(err, "sample");
    return status || p.is_greedy ? status : cut_and_draw<PENALTY>(cuda, p, err);
}

} // namespace

/* A bit for every id behind the rest. */
enum kg_status kg_cuda_sample_plan(const struct kg_session_plan *plan, uint64_t *workspace_bytes,
                                   struct kg_error *err) {
    (void)err;
    *workspace_bytes = sizeof(struct scratch) + ((uint64_t)plan->config->n_vocab + 31) / 32 * sizeof(uint32_t);
    return KG_OK;
}

enum kg_status kg_cuda_sample(struct kg_backend *backend, const struct kg_sample_args *args, struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    const enum kg_status status = kg_sample_check(args, err);
    if (status) return status;
    const params p = params_of(lock.cuda, args);
    return kg_sample_penalises(args->options) ? enqueue<true>(lock.cuda, p, err) : enqueue<false>(lock.cuda, p, err);
}
