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
/* What is noted is uploaded when it is so much: the threads' last pieces, for which the others wait, are then few of
 * all, and who looks at the progress of a load sees it move. */
static const uint64_t MOST_NOTED_BYTES = 512u << 20;
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

/* A copy of at most SLOT_BYTES. */
struct piece {
    char *to;
    const char *host;
    uint64_t size_bytes;
};

struct kg_staging {
    struct lane lanes[MOST_LANES]; /* the first is made at once; small copies take it */
    struct kg_thread_pool *pool;   /* NULL while it rests */
    struct piece *noted;
    size_t n_noted, n_allocated;
    uint64_t noted_bytes;
};

/* Pieces that lanes take one after the other. */
struct transfer {
    struct kg_cuda_backend *cuda;
    const struct piece *pieces;
    size_t n;
    size_t next;      /* the piece that is taken next; atomic */
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
    free(cuda->staging->noted);
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
static void read_ahead(const struct piece *piece, bool is_first) {
    const uintptr_t host = reinterpret_cast<uintptr_t>(piece->host);
    const uintptr_t begin = (host + (is_first ? 0 : AHEAD_BYTES)) & ~(PAGE_BYTES - 1);
    const uintptr_t end = host + AHEAD_BYTES + piece->size_bytes;
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
        const size_t i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);
        if (i >= t->n) return;
        read_ahead(&t->pieces[i], i == 0);
        code = put(t->cuda, lane, t->pieces[i].to, t->pieces[i].host, t->pieces[i].size_bytes);
    }
    __atomic_store_n(&t->code, code, __ATOMIC_RELAXED);
    __atomic_store_n(&t->next, t->n, __ATOMIC_RELAXED);
}

static void run_lanes(void *arg, size_t begin, size_t end) {
    struct transfer *t = static_cast<struct transfer *>(arg);
    for (size_t i = begin; i < end; i++) run_lane(t, &t->cuda->staging->lanes[i]);
}

static uint64_t most_lanes() {
    return (uint64_t)std::min((int)MOST_LANES, kg_processors_allowed());
}

/* Appends the copy, cut. False, with nothing appended, if there is no host memory. */
static bool append(struct kg_staging *staging, void *to, const void *host, uint64_t size_bytes, uint64_t piece_bytes) {
    const size_t n = staging->n_noted + (size_t)((size_bytes + piece_bytes - 1) / piece_bytes);
    if (n > staging->n_allocated) {
        const size_t n_allocated = std::max(n, 2 * staging->n_allocated);
        void *grown = realloc(staging->noted, n_allocated * sizeof *staging->noted);
        if (!grown) return false;
        staging->noted = static_cast<struct piece *>(grown);
        staging->n_allocated = n_allocated;
    }
    for (uint64_t at = 0; at < size_bytes; at += piece_bytes)
        staging->noted[staging->n_noted++] = { static_cast<char *>(to) + at, static_cast<const char *>(host) + at,
                                               std::min(piece_bytes, size_bytes - at) };
    staging->noted_bytes += size_bytes;
    return true;
}

/* Without the pool, because there is one processor or no more threads, one lane does all. */
enum kg_status kg_staging_flush(struct kg_cuda_backend *cuda, struct kg_error *err) {
    struct kg_staging *staging = cuda->staging;
    const uint64_t n_lanes = most_lanes();
    if (staging->n_noted == 0) return KG_OK;
    if (!staging->pool && n_lanes > 1 && kg_thread_pool_create((int)n_lanes, &staging->pool, NULL) != KG_OK)
        staging->pool = NULL;
    struct transfer t = {};
    t.cuda = cuda;
    t.pieces = staging->noted;
    t.n = staging->n_noted;
    kg_parallel_for(staging->pool, (size_t)n_lanes, 1, run_lanes, &t);
    staging->n_noted = 0;
    staging->noted_bytes = 0;
    return kg_cuda_status(err, "upload", t.code);
}

/* One after the other, by the caller's lane. */
static enum kg_status put_all(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes,
                              struct kg_error *err) {
    cudaError_t code = cudaSuccess;
    for (uint64_t at = 0; at < size_bytes && !code; at += SLOT_BYTES)
        code = put(cuda, &cuda->staging->lanes[0], static_cast<char *>(to) + at, static_cast<const char *>(host) + at,
                   std::min(SLOT_BYTES, size_bytes - at));
    return kg_cuda_status(err, "upload", code);
}

enum kg_status kg_staging_note(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes,
                               struct kg_error *err) {
    if (!append(cuda->staging, to, host, size_bytes, SLOT_BYTES)) return put_all(cuda, to, host, size_bytes, err);
    return cuda->staging->noted_bytes < MOST_NOTED_BYTES ? KG_OK : kg_staging_flush(cuda, err);
}

static bool overlaps(const struct piece *piece, const void *memory, uint64_t size_bytes) {
    const char *begin = static_cast<const char *>(memory);
    return piece->to < begin + size_bytes && begin < piece->to + piece->size_bytes;
}

void kg_staging_forget(struct kg_cuda_backend *cuda, const void *memory, uint64_t size_bytes) {
    struct kg_staging *staging = cuda->staging;
    size_t kept = 0;
    for (size_t i = 0; i < staging->n_noted; i++) {
        const struct piece piece = staging->noted[i];
        if (overlaps(&piece, memory, size_bytes)) staging->noted_bytes -= piece.size_bytes;
        else staging->noted[kept++] = piece;
    }
    staging->n_noted = kept;
}

/* Alone, a large copy's pieces are small enough for every buffer to have some. */
static enum kg_status upload_shared(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes,
                                    struct kg_error *err) {
    const uint64_t share = size_bytes / (SLOTS * most_lanes()) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
    const uint64_t piece_bytes = std::min(std::max(share, LEAST_PIECE_BYTES), SLOT_BYTES);
    if (!append(cuda->staging, to, host, size_bytes, piece_bytes)) return put_all(cuda, to, host, size_bytes, err);
    return kg_staging_flush(cuda, err);
}

/* What is noted for the same memory comes first. */
enum kg_status kg_staging_upload(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes,
                                 struct kg_error *err) {
    const struct kg_staging *staging = cuda->staging;
    for (size_t i = 0; i < staging->n_noted; i++) {
        if (!overlaps(&staging->noted[i], to, size_bytes)) continue;
        const enum kg_status status = kg_staging_flush(cuda, err);
        if (status) return status;
    }
    if (size_bytes >= LEAST_SHARED_BYTES) return upload_shared(cuda, to, host, size_bytes, err);
    return put_all(cuda, to, host, size_bytes, err);
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
