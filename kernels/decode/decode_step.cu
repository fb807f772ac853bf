/* A decode step on the GPU: one token by the session's lowered plan (lower.h), enqueued as one persistent launch or as
 * one CUDA graph of launches.
 *
 * The graph: a kernel of one thread puts id and position into device memory, and whatever depends on them reads them
 * there (struct kg_cuda_step), so a graph serves every token of its session. The first step runs the launches one by
 * one, with the grids that the graph will have: it loads kernels that were never used, which a capture must not. The
 * second captures them, and this and all later steps launch the graph: the same kernels on the same data, so a token's
 * logits do not depend on which of the three it was. A sequence that outgrows its rope factors has its graph captured
 * once more; so has one that outgrows the kernel of few keys, after a step that runs the launches one by one.
 *
 * Nothing is allocated by the back end, and the host waits for nothing. */
#include "kernels/attention/attention.cuh"
#include "kernels/block/rotation.cuh"
#include "kernels/decode/fusions.h"
#include "kernels/decode/persistent/step.h"
#include "kernels/preload.h"

KG_PRELOADED(decode_decode_step, KG_NEXT_TOKENS)

enum { TABLE_THREADS = 128 };

static __global__ void set_step_kernel(struct kg_cuda_step *step, int32_t *ids, int32_t id, uint32_t position) {
    if (id != KG_ID_IN_PLACE) ids[0] = id;
    step->position = position;
}

/* table[i] = (cos, sin) of pair i at the step's position. */
static __global__ void __launch_bounds__(TABLE_THREADS)
    rotation_table_kernel(const struct kg_cuda_step *step, float2 *table, const struct kg_rope_angles of) {
    for (uint32_t i = threadIdx.x; i < of.n_rot / 2; i += TABLE_THREADS) table[i] = kg_cos_sin(of, step->position, i);
}

static enum kg_status make_tables(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                  const struct kg_run *run, struct kg_error *err) {
    for (uint32_t i = 0; i < l->n_tables; i++) {
        const struct kg_rope_angles of = kg_rope_angles_of(&l->tables[i].rope, run->rope_factors);
        rotation_table_kernel<<<1, TABLE_THREADS, 0, cuda->stream>>>(cuda->step, l->tables[i].data, of);
    }
    return kg_cuda_launched(err, "decode step: rotation tables");
}

/* Keys of a step at most, for which its attention is chosen: few, or all that the context has. */
static uint32_t keys_at(const struct kg_cuda_lowered *l, uint32_t position) {
    return position < l->few_keys ? l->few_keys : UINT32_MAX;
}

/* All launches, which read the position from device memory. The tables are made after the embedding, which does not
 * wait for them. */
static enum kg_status launch_all(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_run *run,
                                 struct kg_error *err) {
    enum kg_status status = KG_OK;
    cuda->step = cuda->step_memory;
    cuda->step_keys = l->keys = keys_at(l, run->position);
    for (uint32_t i = 0; i < l->n_launches && !status; i++) {
        const struct kg_cuda_launch *one = &l->launches[i];
        const struct kg_site at = { cuda, l, &l->plan->nodes[one->first], run, {} };
        status = one->fusion ? one->fusion->launch(&at, err) : kg_plan_run_node(&cuda->base, at.n, run, err);
        if (!status && i == 0) status = make_tables(cuda, l, run, err);
    }
    cuda->step = NULL;
    return status;
}

/* What another thread does meanwhile on the device is none of this capture's: the mode is this thread's. */
static enum kg_status capture(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_run *run,
                              struct kg_error *err) {
    cudaGraph_t graph = NULL;
    cudaError_t code = cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal);
    if (code != cudaSuccess) return kg_cuda_fail(err, "capture of a step", code);
    const enum kg_status status = launch_all(cuda, l, run, err);
    code = cudaStreamEndCapture(cuda->stream, &graph);
    if (!status && code == cudaSuccess) code = cudaGraphInstantiate(&l->exec, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    if (status) {
        (void)cudaGetLastError();
        return status;
    }
    l->rope_factors = run->rope_factors;
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, "graph of a step", code);
}

/* A graph rotates by the factors it was captured with, and has kernels for so many keys: for others it is captured
 * again, kernels that may never have run being loaded by a step without one. */
static void drop_other_graph(struct kg_cuda_lowered *l, const struct kg_run *run) {
    const bool has_kernels = !l->has_run || l->keys == keys_at(l, run->position);
    if (has_kernels && (!l->exec || l->rope_factors == run->rope_factors)) return;
    if (l->exec) (void)cudaGraphExecDestroy(l->exec);
    l->exec = NULL;
    l->has_run = has_kernels;
}

enum kg_status kg_cuda_decode_step(struct kg_backend *backend, struct kg_lowered *lowered,
                                   const struct kg_step_args *args, struct kg_error *err) {
    struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    struct kg_cuda_lowered *l = kg_cuda_lowered_of(lowered);
    const struct kg_run *run = &args->run;
    if (l->program) return kg_cuda_persistent_step(cuda, l->program, args->id, run->position, run->rope_factors, err);
    drop_other_graph(l, run);
    enum kg_status status = l->has_run && !l->exec ? capture(cuda, l, run, err) : KG_OK;
    if (status) return status;
    set_step_kernel<<<1, 1, 0, cuda->stream>>>(cuda->step_memory, l->plan->ids, args->id, run->position);
    status = kg_cuda_launched(err, "decode step");
    if (status) return status;
    if (!l->has_run) {
        l->has_run = true;
        return launch_all(cuda, l, run, err);
    }
    const cudaError_t code = cudaGraphLaunch(l->exec, cuda->stream);
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, "decode step", code);
}
