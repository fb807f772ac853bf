/* The cuda back end: device memory, one stream, the operations of kernels/ (the lock: cuda_backend.h). */
#include "kernels/as_float16.h"
#include "kernels/cuda_backend.h"
#include "kernels/decode/lower.h"
#include "kernels/gemm/gemm.h"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/preload.h"
#include "kernels/staging.h"
#include "kernels/weights_room.h"
#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <tuple>

enum { LOWEST_COMPUTE_CAPABILITY = 80 };

enum kg_status kg_cuda_fail(struct kg_error *err, const char *what, cudaError_t code) {
    (void)cudaGetLastError();
    const enum kg_status status = code == cudaErrorMemoryAllocation ? KG_ERR_NO_MEMORY : KG_ERR_INTERNAL;
    return kg_fail(err, status, "cuda: %s: %s", what, cudaGetErrorString(code));
}

#define TRY_CUDA(call, what)                                                                                           \
    do {                                                                                                               \
        const cudaError_t try_code = (call);                                                                           \
        if (try_code != cudaSuccess) return kg_cuda_fail(err, what, try_code);                                         \
    } while (0)

/* No driver, no device, one that does not answer or is too old: reasons for KG_ERR_UNSUPPORTED, which lets `auto` take
 * another back end. */
static enum kg_status find_device(struct kg_cuda_backend *cuda, struct kg_error *err) {
    int n_devices = 0, major = 0, minor = 0, shared_bytes = 0;
    cudaError_t code = cudaGetDeviceCount(&n_devices);
    if (code == cudaSuccess) code = n_devices == 0 ? cudaErrorNoDevice : cudaSetDevice(cuda->device);
    if (code != cudaSuccess) {
        (void)cudaGetLastError();
        return kg_fail(err, KG_ERR_UNSUPPORTED, "no CUDA device: %s", cudaGetErrorString(code));
    }
    TRY_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, cuda->device), "compute capability");
    TRY_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, cuda->device), "compute capability");
    TRY_CUDA(cudaDeviceGetAttribute(&cuda->n_sms, cudaDevAttrMultiProcessorCount, cuda->device), "multiprocessors");
    cuda->compute_capability = 10 * major + minor;
    TRY_CUDA(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->device),
             "shared memory");
    cuda->shared_bytes = (uint32_t)shared_bytes;
    if (cuda->compute_capability < LOWEST_COMPUTE_CAPABILITY)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "the CUDA device has compute capability %d.%d; the kernels need 8.0",
                       major, minor);
    return KG_OK;
}

static enum kg_status open_device(struct kg_cuda_backend *cuda, struct kg_error *err) {
    enum kg_status status = find_device(cuda, err);
    if (status) return status;
    TRY_CUDA(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    size_t free_bytes, total_bytes;
    TRY_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    cuda->memory_bytes = total_bytes;
    status = kg_staging_open(cuda, err);
    if (status) return status;
    TRY_CUDA(cudaMalloc(&cuda->step_memory, 2 * sizeof *cuda->step_memory), "a step's position");
    TRY_CUDA(cudaMemsetAsync(cuda->step_memory, 0, 2 * sizeof *cuda->step_memory, cuda->stream), "a step's position");
    return KG_OK;
}

static void cuda_close(struct kg_backend *backend) {
    struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    if (cuda->stream) (void)cudaStreamSynchronize(cuda->stream);
    kg_preload_end(cuda);
    kg_cuda_gemm_close(cuda);
    (void)cudaFree(cuda->step_memory);
    kg_staging_close(cuda);
    kg_weights_rooms_free(cuda);
    if (cuda->stream) (void)cudaStreamDestroy(cuda->stream);
    (void)cudaGetLastError();
    kg_memory_destroy(&cuda->base.memory);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda->repacked);
    free(cuda);
}

/* The host waits here, in kernels/staging.cu, and in kernels/mailbox.cu for drawn ids. */
static cudaError_t wait_for_stream(struct kg_cuda_backend *cuda) {
    (void)__atomic_fetch_add(&cuda->base.n_waits, 1, __ATOMIC_RELAXED);
    return cudaStreamSynchronize(cuda->stream);
}

static enum kg_status cuda_open(const struct kg_backend_ops *ops, int n_threads, struct kg_backend **backend,
                                struct kg_error *err) {
    if (n_threads < 0) return kg_fail(err, KG_ERR_USAGE, "%d threads are asked for", n_threads);
    struct kg_cuda_backend *cuda = static_cast<struct kg_cuda_backend *>(calloc(1, sizeof *cuda));
    if (!cuda) return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for the back end");
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&cuda->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    cuda->base.ops = ops;
    kg_memory_init(&cuda->base.memory);
    const enum kg_status status = open_device(cuda, err);
    if (status) cuda_close(&cuda->base);
    else *backend = &cuda->base;
    return status;
}

