/* sample on the GPU: the best id and what is not finite, in one kernel, which is all that greedy draws need; the
 * others' kernels follow (sample_draw.cu).
 *
 * A block looks at a range of ids and leaves its best; the block that is done last reduces those of all. Of equal
 * scores the lowest id is best, so the result does not depend on the order in which blocks run. */
#include "kernels/block/sample.cuh"

using namespace kg_sample;

enum { AT_ONCE = 4, MARK_THREADS = 1024 };

/* penalised = bits of the ids in the last repeat_last_n of the history; one block. */
static __global__ void __launch_bounds__(MARK_THREADS) sample_mark_kernel(const params p) {
    uint32_t *bits = p.scratch->penalised;
    for (uint32_t i = threadIdx.x; i < (p.n_drawable + 31) / 32; i += MARK_THREADS) bits[i] = 0;
    __syncthreads(); /* before any bit is set */
    const uint32_t first = p.n_history > p.repeat_last_n ? p.n_history - p.repeat_last_n : 0;
    for (uint32_t i = first + threadIdx.x; i < p.n_history; i += MARK_THREADS) {
        const uint32_t id = (uint32_t)p.history[i];
        if (id < p.n_drawable) atomicOr(&bits[id / 32], 1u << id % 32);
    }
}

static __device__ __forceinline__ void take_better(candidate &a, const candidate &b) {
    if (b.key > a.key || (b.key == a.key && b.id < a.id)) {
        a.key = b.key;
        a.id = b.id;
    }
    a.first_bad = min(a.first_bad, b.first_bad);
}

/* Of the block, to thread 0. */
static __device__ candidate reduce(candidate mine, candidate *shared) {
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
template <bool PENALTY> static __device__ void conclude(const params &p, const candidate &best) {
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
template <bool PENALTY> static __global__ void __launch_bounds__(THREADS) sample_best_kernel(const params p) {
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

/* A bit for every id behind the rest. */
enum kg_status kg_cuda_sample_plan(const struct kg_session_plan *plan, uint64_t *workspace_bytes,
                                   struct kg_error *err) {
    (void)err;
    *workspace_bytes = sizeof(struct scratch) + ((uint64_t)plan->config->n_vocab + 31) / 32 * sizeof(uint32_t);
    return KG_OK;
}

static params params_of(struct kg_cuda_backend *cuda, const struct kg_sample_args *args) {
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

enum kg_status kg_cuda_sample(struct kg_backend *backend, const struct kg_sample_args *args, struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    struct kg_cuda_backend *cuda = lock.cuda;
    const bool penalty = kg_sample_penalises(args->options);
    enum kg_status status = kg_sample_check(args, err);
    if (status) return status;
    const params p = params_of(cuda, args);
    const unsigned n_blocks = blocks_for(p, p.n_vocab);
    if (penalty) {
        sample_mark_kernel<<<1, MARK_THREADS, 0, cuda->stream>>>(p);
        status = kg_cuda_launched(err, "sample: penalty");
        if (status) return status;
        sample_best_kernel<true><<<n_blocks, THREADS, 0, cuda->stream>>>(p);
    } else {
        sample_best_kernel<false><<<n_blocks, THREADS, 0, cuda->stream>>>(p);
    }
    status = kg_cuda_launched(err, "sample");
    return status || p.is_greedy ? status : draw(cuda, p, penalty, err);
}
