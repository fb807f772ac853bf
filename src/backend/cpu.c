/* The cpu back end: host memory, weights where the file is mapped, the reference operations over a pool of threads. */
#include "base/buffer.h"
#include "base/threads.h"
#include "backend/backend.h"
#include "backend/measure.h"
#include "ops/canary.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT_BYTES = 256 };

struct cpu_backend {
    struct kg_backend base; /* first: a struct kg_backend * is one of these */
    struct kg_thread_pool *pool;
    pthread_mutex_t pool_lock; /* a pool runs one loop at a time; sessions may be on several threads */
};

static struct cpu_backend *cpu_of(struct kg_backend *backend) {
    return (struct cpu_backend *)backend;
}

static enum kg_status cpu_open(const struct kg_backend_ops *ops, int n_threads, struct kg_backend **backend,
                               struct kg_error *err) {
    struct kg_thread_pool *pool;
    const enum kg_status status = kg_thread_pool_create(n_threads, &pool, err);
    if (status) return status;
    struct cpu_backend *cpu = kg_xcalloc(1, sizeof *cpu);
    cpu->base.ops = ops;
    cpu->pool = pool;
    kg_memory_init(&cpu->base.memory);
    pthread_mutex_init(&cpu->pool_lock, NULL);
    *backend = &cpu->base;
    return KG_OK;
}

static void cpu_close(struct kg_backend *backend) {
    struct cpu_backend *cpu = cpu_of(backend);
    kg_thread_pool_destroy(cpu->pool);
    kg_memory_destroy(&cpu->base.memory);
    pthread_mutex_destroy(&cpu->pool_lock);
    free(cpu);
}

/* Memory the system could give without swapping; false if it does not say. */
static bool bytes_available(uint64_t *bytes) {
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return false;
    char line[128];
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        uint64_t kib;
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) != 1) continue;
        *bytes = kib * 1024;
        found = true;
    }
    fclose(f);
    return found;
}

/* malloc promises memory that is not there; a session must be refused when it is made, not killed when it runs. */
static bool fits_in_memory(uint64_t size_bytes, uint64_t *free_bytes) {
    enum { SMALL_BYTES = 64 << 20 };
    *free_bytes = UINT64_MAX;
    return size_bytes <= SMALL_BYTES || !bytes_available(free_bytes) || size_bytes <= *free_bytes;
}

static enum kg_status cpu_alloc(struct kg_backend *backend, enum kg_memory_tag tag, uint64_t size_bytes,
                                const char *what, struct kg_block *block, struct kg_error *err) {
    struct kg_block made = { .tag = tag, .size_bytes = size_bytes };
    if (size_bytes > 0) {
        uint64_t free_bytes = 0;
        if (!fits_in_memory(size_bytes, &free_bytes) || size_bytes > SIZE_MAX - ALIGNMENT_BYTES ||
            posix_memalign(&made.data, ALIGNMENT_BYTES, size_bytes) != 0) {
            if (free_bytes == UINT64_MAX && !bytes_available(&free_bytes)) free_bytes = 0;
            return kg_fail(err, KG_ERR_NO_MEMORY, "%s: %" PRIu64 " bytes needed for %s, %" PRIu64 " bytes free",
                           backend->ops->name, size_bytes, what, free_bytes);
        }
        kg_memory_add(&backend->memory, &made);
    }
    *block = made;
    return KG_OK;
}

static enum kg_status cpu_import_weights(struct kg_backend *backend, const void *host, uint64_t size_bytes,
                                         const char *what, struct kg_block *block, struct kg_error *err) {
    (void)what, (void)err;
    const struct kg_block made = {
        .data = (void *)host, .size_bytes = size_bytes, .tag = KG_MEMORY_WEIGHTS, .borrowed = true
    };
    if (size_bytes > 0) kg_memory_add(&backend->memory, &made);
    *block = made;
    return KG_OK;
}

static void cpu_free(struct kg_backend *backend, struct kg_block *block) {
    if (block->size_bytes > 0) {
        kg_memory_remove(&backend->memory, block);
        if (!block->borrowed) free(block->data);
    }
    *block = (struct kg_block){ 0 };
}

