/* sample on the GPU: the largest logit and what is not finite, in one kernel.
 *
 * A block looks at a range of ids and leaves its best; the block that is done last reduces those of all and writes the
 * result. Keys order as logits do, with -0 as 0; of equal ones the lowest id is best, so the result does not depend on
 * the order in which blocks run. */
#include "kernels/sample.h"
#include "kernels/precision.cuh"

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP, MAX_BLOCKS = 128, AT_ONCE = 4 };
static_assert(MAX_BLOCKS <= THREADS, "the last block has a thread for each block's result");
static const uint32_t NONE = UINT32_MAX;

struct candidate {
    uint64_t key;
    uint32_t id, first_bad;
};

struct scratch {
    candidate candidates[MAX_BLOCKS];
};

struct sample_params {
    const float *logits;
    uint32_t n_vocab, n_drawable, per_block, n_history, sequence;
    int32_t *history, *next;
    struct kg_sample_result *result;
    struct scratch *scratch;
    uint32_t *n_blocks_done;
};

/* Larger for a larger logit, never 0. */
static __device__ __forceinline__ uint64_t key_of(float logit) {
    const uint32_t bits = __float_as_uint(logit + 0.0f);
    return (uint64_t)(bits ^ ((bits >> 31) ? 0xFFFFFFFFu : 0x80000000u)) << 32;
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
    __syncthreads(); /* every warp's best is there */
    if (threadIdx.x == 0)
        for (int w = 1; w < WARPS; w++) take_better(mine, shared[w]);
    return mine;
}

/* Whether this is the block that is done last; what the others wrote before may then be read, past the first cache. */
static __device__ bool is_last_block(uint32_t *n_blocks_done) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence(); /* what thread 0 wrote is seen before its block is counted */
        last = atomicInc(n_blocks_done, gridDim.x - 1) == gridDim.x - 1; /* which wraps to 0 for the next kernel */
        __threadfence();
    }
    __syncthreads(); /* `last` is there */
    return last;
}

static __device__ void publish(const sample_params &p, const candidate &best) {
    const bool bad = best.first_bad != NONE;
    const int32_t id = (int32_t)best.id, evaluated = bad ? 0 : id;
    if (p.next) *p.next = evaluated;
    if (p.history) p.history[p.n_history] = evaluated;
    volatile struct kg_sample_result *result = p.result;
    result->id = bad ? -1 : id;
    result->first_bad = bad ? best.first_bad : p.n_vocab;
    result->bad = bad ? p.logits[best.first_bad] : 0;
    __threadfence_system(); /* the host sees the sequence after the rest */
    result->sequence = p.sequence;
}

/* Grid: n_vocab over per_block, at most MAX_BLOCKS. */
static __global__ void __launch_bounds__(THREADS) sample_best_kernel(const sample_params p) {
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
            else if (i < p.n_drawable) take_better(mine, { key_of(x[k]), i, NONE });
        }
    }
    mine = reduce(mine, shared);
    if (threadIdx.x == 0) p.scratch->candidates[blockIdx.x] = mine;
    if (!is_last_block(p.n_blocks_done)) return;
    mine = { 0, NONE, NONE };
    if (threadIdx.x < gridDim.x) {
        const volatile candidate *theirs = &p.scratch->candidates[threadIdx.x];
        mine = { theirs->key, theirs->id, theirs->first_bad };
    }
    mine = reduce(mine, shared);
    if (threadIdx.x == 0) publish(p, mine);
}

enum kg_status kg_cuda_sample_plan(const struct kg_session_plan *plan, uint64_t *workspace_bytes,
                                   struct kg_error *err) {
    (void)plan, (void)err;
    *workspace_bytes = sizeof(struct scratch);
    return KG_OK;
}

enum kg_status kg_cuda_sample(struct kg_backend *backend, const struct kg_sample_args *args, struct kg_error *err) {
    struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    const enum kg_status status = kg_sample_check(args, err);
    if (status) return status;
    sample_params p = {};
    p.logits = args->logits;
    p.n_vocab = args->n_vocab;
    p.n_drawable = args->n_drawable;
    p.n_history = args->n_history;
    p.sequence = args->sequence;
    p.history = args->history;
    p.next = args->next;
    p.result = args->result;
    p.scratch = static_cast<struct scratch *>(args->workspace);
    p.n_blocks_done = &cuda->step_memory->n_blocks_done;
    const uint32_t least = AT_ONCE * THREADS, even = (args->n_vocab + MAX_BLOCKS - 1) / MAX_BLOCKS;
    p.per_block = even > least ? even : least;
    sample_best_kernel<<<kg_blocks_for(args->n_vocab, p.per_block), THREADS, 0, cuda->stream>>>(p);
    return kg_cuda_launched(err, "sample");
}
