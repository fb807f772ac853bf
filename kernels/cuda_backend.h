/* What the files of the CUDA back end share: the struct behind a struct kg_backend, statuses, the operations' names.
 *
 * One stream, one lock. Every entry of the table takes the lock, so sessions on several threads enqueue one after
 * another and the stream orders their work; each has its own buffers, so a session gives the same ids as alone.
 * Operations run with the lock held: they enqueue on the stream and neither allocate, nor wait, nor keep anything.
 *
 * A decoded token is one persistent launch (persistent/step.h), or a CUDA graph captured from the same launchers and
 * replayed at other positions. While such launches are enqueued, `step` is not NULL: a kernel that depends on the
 * position takes the pointer and reads the position from device memory when it runs, in place of args->position
 * (embedding, rope, kv_write) or args->n_keys - 1 (attention); and a grid that depends on the number of keys is made
 * for n_ctx. n_rows is 1 then. Ids are in device memory always. */
#ifndef KIGO_KERNELS_CUDA_BACKEND_H
#define KIGO_KERNELS_CUDA_BACKEND_H

#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <pthread.h>

extern "C" {
#include "backend/backend.h"
#include "backend/measure.h"
#include "engine/kv_cache.h"
#include "engine/session.h"
#include "model/weights.h"
#include "ops/check.h"
}

/* What changes from one decoded token to the next, in device memory. */
struct kg_cuda_step {
    uint32_t position;
    uint32_t n_blocks_done; /* of a draw's kernel; 0 whenever none runs */
};

struct kg_gemm;
struct kg_gemm_opening;
struct kg_mxfp4_range;
struct kg_preloading;
struct kg_staging;
struct kg_weights_room;
/* Of products of many rows (mxfp4/gemm.cu, gemm/blocks.cu). */
enum { KG_MXFP4_KERNELS = 10, KG_BLOCK_KERNELS = 24, KG_MAX_SPLIT = 8 };

struct kg_cuda_backend {
    struct kg_backend base; /* first: a struct kg_backend * is one of these */
    pthread_mutex_t lock;   /* recursive: a table's replacement entry may call the original */
    cudaStream_t stream;
    struct kg_gemm *gemm;                  /* NULL until a session needs it (gemm.h) */
    struct kg_gemm_opening *gemm_opening;  /* NULL unless a thread is about to open it */
    struct kg_preloading *preloading;      /* NULL unless a thread loads kernels (preload.h) */
    struct kg_staging *staging;            /* pinned, for copies (staging.h) */
    struct kg_weights_room *weights_rooms; /* allocations that weights lie in, the newest first (weights_room.h) */
    int device;
    int n_sms;
    int compute_capability; /* 90 for 9.0 */
    uint32_t shared_bytes;  /* of a block, at most */
    uint64_t memory_bytes;  /* of the device, free or not */
    /* Device memory, beside the tagged: a few bytes that all sessions share, then a step whose position stays 0. */
    struct kg_cuda_step *step_memory;
    const struct kg_cuda_step *step; /* not NULL while a step's launches are enqueued */
    uint32_t step_keys;              /* that its attention has at most, meanwhile; beside the context and the window */
    struct kg_mxfp4_range *repacked; /* memory that holds repacked weights (mxfp4/mxfp4.h) */
    size_t n_repacked;
    /* By kernel and split of the columns: clusters that the device runs at the same time; 0 until asked for. A cache:
     * operations, which have a const back end, fill it under the lock. */
    mutable uint32_t mxfp4_clusters[KG_MXFP4_KERNELS][KG_MAX_SPLIT + 1];
    mutable uint32_t block_clusters[KG_BLOCK_KERNELS][KG_MAX_SPLIT + 1];
};

static inline struct kg_cuda_backend *kg_cuda_of(struct kg_backend *backend) {
    return (struct kg_cuda_backend *)backend;
}

/* Holds the back end's lock as long as it lives. */
struct kg_cuda_held {
    struct kg_cuda_backend *cuda;
    explicit kg_cuda_held(struct kg_backend *backend) : cuda(kg_cuda_of(backend)) {
        pthread_mutex_lock(&cuda->lock);
    }
    ~kg_cuda_held() {
        pthread_mutex_unlock(&cuda->lock);
    }
    kg_cuda_held(const kg_cuda_held &) = delete;
    kg_cuda_held &operator=(const kg_cuda_held &) = delete;
};

/* The error of a CUDA call that failed: "cuda: rope: invalid argument"; KG_ERR_NO_MEMORY for
 * cudaErrorMemoryAllocation, else KG_ERR_INTERNAL. Takes the error off the runtime, so that the next call is judged by
 * itself. */
enum kg_status kg_cuda_fail(struct kg_error *err, const char *what, cudaError_t code);

static inline enum kg_status kg_cuda_status(struct kg_error *err, const char *what, cudaError_t code) {
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, what, code);
}

/* After a launch: KG_OK, or the error of the launch. */
static inline enum kg_status kg_cuda_launched(struct kg_error *err, const char *what) {
    return kg_cuda_status(err, what, cudaGetLastError());
}

/* Operations, contracts in ops/<op>.h: enqueued on the back end's stream. */
#define KG_CUDA_OP_DECLARATION(op)                                                                                     \
    extern "C" enum kg_status kg_cuda_##op(struct kg_backend *backend, const struct kg_##op##_args *args,              \
                                           struct kg_error *err);
KG_OP_LIST(KG_CUDA_OP_DECLARATION)
#undef KG_CUDA_OP_DECLARATION

/* The draw, with the lock for as long as it is enqueued; what else kg_backend_ops.draws has is in mailbox.cu. */
enum kg_status kg_cuda_sample(struct kg_backend *backend, const struct kg_sample_args *args, struct kg_error *err);
extern "C" const struct kg_draw_ops kg_cuda_draw_ops;

/* kg_backend_ops.measure (timing.cu), and its canaries (ops/canary.cu). */
extern "C" const struct kg_measure_ops kg_cuda_measure_ops;
enum kg_status kg_cuda_canary_copy(struct kg_backend *backend, void *to, const void *from, uint64_t size_bytes,
                                   struct kg_error *err);
enum kg_status kg_cuda_canary_read(struct kg_backend *backend, const void *from, uint64_t size_bytes, void *check,
                                   struct kg_error *err);

/* Bytes of args->workspace that an operation needs at most in such a session, and KG_ERR_UNSUPPORTED naming what it
 * cannot do: attention decides about head sizes and the cache's precision, linear makes sure of the library that many
 * rows need. Both use the workspace from its start. */
enum kg_status kg_cuda_linear_plan(struct kg_cuda_backend *cuda, const struct kg_session_plan *plan,
                                   uint64_t *workspace_bytes, struct kg_error *err);
enum kg_status kg_cuda_attention_plan(const struct kg_cuda_backend *cuda, const struct kg_session_plan *plan,
                                      uint64_t *workspace_bytes, struct kg_error *err);
enum kg_status kg_cuda_sample_plan(const struct kg_session_plan *plan, uint64_t *workspace_bytes, struct kg_error *err);

#endif