static enum kg_status cpu_copy(struct kg_backend *backend, void *to, const void *from, uint64_t size_bytes,
                               struct kg_error *err) {
    (void)backend, (void)err;
    if (size_bytes > 0) memcpy(to, from, size_bytes);
    return KG_OK;
}

static enum kg_status cpu_synchronize(struct kg_backend *backend, struct kg_error *err) {
    (void)backend, (void)err;
    return KG_OK;
}

static enum kg_status cpu_session_plan(struct kg_backend *backend, const struct kg_session_plan *plan,
                                       uint64_t *workspace_bytes, struct kg_error *err) {
    const struct {
        const char *what;
        enum kg_precision precision;
    } asked[] = { { "activations", plan->activations }, { "KV cache", plan->kv } };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (asked[i].precision != KG_PRECISION_F32)
            return kg_fail(err, KG_ERR_UNSUPPORTED, "the %s back end has no %s %s, only f32", backend->ops->name,
                           kg_precision_name(asked[i].precision), asked[i].what);
    *workspace_bytes = 0;
    return KG_OK;
}

#define CPU_OP(op)                                                                                                     \
    static enum kg_status cpu_##op(struct kg_backend *backend, const struct kg_##op##_args *args,                      \
                                   struct kg_error *err) {                                                             \
        struct cpu_backend *cpu = cpu_of(backend);                                                                     \
        pthread_mutex_lock(&cpu->pool_lock);                                                                           \
        const enum kg_status status = kg_cpu_##op(cpu->pool, args, err);                                               \
        pthread_mutex_unlock(&cpu->pool_lock);                                                                         \
        return status;                                                                                                 \
    }
KG_OP_LIST(CPU_OP)
#undef CPU_OP

/* Of all processors together a part of it is enough to work in; where the system does not say, a common size. */
static uint64_t cpu_cache_bytes(struct kg_backend *backend) {
    (void)backend;
    enum { COMMON_BYTES = 64 << 20 };
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (uint64_t)bytes : COMMON_BYTES;
}

static enum kg_status cpu_canary_copy(struct kg_backend *backend, void *to, const void *from, uint64_t size_bytes,
                                      struct kg_error *err) {
    struct cpu_backend *cpu = cpu_of(backend);
    (void)err;
    pthread_mutex_lock(&cpu->pool_lock);
    kg_cpu_canary_copy(cpu->pool, to, from, size_bytes);
    pthread_mutex_unlock(&cpu->pool_lock);
    return KG_OK;
}

static enum kg_status cpu_canary_read(struct kg_backend *backend, const void *from, uint64_t size_bytes, void *check,
                                      struct kg_error *err) {
    struct cpu_backend *cpu = cpu_of(backend);
    (void)err;
    pthread_mutex_lock(&cpu->pool_lock);
    const uint64_t sum = kg_cpu_canary_read(cpu->pool, from, size_bytes);
    pthread_mutex_unlock(&cpu->pool_lock);
    memcpy(check, &sum, sizeof sum);
    return KG_OK;
}

static const struct kg_measure_ops CPU_MEASURE = {
    .cache_bytes = cpu_cache_bytes,
    .time = kg_timing_on_host,
    .copy = cpu_canary_copy,
    .read = cpu_canary_read,
};

const struct kg_backend_ops kg_cpu_ops = { .name = "cpu",
                                           .open = cpu_open,
                                           .close = cpu_close,
                                           .alloc = cpu_alloc,
                                           .import_weights = cpu_import_weights,
                                           .free = cpu_free,
                                           .weights_in_place = true,
                                           .upload = cpu_copy,
                                           .download = cpu_copy,
                                           .synchronize = cpu_synchronize,
                                           .session_plan = cpu_session_plan,
                                           .measure = &CPU_MEASURE,
#define CPU_ENTRY(op) .op = cpu_##op,
                                           KG_OP_LIST(CPU_ENTRY)
#undef CPU_ENTRY
};
