/* Copies between host and device through pinned memory (contract in staging.h). */
#include "kernels/staging.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

extern "C" {
#include "base/threads.h"
}

/* 8 lanes of 2 buffers: 32 MB are pinned at most. A buffer is large beside the cost of enqueuing its copy, and small
 * enough to be in a cache when the device reads it. */
enum { MOST_LANES = 8, SLOTS = 2 };
static const uint64_t SLOT_BYTES = 2u << 20;
/* Below, waking threads would cost as much as they save. */
static const uint64_t LEAST_SHARED_BYTES = 1u << 20, LEAST_PIECE_BYTES = 256u << 10, PIECE_ALIGNMENT = 64u << 10;
/* How far a file that is not in the page cache is read ahead: more than a disk takes in while it answers. */
static const uint64_t AHEAD_BYTES = 32u << 20;
static const uintptr_t PAGE_BYTES = 4096;

struct slot {
    void *memory;       /* pinned, SLOT_BYTES; NULL: not made */
    cudaEvent_t copied; /* when the device has what it held last */
};

/* What one thread at a time fills. */
struct lane {
    struct slot slots[SLOTS];
    int next; /* filled next */
};

struct kg_staging {
    struct lane lanes[MOST_LANES]; /* the first is made at once; small copies take it */
    struct kg_thread_pool *pool;   /* NULL while it rests */
};

/* A large upload, of which lanes take one piece after the other. */
struct transfer {
    struct kg_cuda_backend *cuda;
    char *to;
    const char *host;
    uint64_t size_bytes, piece_bytes;
    uint64_t next;    /* offset of the piece that is taken next; atomic */
    cudaError_t code; /* of a lane that failed; atomic */
};

static cudaError_t make_lane(struct lane *lane) {
    cudaError_t code = cudaSuccess;
    for (struct slot &slot : lane->slots) {
        if (!slot.copied) code = cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming);
        if (!code && !slot.memory) code = cudaMallocHost(&slot.memory, SLOT_BYTES);
        if (code) break;
    }
    return code;
}

enum kg_status kg_staging_open(struct kg_cuda_backend *cuda, struct kg_error *err) {
    cuda->staging = static_cast<struct kg_staging *>(calloc(1, sizeof *cuda->staging));
    if (!cuda->staging) return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for copies");
    return kg_cuda_status(err, "pinned memory", make_lane(&cuda->staging->lanes[0]));
}

void kg_staging_rest(struct kg_cuda_backend *cuda) {
    kg_thread_pool_destroy(cuda->staging->pool);
    cuda->staging->pool = NULL;
}

void kg_staging_close(struct kg_cuda_backend *cuda) {
    if (!cuda->staging) return;
    kg_staging_rest(cuda);
    for (struct lane &lane : cuda->staging->lanes)
        for (struct slot &slot : lane.slots) {
            if (slot.copied) (void)cudaEventDestroy(slot.copied);
            if (slot.memory) (void)cudaFreeHost(slot.memory);
        }
    free(cuda->staging);
    cuda->staging = NULL;
}

/* The host waits here, and in wait_for_stream and kernels/mailbox.cu. */
static void count_wait(struct kg_cuda_backend *cuda) {
    (void)__atomic_fetch_add(&cuda->base.n_waits, 1, __ATOMIC_RELAXED);
}

/* At most SLOT_BYTES, through the lane's next buffer once it is free. */
static cudaError_t put(struct kg_cuda_backend *cuda, struct lane *lane, void *to, const void *host, uint64_t n_bytes) {
    const struct slot *slot = &lane->slots[lane->next];
    count_wait(cuda);
    cudaError_t code = cudaEventSynchronize(slot->copied);
    if (code) return code;
    memcpy(slot->memory, host, n_bytes);
    code = cudaMemcpyAsync(to, slot->memory, n_bytes, cudaMemcpyHostToDevice, cuda->stream);
    if (!code) code = cudaEventRecord(slot->copied, cuda->stream);
    lane->next = (lane->next + 1) % SLOTS;
    return code;
}

