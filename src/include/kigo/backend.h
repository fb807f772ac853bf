/* Back ends: where a model's operations run, and what they hold in memory there. */
#ifndef KIGO_BACKEND_H
#define KIGO_BACKEND_H

#include <kigo/status.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kg_backend;

/* What an allocation in a back end's memory is for. */
#define KG_MEMORY_TAG_LIST(X) X(WEIGHTS, "weights") X(KV, "kv") X(ACTIVATIONS, "activations") X(WORKSPACE, "workspace")
enum kg_memory_tag {
#define KG_MEMORY_TAG_ENUM(name, text) KG_MEMORY_##name,
    KG_MEMORY_TAG_LIST(KG_MEMORY_TAG_ENUM)
#undef KG_MEMORY_TAG_ENUM
        KG_MEMORY_TAG_COUNT
};
const char *kg_memory_tag_name(enum kg_memory_tag tag);

struct kg_memory_use {
    uint64_t current_bytes[KG_MEMORY_TAG_COUNT];
    uint64_t peak_bytes[KG_MEMORY_TAG_COUNT];
    uint64_t total_current_bytes, total_peak_bytes; /* the second: the largest sum of all tags at any time */
    uint64_t n_allocations;                         /* made since the back end was opened */
};

/* Opens a back end: "cpu", "cuda", or "auto" (the GPU if there is a usable one, else the CPU). n_threads: host threads,
 * 0 for all processors. KG_ERR_UNSUPPORTED, with the reason, if this build or machine has no such back end. */
KG_WARN_UNUSED enum kg_status kg_backend_open(const char *name, int n_threads, struct kg_backend **backend,
                                              struct kg_error *err);
void kg_backend_close(struct kg_backend *backend);
const char *kg_backend_name(const struct kg_backend *backend);
void kg_backend_memory(const struct kg_backend *backend, struct kg_memory_use *use);

#ifdef __cplusplus
}
#endif

#endif
