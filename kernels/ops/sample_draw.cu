/* sample on the GPU where the id is not simply the best: the cut of top-k and top-p, then the draw.
 *
 * The cut is found digit by digit of its key, from the highest: every id whose key begins with the digits known so far
 * adds itself and its weight to the bin of its next digit, and the block that is done last goes through the bins from
 * the highest to the one in which the k-th id, or the id that completes top-p's sum, is. What is left then is one key;
 * how many of the ids that share it are kept follows from their equal weights. top-k's cut gives the sum of which top-p
 * takes its part, so that top-p's cut, found after it, is the nearer one. min-p needs no search: it is a distance.
 *
 * The draw: each block sums the weights of its range of ids; the block that is done last finds the range in which the
 * running sum passes the target, then the id within it. */
#include "kernels/block/sample.cuh"

using namespace kg_sample;

/* One digit of a cut: width bits from `shift` up; `last` has no other below it. */
struct digit {
    int shift, width;
    bool first, last;
};

/* 64 bits by two additions of 32: atomic additions of 64 bits in shared memory are loops. Each low sum that wraps
 * carries one, so once all are done high and low are the sum. */
static __device__ __forceinline__ void add_64(uint32_t *low, uint32_t *high, uint64_t x) {
    const uint32_t x_low = (uint32_t)x, before = atomicAdd(low, x_low);
    const uint32_t carry = before + x_low < before ? 1 : 0;
    const uint32_t x_high = (uint32_t)(x >> 32) + carry;
    if (x_high > 0) atomicAdd(high, x_high);
}

/* By the last block: the bin that holds the cut, to the state. A thread has bins next to each other, thread 0 the
 * highest. */
template <bool BY_WEIGHT>
static __device__ void choose_bin(const params &p, const struct digit &digit, uint64_t *shared) {
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
static __global__ void __launch_bounds__(THREADS) sample_digit_kernel(const params p, const struct digit digit) {
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
static __device__ __forceinline__ uint64_t kept_ties(const struct state &s, uint64_t ties_before, uint64_t n_here) {
    const uint64_t left = s.n_ties > ties_before ? s.n_ties - ties_before : 0;
    return left < n_here ? left : n_here;
}

static __device__ void find_range(const params &p, const struct state &s, uint64_t tie_weight, uint64_t *shared,
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
static __device__ void find_id(const params &p, const struct state &s, uint64_t tie_weight, uint64_t *shared,
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
template <bool PENALTY> static __global__ void __launch_bounds__(THREADS) sample_draw_kernel(const params p) {
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
static enum kg_status find_cut(struct kg_cuda_backend *cuda, const params &p, struct kg_error *err) {
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

template <bool PENALTY>
static enum kg_status cut_and_draw(struct kg_cuda_backend *cuda, const params &p, struct kg_error *err) {
    enum kg_status status = KG_OK;
    if (p.top_k > 0) status = find_cut<PENALTY, false>(cuda, p, err);
    if (!status && p.top_p < 1) status = find_cut<PENALTY, true>(cuda, p, err);
    if (status) return status;
    sample_draw_kernel<PENALTY><<<blocks_for(p, p.n_drawable), THREADS, 0, cuda->stream>>>(p);
    return kg_cuda_launched(err, "sample: draw");
}

enum kg_status kg_sample::draw(struct kg_cuda_backend *cuda, const params &p, bool penalty, struct kg_error *err) {
    return penalty ? cut_and_draw<true>(cuda, p, err) : cut_and_draw<false>(cuda, p, err);
}