/* A page that is not in memory is read when it is touched, with few others, and the thread waits. This asks for the
 * pages AHEAD_BYTES on, and returns at once. It goes past the end: a file is loaded in its own order. Advice that the
 * system does not take changes nothing. */
static void read_ahead(const struct transfer *t, uint64_t at) {
    const uint64_t from = at == 0 ? 0 : at + AHEAD_BYTES, to = at + AHEAD_BYTES + t->piece_bytes;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(t->host) + from) & ~(PAGE_BYTES - 1);
    const uintptr_t end = reinterpret_cast<uintptr_t>(t->host) + to;
    (void)madvise(reinterpret_cast<void *>(begin), end - begin, MADV_WILLNEED);
}

/* Takes pieces until none is left or a lane has failed. A lane that gets no buffers leaves the work to the others. */
static void run_lane(struct transfer *t, struct lane *lane) {
    cudaError_t code = make_lane(lane);
    if (code && lane != t->cuda->staging->lanes) {
        (void)cudaGetLastError();
        return;
    }
    while (!code) {
        const uint64_t at = __atomic_fetch_add(&t->next, t->piece_bytes, __ATOMIC_RELAXED);
        if (at >= t->size_bytes) return;
        read_ahead(t, at);
        code = put(t->cuda, lane, t->to + at, t->host + at, std::min(t->piece_bytes, t->size_bytes - at));
    }
    __atomic_store_n(&t->code, code, __ATOMIC_RELAXED);
    __atomic_store_n(&t->next, t->size_bytes, __ATOMIC_RELAXED);
}

static void run_lanes(void *arg, size_t begin, size_t end) {
    struct transfer *t = static_cast<struct transfer *>(arg);
    for (size_t i = begin; i < end; i++) run_lane(t, &t->cuda->staging->lanes[i]);
}

/* Without the pool, because there is one processor or no more threads, one lane does all. */
static cudaError_t upload_shared(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes) {
    struct kg_staging *staging = cuda->staging;
    const uint64_t n_lanes = (uint64_t)std::min((int)MOST_LANES, kg_processors_allowed());
    const uint64_t share = size_bytes / (SLOTS * n_lanes) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
    if (!staging->pool && n_lanes > 1 && kg_thread_pool_create((int)n_lanes, &staging->pool, NULL) != KG_OK)
        staging->pool = NULL;
    struct transfer t = {};
    t.cuda = cuda;
    t.to = static_cast<char *>(to);
    t.host = static_cast<const char *>(host);
    t.size_bytes = size_bytes;
    t.piece_bytes = std::min(std::max(share, LEAST_PIECE_BYTES), SLOT_BYTES);
    kg_parallel_for(staging->pool, (size_t)n_lanes, 1, run_lanes, &t);
    return t.code;
}

enum kg_status kg_staging_upload(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes,
                                 struct kg_error *err) {
    cudaError_t code = cudaSuccess;
    if (size_bytes >= LEAST_SHARED_BYTES) code = upload_shared(cuda, to, host, size_bytes);
    else if (size_bytes > 0) code = put(cuda, &cuda->staging->lanes[0], to, host, size_bytes);
    return kg_cuda_status(err, "upload", code);
}

enum kg_status kg_staging_download(struct kg_cuda_backend *cuda, void *host, const void *from, uint64_t size_bytes,
                                   struct kg_error *err) {
    void *memory = cuda->staging->lanes[0].slots[0].memory;
    cudaError_t code = cudaSuccess;
    for (uint64_t done = 0, n; done < size_bytes && !code; done += n) {
        n = std::min(size_bytes - done, SLOT_BYTES);
        code = cudaMemcpyAsync(memory, static_cast<const char *>(from) + done, n, cudaMemcpyDeviceToHost, cuda->stream);
        count_wait(cuda);
        if (!code) code = cudaStreamSynchronize(cuda->stream);
        if (!code) memcpy(static_cast<char *>(host) + done, memory, n);
    }
    return kg_cuda_status(err, "download", code);
}
