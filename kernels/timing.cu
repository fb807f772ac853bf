/* Timing on the device (contract in backend/measure.h): events around a launch, or around a graph of many dependent
 * launches, whose time is divided by their number. Everything runs on the back end's stream, under its lock, so that no
 * other session's work falls between two events. Events resolve about half a microsecond: short work is for graphs. */
#include "kernels/cuda_backend.h"
#include "kernels/preload.h"
#include <cmath>

namespace {

struct stopwatch {
    cudaStream_t stream;
    cudaEvent_t start, stop;
};

enum kg_status stopwatch_open(struct stopwatch *w, cudaStream_t stream, struct kg_error *err) {
    *w = stopwatch{ stream, nullptr, nullptr };
    const cudaError_t code = cudaEventCreate(&w->start);
    return kg_cuda_status(err, "timing events", code == cudaSuccess ? cudaEventCreate(&w->stop) : code);
}

void stopwatch_close(struct stopwatch *w) {
    if (w->start) cudaEventDestroy(w->start);
    if (w->stop) cudaEventDestroy(w->stop);
}

/* Waits for the end of what was launched since the start. */
enum kg_status stopwatch_stop(struct stopwatch *w, size_t n_iterations, uint64_t *iteration_ns, struct kg_error *err) {
    float elapsed_ms = 0;
    cudaError_t code = cudaEventRecord(w->stop, w->stream);
    if (code == cudaSuccess) code = cudaEventSynchronize(w->stop);
    if (code == cudaSuccess) code = cudaEventElapsedTime(&elapsed_ms, w->start, w->stop);
    *iteration_ns =
        static_cast<uint64_t>(std::llround(static_cast<double>(elapsed_ms) * 1e6 / static_cast<double>(n_iterations)));
    return kg_cuda_status(err, "timing: stop", code);
}

/* Samples of enqueue(i), which runs n_iterations. */
template <typename F>
enum kg_status take_samples(struct stopwatch *w, const struct kg_timing_request *r, size_t n_iterations,
                            const F &enqueue, uint64_t *samples_ns, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < r->n_warmup + r->n_samples && status == KG_OK; i++) {
        uint64_t iteration_ns = 0;
        status = kg_cuda_status(err, "timing: start", cudaEventRecord(w->start, w->stream));
        if (status == KG_OK) status = enqueue(i);
        if (status == KG_OK) status = stopwatch_stop(w, n_iterations, &iteration_ns, err);
        if (i >= r->n_warmup) samples_ns[i - r->n_warmup] = iteration_ns;
    }
    return status;
}

/* Captures the launches. A launch that fails leaves capture mode too. */
enum kg_status capture(cudaStream_t stream, const struct kg_timing_request *r, cudaGraph_t *graph,
                       struct kg_error *err) {
    cudaError_t code = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (code != cudaSuccess) return kg_cuda_fail(err, "timing: begin capture", code);
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < r->n_repeats && status == KG_OK; i++) status = r->launch(r->arg, i, err);
    code = cudaStreamEndCapture(stream, graph);
    if (status == KG_OK) return kg_cuda_status(err, "timing: end capture", code);
    if (code != cudaSuccess) cudaGetLastError();
    return status;
}

enum kg_status time_graph(struct stopwatch *w, const struct kg_timing_request *r, uint64_t *samples_ns,
                          struct kg_error *err) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    const auto replay = [&](size_t) { return kg_cuda_status(err, "timing: graph", cudaGraphLaunch(exec, w->stream)); };
    /* Outside the graph first: modules and libraries load what they need at their first call, which no capture allows.
     */
    enum kg_status status = r->launch(r->arg, 0, err);
    if (status == KG_OK) status = capture(w->stream, r, &graph, err);
    if (status == KG_OK)
        status = kg_cuda_status(err, "timing: instantiate a graph", cudaGraphInstantiate(&exec, graph, 0));
    if (status == KG_OK) status = take_samples(w, r, r->n_repeats, replay, samples_ns, err);
    if (exec) cudaGraphExecDestroy(exec);
    if (graph) cudaGraphDestroy(graph);
    return status;
}

enum kg_status time_on_device(struct kg_backend *backend, const struct kg_timing_request *r, uint64_t *samples_ns,
                              struct kg_error *err) {
    enum kg_status status = kg_timing_request_check(r, err);
    if (status != KG_OK) return status;
    if (r->kind == KG_TIMING_HOST) return kg_timing_on_host(backend, r, samples_ns, err);
    const struct kg_cuda_held lock(backend);
    const auto launch = [&](size_t i) { return r->launch(r->arg, i, err); };
    struct stopwatch w;
    status = stopwatch_open(&w, lock.cuda->stream, err);
    if (status == KG_OK)
        status = r->kind == KG_TIMING_KERNEL ? take_samples(&w, r, 1, launch, samples_ns, err)
                                             : time_graph(&w, r, samples_ns, err);
    stopwatch_close(&w);
    return status;
}

/* The L2; 0 if the device does not say. */
uint64_t l2_bytes(struct kg_backend *backend) {
    int bytes = 0;
    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, kg_cuda_of(backend)->device) != cudaSuccess) return 0;
    return static_cast<uint64_t>(bytes);
}

enum kg_status kernels_ahead(struct kg_backend *backend, struct kg_kernels_ahead *kernels, struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    return kg_preload_count(lock.cuda, kernels, err);
}

} // namespace

extern "C" const struct kg_measure_ops kg_cuda_measure_ops = { l2_bytes, time_on_device, kg_cuda_canary_copy,
                                                               kg_cuda_canary_read, kernels_ahead };
