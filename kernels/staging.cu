/* Copies between host and device through pinned memory (contract in staging.h). */
#include "kernels/staging.h"
#include "kernels/pinned.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

extern "C" {
#include "base/file.h"
#include "base/threads.h"
}

/* 8 lanes of 2 buffers: 32 MB are pinned at most. A buffer is large beside the cost of enqueuing its copy, small enough
 * to be in a cache when the device reads it, and a page of the larger kind. */
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

/* What one thread at a time fills. */
struct lane {
    struct kg_pinned pinned;   /* SLOTS * SLOT_BYTES; empty: not made */
    cudaEvent_t copied[SLOTS]; /* when the device has what a slot held last */
    int next;                  /* the slot that is filled next */
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
    struct kg_file_map file;       /* read in place of its mapping; empty: none is */
    struct piece *noted;
    size_t n_noted, n_allocated;
    uint64_t noted_bytes;
};

/* Why a copy failed. Without initialisation it has not. */
struct failure {
    cudaError_t code;
    int file_error; /* errno of a read; FILE_ENDED */
};
enum { FILE_ENDED = -1 };

/* Pieces that lanes take one after the other. */
struct transfer {
    struct kg_cuda_backend *cuda;
    const struct piece *pieces;
    size_t n;
    size_t next;            /* the piece that is taken next; atomic */
    struct failure failure; /* of a lane; its members are atomic */
};

static cudaError_t make_lane(struct lane *lane) {
    cudaError_t code = lane->pinned.data ? cudaSuccess : kg_pin(SLOTS * SLOT_BYTES, &lane->pinned);
    for (cudaEvent_t &copied : lane->copied)
        if (!code && !copied) code = cudaEventCreateWithFlags(&copied, cudaEventDisableTiming);
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
    for (struct lane &lane : cuda->staging->lanes) {
        for (const cudaEvent_t copied : lane.copied)
            if (copied) (void)cudaEventDestroy(copied);
        kg_unpin(&lane.pinned);
    }
    free(cuda->staging->noted);
    free(cuda->staging);
    cuda->staging = NULL;
}

/* The host waits here, and in wait_for_stream and kernels/mailbox.cu. */
static void count_wait(struct kg_cuda_backend *cuda) {
    (void)__atomic_fetch_add(&cuda->base.n_waits, 1, __ATOMIC_RELAXED);
}

static bool is_failure(const struct failure &f) {
    return f.code || f.file_error;
}

static enum kg_status status_of(const struct failure &f, struct kg_error *err) {
    if (f.file_error)
        return kg_fail(err, KG_ERR_IO, "cuda: reading a file that is being loaded: %s",
                       f.file_error == FILE_ENDED ? "it has become shorter" : strerror(f.file_error));
    return kg_cuda_status(err, "upload", f.code);
}

/* From the file if the bytes lie in its mapping. 0, or what struct failure has. */
static int fill(const struct kg_file_map *file, char *to, const char *host, uint64_t n_bytes) {
    const char *mapped = reinterpret_cast<const char *>(file->data);
    if (!mapped || host < mapped || host + n_bytes > mapped + file->size_bytes) {
        memcpy(to, host, n_bytes);
        return 0;
    }
    for (uint64_t done = 0; done < n_bytes;) {
        const ssize_t n = pread(file->fd, to + done, n_bytes - done, host - mapped + (off_t)done);
        if (n == 0) return FILE_ENDED;
        if (n > 0) done += (uint64_t)n;
        else if (errno != EINTR) return errno;
    }
    return 0;
}

/* At most SLOT_BYTES, through the lane's next slot once it is free. */
static struct failure put(struct kg_cuda_backend *cuda, struct lane *lane, void *to, const void *host,
                          uint64_t n_bytes) {
    char *slot = lane->pinned.data + lane->next * SLOT_BYTES;
    const cudaEvent_t copied = lane->copied[lane->next];
    struct failure f = {};
    count_wait(cuda);
    f.code = cudaEventSynchronize(copied);
    if (!f.code) f.file_error = fill(&cuda->staging->file, slot, static_cast<const char *>(host), n_bytes);
    if (is_failure(f)) return f;
    f.code = cudaMemcpyAsync(to, slot, n_bytes, cudaMemcpyHostToDevice, cuda->stream);
    if (!f.code) f.code = cudaEventRecord(copied, cuda->stream);
    lane->next = (lane->next + 1) % SLOTS;
    return f;
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
    struct failure f = {};
    f.code = make_lane(lane);
    if (f.code && lane != t->cuda->staging->lanes) {
        (void)cudaGetLastError();
        return;
    }
    while (!is_failure(f)) {
        const size_t i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);
        if (i >= t->n) return;
        read_ahead(&t->pieces[i], i == 0);
        f = put(t->cuda, lane, t->pieces[i].to, t->pieces[i].host, t->pieces[i].size_bytes);
    }
    __atomic_store_n(&t->failure.code, f.code, __ATOMIC_RELAXED);
    __atomic_store_n(&t->failure.file_error, f.file_error, __ATOMIC_RELAXED);
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

/* Without the pool, because there is one processor or no more threads, one lane does all; of little, too. */
enum kg_status kg_staging_flush(struct kg_cuda_backend *cuda, struct kg_error *err) {
    struct kg_staging *staging = cuda->staging;
    if (staging->n_noted == 0) return KG_OK;
    const uint64_t n_lanes = std::min(most_lanes(), 1 + staging->noted_bytes / LEAST_SHARED_BYTES);
    if (!staging->pool && n_lanes > 1 && kg_thread_pool_create((int)most_lanes(), &staging->pool, NULL) != KG_OK)
        staging->pool = NULL;
    struct transfer t = {};
    t.cuda = cuda;
    t.pieces = staging->noted;
    t.n = staging->n_noted;
    kg_parallel_for(n_lanes > 1 ? staging->pool : NULL, (size_t)n_lanes, 1, run_lanes, &t);
    staging->n_noted = 0;
    staging->noted_bytes = 0;
    return status_of(t.failure, err);
}

void kg_staging_read_from(struct kg_cuda_backend *cuda, const struct kg_file_map *file) {
    cuda->staging->file = file ? *file : KG_NO_FILE_MAP;
}

/* One after the other, by the caller's lane. */
static enum kg_status put_all(struct kg_cuda_backend *cuda, void *to, const void *host, uint64_t size_bytes,
                              struct kg_error *err) {
    struct failure f = {};
    for (uint64_t at = 0; at < size_bytes && !is_failure(f); at += SLOT_BYTES)
        f = put(cuda, &cuda->staging->lanes[0], static_cast<char *>(to) + at, static_cast<const char *>(host) + at,
                std::min(SLOT_BYTES, size_bytes - at));
    return status_of(f, err);
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

void kg_staging_drop(struct kg_cuda_backend *cuda, const void *memory, uint64_t size_bytes) {
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
    void *memory = cuda->staging->lanes[0].pinned.data;
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
