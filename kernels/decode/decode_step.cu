/* decode_step on the GPU: one token, enqueued as one persistent launch where the model and its precisions fit that
 * (persistent/step.h), else as one CUDA graph of the operations' launches.
 *
 * The graph: id and position of a token are put into device memory by a kernel of one thread, and whatever depends on
 * them reads them there (struct kg_cuda_step), so a graph serves every token of its session. The first step of a
 * session runs the walk's launches one by one, with the grids that the graph will have: it loads kernels that were
 * never used, which a capture must not. The second captures the walk, and this and all later ones launch the graph: the
 * same kernels on the same data, so a token's logits do not depend on which of the three it was.
 *
 * A session whose sequence outgrows its rope factors has its graph captured once more.
 *
 * Nothing is allocated by the back end, and the host waits for nothing. */
#include "kernels/decode/decode_step.h"
#include "kernels/decode/persistent/step.h"
#include "kernels/decode/fused_step.h"
#include <cstdlib>

struct kg_cuda_graph {
    struct kg_cuda_graph *next;
    const void *kv, *activations, *workspace; /* the session's memory: what tells it from another */
    const struct kg_model_weights *weights;
    const float *rope_factors;             /* that exec turns by */
    struct kg_persistent_program *program; /* the step as one launch; NULL: as a graph */
    cudaGraphExec_t exec;                  /* NULL until the second step */
};

__global__ void set_step_kernel(struct kg_cuda_step *step, int32_t *ids, int32_t id, uint32_t position) {
    if (id != KG_ID_IN_PLACE) ids[0] = id;
    step->position = position;
}

static bool is_graph_of(const struct kg_cuda_graph *g, const struct kg_decode_step_args *args) {
    return g->kv == args->kv->block.data && g->activations == args->buffers->ids && g->workspace == args->workspace &&
           g->weights == args->weights;
}

static void destroy(struct kg_cuda_graph *g) {
    if (g->exec) (void)cudaGraphExecDestroy(g->exec);
    free(g->program);
    free(g);
}

void kg_cuda_graphs_drop(struct kg_cuda_backend *cuda, const void *block) {
    struct kg_cuda_graph **link = &cuda->graphs;
    while (*link) {
        struct kg_cuda_graph *g = *link;
        if (block && g->kv != block && g->activations != block && g->workspace != block) {
            link = &g->next;
            continue;
        }
        *link = g->next;
        destroy(g);
    }
}

/* Runs the walk so that it reads the position from device memory. */
static enum kg_status walk(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args, struct kg_error *err) {
    cuda->step = cuda->step_memory;
    const enum kg_status status =
        kg_cuda_step_can_walk(cuda, args) ? kg_cuda_step_walk(cuda, args, err) : args->walk(args->pass, err);
    cuda->step = NULL;
    return status;
}

/* What another thread does meanwhile on the device is none of this capture's: the mode is this thread's. */
static enum kg_status capture(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                              cudaGraphExec_t *exec, struct kg_error *err) {
    cudaGraph_t graph = NULL;
    cudaError_t code = cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal);
    if (code != cudaSuccess) return kg_cuda_fail(err, "capture of a step", code);
    const enum kg_status status = walk(cuda, args, err);
    code = cudaStreamEndCapture(cuda->stream, &graph);
    if (!status && code == cudaSuccess) code = cudaGraphInstantiate(exec, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    if (status) {
        (void)cudaGetLastError();
        return status;
    }
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, "graph of a step", code);
}

static enum kg_status make_program(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                                   struct kg_persistent_program **program, struct kg_error *err) {
    const struct kg_session_plan plan = { args->config, args->activations, args->kv->precision, args->kv->n_ctx,
                                          args->buffers->max_rows };
    uint64_t shared_bytes = 0, step_bytes = 0;
    const enum kg_status status = kg_cuda_workspace_plan(cuda, &plan, &shared_bytes, &step_bytes, err);
    if (status || step_bytes == 0) return status;
    return kg_cuda_persistent_create(cuda, args, static_cast<char *>(args->workspace) + shared_bytes, program, err);
}

static enum kg_status first_step(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                                 struct kg_cuda_graph **graph, struct kg_error *err) {
    struct kg_cuda_graph *g = static_cast<struct kg_cuda_graph *>(calloc(1, sizeof *g));
    if (!g) return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for a step's graph");
    g->next = cuda->graphs;
    g->kv = args->kv->block.data;
    g->activations = args->buffers->ids;
    g->workspace = args->workspace;
    g->weights = args->weights;
    cuda->graphs = g;
    *graph = g;
    return make_program(cuda, args, &g->program, err);
}

/* A graph turns by the factors it was captured with: for others there is another one. */
static void turn_by(struct kg_cuda_graph *g, const float *rope_factors) {
    if (g->exec && g->rope_factors != rope_factors) {
        (void)cudaGraphExecDestroy(g->exec);
        g->exec = NULL;
    }
    g->rope_factors = rope_factors;
}

enum kg_status kg_cuda_decode_step(struct kg_backend *backend, const struct kg_decode_step_args *args,
                                   struct kg_error *err) {
    struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    struct kg_cuda_graph *g = cuda->graphs;
    while (g && !is_graph_of(g, args)) g = g->next;
    const bool is_first = !g;
    enum kg_status status = KG_OK;
    if (is_first) status = first_step(cuda, args, &g, err);
    if (!status) turn_by(g, args->rope_factors);
    if (!status && !is_first && !g->program && !g->exec) status = capture(cuda, args, &g->exec, err);
    if (status) return status;
    if (g->program) return kg_cuda_persistent_step(cuda, g->program, args->id, args->position, args->rope_factors, err);
    set_step_kernel<<<1, 1, 0, cuda->stream>>>(cuda->step_memory, args->buffers->ids, args->id, args->position);
    status = kg_cuda_launched(err, "decode step");
    if (status) return status;
    if (is_first) return walk(cuda, args, err);
    const cudaError_t code = cudaGraphLaunch(g->exec, cuda->stream);
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, "decode step", code);
}
