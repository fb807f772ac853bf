#include "backend/measure.h"
#include "base/clock.h"
#include "backend/backend.h"

const char *kg_timing_kind_name(enum kg_timing_kind kind) {
    static const char *const NAMES[] = {
#define KIND_NAME(name, text) text,
        KG_TIMING_KIND_LIST(KIND_NAME)
#undef KIND_NAME
    };
    return NAMES[kind];
}

enum kg_status kg_timing_request_check(const struct kg_timing_request *r, struct kg_error *err) {
    if (!r->launch) return kg_fail(err, KG_ERR_USAGE, "a timing without work to time");
    if (r->kind >= KG_TIMING_KIND_COUNT) return kg_fail(err, KG_ERR_USAGE, "a timing of kind %d", (int)r->kind);
    if (r->n_warmup == 0 || r->n_samples == 0)
        return kg_fail(err, KG_ERR_USAGE, "a timing of %zu samples after %zu warm-up iterations: both are at least 1",
                       r->n_samples, r->n_warmup);
    if (r->kind == KG_TIMING_GRAPH && r->n_repeats == 0) return kg_fail(err, KG_ERR_USAGE, "a graph without launches");
    return KG_OK;
}

enum kg_status kg_timing_on_host(struct kg_backend *backend, const struct kg_timing_request *r, uint64_t *samples_ns,
                                 struct kg_error *err) {
    enum kg_status status = kg_timing_request_check(r, err);
    if (status == KG_OK && r->kind != KG_TIMING_HOST)
        status = kg_fail(err, KG_ERR_UNSUPPORTED, "the %s back end has no timing of kind %s", backend->ops->name,
                         kg_timing_kind_name(r->kind));
    if (status == KG_OK) status = backend->ops->synchronize(backend, err);
    for (size_t iteration = 0; iteration < r->n_warmup + r->n_samples && status == KG_OK; iteration++) {
        const uint64_t start_ns = kg_clock_monotonic_ns();
        status = r->launch(r->arg, iteration, err);
        if (status == KG_OK) status = backend->ops->synchronize(backend, err);
        if (iteration >= r->n_warmup) samples_ns[iteration - r->n_warmup] = kg_clock_monotonic_ns() - start_ns;
    }
    return status;
}

size_t kg_cold_sets(uint64_t set_bytes, uint64_t cache_bytes) {
    if (set_bytes == 0) return 0;
    const uint64_t n = 2 * cache_bytes / set_bytes + 1;
    return n <= KG_MAX_COLD_SETS ? (size_t)n : 0;
}