/* How many bytes are free is asked when they are too few, not for each of a model's hundreds of tensors. */
static enum kg_status fail_no_memory(const struct kg_backend *backend, uint64_t size_bytes, const char *what,
                                     struct kg_error *err) {
    size_t free_bytes = 0, total_bytes = 0;
    (void)cudaGetLastError();
    TRY_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    return kg_fail(err, KG_ERR_NO_MEMORY, "%s: %" PRIu64 " bytes needed for %s, %zu bytes free", backend->ops->name,
                   size_bytes, what, free_bytes);
}

/* A request larger than all that there is is refused without asking for it; the driver decides about the rest. */
static enum kg_status cuda_alloc(struct kg_backend *backend, enum kg_memory_tag tag, uint64_t size_bytes,
                                 const char *what, struct kg_block *block, struct kg_error *err) {
    struct kg_block made = {};
    made.size_bytes = size_bytes;
    made.tag = tag;
    if (size_bytes > 0) {
        const struct kg_cuda_held lock(backend);
        if (tag == KG_MEMORY_WEIGHTS) made.data = kg_weights_room_take(lock.cuda, size_bytes);
        const cudaError_t code = made.data                              ? cudaSuccess
                                 : size_bytes > lock.cuda->memory_bytes ? cudaErrorMemoryAllocation
                                                                        : cudaMalloc(&made.data, size_bytes);
        if (code == cudaErrorMemoryAllocation) return fail_no_memory(backend, size_bytes, what, err);
        if (code != cudaSuccess) return kg_cuda_fail(err, what, code);
        kg_memory_add(&backend->memory, &made);
    }
    *block = made;
    return KG_OK;
}

static void cuda_free(struct kg_backend *backend, struct kg_block *block) {
    if (block->size_bytes > 0) {
        const struct kg_cuda_held lock(backend);
        (void)wait_for_stream(lock.cuda);
        kg_staging_drop(lock.cuda, block->data, block->size_bytes);
        kg_mxfp4_drop_ranges(lock.cuda, block->data, block->size_bytes);
        kg_memory_remove(&backend->memory, block);
        if (!kg_weights_room_give(lock.cuda, block->data)) (void)cudaFree(block->data);
        (void)cudaGetLastError();
    }
    *block = (struct kg_block){};
}

static enum kg_status cuda_upload(struct kg_backend *backend, void *to, const void *host, uint64_t size_bytes,
                                  struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    kg_mxfp4_drop_ranges(lock.cuda, to, size_bytes);
    return kg_staging_upload(lock.cuda, to, host, size_bytes, err);
}

static enum kg_status cuda_download(struct kg_backend *backend, void *host, const void *from, uint64_t size_bytes,
                                    struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    const enum kg_status status = kg_staging_flush(lock.cuda, err);
    return status ? status : kg_staging_download(lock.cuda, host, from, size_bytes, err);
}

/* A load ends so: its threads do, too. */
static enum kg_status cuda_synchronize(struct kg_backend *backend, struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    const enum kg_status status = kg_staging_flush(lock.cuda, err);
    if (status) return status;
    kg_staging_rest(lock.cuda);
    TRY_CUDA(wait_for_stream(lock.cuda), "synchronize");
    return KG_OK;
}

static enum kg_status cuda_reserve_weights(struct kg_backend *backend, uint64_t size_bytes,
                                           const struct kg_file_map *file, struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    const enum kg_status status = kg_staging_flush(lock.cuda, err);
    kg_staging_read_from(lock.cuda, size_bytes > 0 ? file : NULL);
    if (size_bytes == 0) kg_weights_room_close(lock.cuda);
    if (status || size_bytes == 0) return status;
    /* what a session with these weights is going to ask for */
    kg_preload_begin(lock.cuda);
    kg_cuda_gemm_begin(lock.cuda, size_bytes);
    void *memory = NULL; /* whose blocks are recorded as they are taken */
    const cudaError_t code =
        size_bytes > lock.cuda->memory_bytes ? cudaErrorMemoryAllocation : cudaMalloc(&memory, size_bytes);
    if (code == cudaErrorMemoryAllocation) return fail_no_memory(backend, size_bytes, "the weights", err);
    if (code != cudaSuccess) return kg_cuda_fail(err, "the weights", code);
    if (kg_weights_room_open(lock.cuda, memory, size_bytes)) return KG_OK;
    (void)cudaFree(memory);
    return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for the weights' room");
}

