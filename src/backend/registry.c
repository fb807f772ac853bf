#include "backend/backend.h"
#include <string.h>

/* In the order `auto` tries them; the last always opens. */
static const struct kg_backend_ops *const BACKENDS[] = { &kg_cuda_ops, &kg_cpu_ops };
enum { N_BACKENDS = sizeof BACKENDS / sizeof *BACKENDS };

enum kg_status kg_backend_find_ops(const char *name, const struct kg_backend_ops **ops, struct kg_error *err) {
    for (int i = 0; i < N_BACKENDS; i++) {
        if (strcmp(name, BACKENDS[i]->name) != 0) continue;
        *ops = BACKENDS[i];
        return KG_OK;
    }
    return kg_fail(err, KG_ERR_USAGE, "there is no back end '%s'; cpu, cuda and auto are", name);
}

enum kg_status kg_backend_open_ops(const struct kg_backend_ops *ops, int n_threads, struct kg_backend **backend,
                                   struct kg_error *err) {
    return ops->open(ops, n_threads, backend, err);
}

static enum kg_status open_first(int n_threads, struct kg_backend **backend, struct kg_error *err) {
    enum kg_status status = KG_ERR_UNSUPPORTED;
    for (int i = 0; i < N_BACKENDS && status == KG_ERR_UNSUPPORTED; i++)
        status = kg_backend_open_ops(BACKENDS[i], n_threads, backend, err);
    return status;
}

enum kg_status kg_backend_open(const char *name, int n_threads, struct kg_backend **backend, struct kg_error *err) {
    if (strcmp(name, "auto") == 0) return open_first(n_threads, backend, err);
    const struct kg_backend_ops *ops;
    const enum kg_status status = kg_backend_find_ops(name, &ops, err);
    return status ? status : kg_backend_open_ops(ops, n_threads, backend, err);
}

void kg_backend_close(struct kg_backend *backend) {
    if (backend) backend->ops->close(backend);
}

const char *kg_backend_name(const struct kg_backend *backend) {
    return backend->ops->name;
}

void kg_backend_memory(const struct kg_backend *backend, struct kg_memory_use *use) {
    kg_memory_read((struct kg_memory *)&backend->memory, use); /* const to the caller: only the lock is touched */
}
