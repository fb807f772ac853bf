/* Mailboxes: pinned host memory that the device writes and the host polls, so that an id costs neither a copy nor a
 * synchronisation. A kernel writes the result, makes it visible to the host, then writes its sequence number. */
#include "kernels/cuda_backend.h"
#include <cstring>
#include <sched.h>

/* How long the host looks at the mailbox alone before it asks whether the stream is still well. */
enum { LOOKS_BETWEEN_QUERIES = 4096 };

static enum kg_status open_mailbox(struct kg_backend *backend, uint64_t size_bytes, void **mailbox,
                                   struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    void *memory;
    const cudaError_t code = cudaHostAlloc(&memory, size_bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    if (code != cudaSuccess) return kg_cuda_fail(err, "a mailbox", code);
    memset(memory, 0, size_bytes);
    *mailbox = memory;
    return KG_OK;
}

static void close_mailbox(struct kg_backend *backend, void *mailbox) {
    const struct kg_cuda_held lock(backend);
    if (!mailbox) return;
    (void)cudaStreamSynchronize(lock.cuda->stream); /* a draw that nobody took may still be about to write */
    (void)cudaFreeHost(mailbox);
    (void)cudaGetLastError();
}

static inline void pause_a_moment() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool has_arrived(const struct kg_sample_result *result, uint32_t sequence) {
    return __atomic_load_n(&result->sequence, __ATOMIC_ACQUIRE) == sequence;
}

/* KG_OK while the stream works, and once more when it has done all it had to: *idle. Not asked while another thread has
 * the lock: it may be capturing on the stream, which a query would break. */
static enum kg_status look_after_stream(struct kg_cuda_backend *cuda, bool *idle, struct kg_error *err) {
    *idle = false;
    if (pthread_mutex_trylock(&cuda->lock) != 0) return KG_OK;
    const cudaError_t code = cudaStreamQuery(cuda->stream);
    if (code != cudaSuccess) (void)cudaGetLastError();
    pthread_mutex_unlock(&cuda->lock);
    *idle = code == cudaSuccess;
    return code == cudaSuccess || code == cudaErrorNotReady ? KG_OK : kg_cuda_fail(err, "a draw", code);
}

/* Without the lock, so that other sessions enqueue meanwhile. */
static enum kg_status wait_for(struct kg_backend *backend, const struct kg_sample_result *result, uint32_t sequence,
                               struct kg_sample_result *copy, struct kg_error *err) {
    struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    for (uint32_t looks = 1; !has_arrived(result, sequence); looks++) {
        pause_a_moment();
        if (looks % LOOKS_BETWEEN_QUERIES != 0) continue;
        bool idle;
        const enum kg_status status = look_after_stream(cuda, &idle, err);
        if (status) return status;
        if (idle && !has_arrived(result, sequence))
            return kg_fail(err, KG_ERR_INTERNAL, "cuda: draw %u is not in its mailbox, though all work is done",
                           sequence);
        (void)sched_yield();
    }
    *copy = *result;
    return KG_OK;
}

extern "C" const struct kg_draw_ops kg_cuda_draw_ops = { open_mailbox, close_mailbox, kg_cuda_sample, wait_for };
