/* Timing of work on a back end, whatever it runs on, and the canaries a roofline is made of.
 *
 * A timing is n samples of a stated kind: `graph` (n_repeats dependent launches in one CUDA graph, its time divided by
 * them), `kernel` (device events around a launch), `host` (the monotonic clock around a launch and its end). Warm:
 * every iteration works on the same buffers. Cold: iteration t works on set t % n_sets, and the sets together are more
 * than twice the last-level cache, so that what an iteration reads is not in the cache any more. */
#ifndef KIGO_BACKEND_MEASURE_H
#define KIGO_BACKEND_MEASURE_H

#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

struct kg_backend;

#define KG_TIMING_KIND_LIST(X) X(HOST, "host") X(KERNEL, "kernel") X(GRAPH, "graph")
enum kg_timing_kind {
#define KG_TIMING_KIND_ENUM(name, text) KG_TIMING_##name,
    KG_TIMING_KIND_LIST(KG_TIMING_KIND_ENUM)
#undef KG_TIMING_KIND_ENUM
        KG_TIMING_KIND_COUNT
};

struct kg_timing_request {
    enum kg_timing_kind kind;
    /* Launches the work of an iteration on the back end, without waiting for its end and without allocating. */
    enum kg_status (*launch)(void *arg, size_t iteration, struct kg_error *err);
    void *arg;
    size_t n_warmup;  /* iterations (graph: whole graphs) before the first sample; at least 1 */
    size_t n_samples; /* at least 1 */
    size_t n_repeats; /* launches of a graph, iterations 0 .. n_repeats - 1 in each; ignored for the other kinds */
};

/* Kernels that are brought in beside a model's load (kg_backend_ops.reserve_weights). */
struct kg_kernels_ahead {
    size_t n, n_loaded;
};

struct kg_measure_ops {
    uint64_t (*cache_bytes)(struct kg_backend *backend); /* last-level cache */
    /* Writes n_samples durations of one iteration. KG_ERR_UNSUPPORTED for a kind the back end has not. Synchronous. */
    enum kg_status (*time)(struct kg_backend *backend, const struct kg_timing_request *request, uint64_t *samples_ns,
                           struct kg_error *err);
    /* Canaries, launched like operations; sizes are multiples of 16 bytes, pointers 16-byte aligned. copy: to = from.
     * read: *check (8 bytes of the back end's memory) = the sum of all 64-bit words modulo 2^64, so that the reading
     * cannot be left out. */
    enum kg_status (*copy)(struct kg_backend *backend, void *to, const void *from, uint64_t size_bytes,
                           struct kg_error *err);
    enum kg_status (*read)(struct kg_backend *backend, const void *from, uint64_t size_bytes, void *check,
                           struct kg_error *err);
    /* Optional, NULL if there are none. Waits for those that are being loaded. KG_ERR_UNSUPPORTED where the driver
     * cannot tell. */
    enum kg_status (*kernels_ahead)(struct kg_backend *backend, struct kg_kernels_ahead *kernels, struct kg_error *err);
};

/* KG_ERR_USAGE naming what is wrong with a request; every back end's `time` asks first. */
KG_WARN_UNUSED enum kg_status kg_timing_request_check(const struct kg_timing_request *request, struct kg_error *err);

/* "host", "kernel", "graph": as records say. */
const char *kg_timing_kind_name(enum kg_timing_kind kind);

/* Times by the host's clock on any back end: a sample is a launch and kg_backend_ops.synchronize. */
KG_WARN_UNUSED enum kg_status kg_timing_on_host(struct kg_backend *backend, const struct kg_timing_request *request,
                                                uint64_t *samples_ns, struct kg_error *err);

/* How many sets of set_bytes are needed to be cold: the least n with n * set_bytes > 2 * cache_bytes. 0 if that takes
 * more than KG_MAX_COLD_SETS: a set so small is only measured warm. */
enum { KG_MAX_COLD_SETS = 4096 };
size_t kg_cold_sets(uint64_t set_bytes, uint64_t cache_bytes);

#endif