static enum kg_status cuda_import_weights(struct kg_backend *backend, const void *host, uint64_t size_bytes,
                                          const char *what, struct kg_block *block, struct kg_error *err) {
    struct kg_block made;
    const struct kg_cuda_held lock(backend);
    enum kg_status status = cuda_alloc(backend, KG_MEMORY_WEIGHTS, size_bytes, what, &made, err);
    if (status) return status;
    kg_mxfp4_drop_ranges(lock.cuda, made.data, size_bytes);
    status = kg_staging_note(lock.cuda, made.data, host, size_bytes, err);
    if (status) cuda_free(backend, &made);
    else *block = made;
    return status;
}

/* Others are not read. */
static enum kg_status cuda_repack_weight(struct kg_backend *backend, struct kg_weight *weight, uint32_t n_matrices,
                                         struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    if (weight->dtype != KG_DTYPE_MXFP4 && weight->dtype != KG_DTYPE_BF16) return KG_OK;
    const enum kg_status status = kg_staging_flush(lock.cuda, err);
    if (status) return status;
    return weight->dtype == KG_DTYPE_BF16 ? kg_cuda_weight_as_float16(lock.cuda, weight, err)
                                          : kg_cuda_repack_weight(backend, weight, n_matrices, err);
}

/* Of experts, by either way that they are multiplied. */
static uint64_t experts_bytes_of(const struct kg_session_plan *plan) {
    const struct kg_model_config *c = plan->config;
    const uint32_t rows = plan->max_rows * c->n_experts_used;
    if (rows == 0) return 0;
    const uint64_t bytes = kg_mxfp4_gemm_workspace_bytes(rows, c->n_experts);
    if (plan->activations != KG_PRECISION_F16) return bytes;
    return std::max(bytes, kg_mxfp4_experts_workspace_bytes(rows, c->n_experts, c->n_embd, c->n_ff));
}

/* Operations run one after the other on the stream, so that they share one workspace. */
static enum kg_status cuda_session_plan(struct kg_backend *backend, const struct kg_session_plan *plan,
                                        uint64_t *workspace_bytes, struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    uint64_t linear_bytes = 0, attention_bytes = 0, sample_bytes = 0;
    enum kg_status status = kg_cuda_linear_plan(lock.cuda, plan, &linear_bytes, err);
    if (!status) status = kg_cuda_attention_plan(lock.cuda, plan, &attention_bytes, err);
    if (!status) status = kg_cuda_sample_plan(plan, &sample_bytes, err);
    if (!status) *workspace_bytes = std::max({ linear_bytes, attention_bytes, sample_bytes, experts_bytes_of(plan) });
    return status;
}

/* An entry of the table that holds the lock. */
template <auto entry> struct locked;
template <typename R, typename... Args, R (*entry)(struct kg_backend *, Args...)> struct locked<entry> {
    static R call(struct kg_backend *backend, Args... args) {
        const struct kg_cuda_held lock(backend);
        return entry(backend, args...);
    }
};

/* The same for one that reads weights, some of which may only be noted. The error comes last. */
template <auto entry> struct reading;
template <typename... Args, enum kg_status (*entry)(struct kg_backend *, Args...)> struct reading<entry> {
    static enum kg_status call(struct kg_backend *backend, Args... args) {
        const struct kg_cuda_held lock(backend);
        const enum kg_status status =
            kg_staging_flush(lock.cuda, std::get<sizeof...(Args) - 1>(std::make_tuple(args...)));
        return status ? status : entry(backend, args...);
    }
};

extern "C" const struct kg_backend_ops kg_cuda_ops = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .reserve_weights = cuda_reserve_weights,
    .import_weights = cuda_import_weights,
    .repack_weight = cuda_repack_weight,
    .free = cuda_free,
    .weights_in_place = false,
    .upload = cuda_upload,
    .download = cuda_download,
    .synchronize = cuda_synchronize,
    .session_plan = cuda_session_plan,
#define CUDA_ENTRY(op) .op = reading<kg_cuda_##op>::call,
    KG_OP_LIST(CUDA_ENTRY)
#undef CUDA_ENTRY
        .lower = locked<kg_cuda_lower>::call,
    .decode_step = reading<kg_cuda_decode_step>::call,
    .run_rows = reading<kg_cuda_run_rows>::call,
    .free_lowered = locked<kg_cuda_free_lowered>::call,
    .step_kind = kg_cuda_step_kind,
    .draws = &kg_cuda_draw_ops,
    .measure = &kg_cuda_measure_ops,
};
