#include "cli/engine.h"
#include "base/clock.h"
#include "base/progress.h"

static enum kg_status read_precision(const char *dtype, struct kg_cli_engine *engine, struct kg_error *err) {
    const enum kg_status status = kg_precision_from_name(dtype, &engine->kv, err);
    if (status)
        return kg_fail(err, KG_ERR_USAGE, "--dtype: '%s' is no precision of a model: f32 and, on a GPU, f16 are",
                       dtype);
    if (kg_precision_is_quantized(engine->kv))
        return kg_fail(err, KG_ERR_USAGE, "--dtype: %s is of 'kigo op sdpa' alone; models run in f32 and f16", dtype);
    engine->activations = engine->kv;
    return KG_OK;
}

static void on_progress(void *user, uint64_t done_bytes, uint64_t total_bytes) {
    kg_progress_update(user, done_bytes, total_bytes);
}

enum kg_status kg_cli_engine_open(const struct kg_cli_engine_options *options, struct kg_cli_engine *engine,
                                  struct kg_error *err) {
    struct kg_cli_engine made = { 0 };
    const uint64_t start_ns = kg_clock_monotonic_ns();
    if (!options->model) return kg_fail(err, KG_ERR_USAGE, "--model is missing: which GGUF file?");
    enum kg_status status = read_precision(options->dtype, &made, err);
    if (!status) status = kg_backend_open(options->backend, (int)options->n_threads, &made.backend, err);
    if (status) return status;
    made.backend_ns = kg_clock_monotonic_ns() - start_ns;

    struct kg_progress progress;
    kg_progress_start(&progress, "loading");
    const struct kg_model_options model_options = { .on_progress = on_progress,
                                                    .user = &progress,
                                                    .yarn_ramp = options->yarn_ramp };
    status = kg_model_load(options->model, made.backend, &model_options, &made.model, err);
    kg_progress_finish(&progress);
    made.load_ns = kg_clock_monotonic_ns() - start_ns;
    if (status) kg_cli_engine_close(&made);
    else *engine = made;
    return status;
}

enum kg_status kg_cli_engine_begin(struct kg_cli_engine *engine, const struct kg_cli_engine_options *options,
                                   uint64_t n_needed, struct kg_error *err) {
    const uint32_t n_ctx_train = kg_model_config(engine->model)->n_ctx_train;
    struct kg_session_options session = { .activations = engine->activations, .kv = engine->kv };
    session.n_ctx = n_needed < n_ctx_train ? (uint32_t)n_needed : n_ctx_train;
    if (options->n_ctx > n_ctx_train)
        return kg_fail(err, KG_ERR_USAGE,
                       "--ctx: %lld is outside 1 to %u, the positions that the model was trained for",
                       (long long)options->n_ctx, n_ctx_train);
    if (options->n_ctx) session.n_ctx = (uint32_t)options->n_ctx;
    const uint64_t start_ns = kg_clock_monotonic_ns();
    const enum kg_status status = kg_session_create(engine->model, &session, &engine->session, err);
    engine->session_ns = kg_clock_monotonic_ns() - start_ns;
    return status;
}

void kg_cli_engine_close(struct kg_cli_engine *engine) {
    kg_session_free(engine->session);
    kg_model_free(engine->model);
    kg_backend_close(engine->backend);
    *engine = (struct kg_cli_engine){ 0 };
}
