#include "suites/unit/scripted.h"
#include "base/file.h"
#include "suites/support/host_draws.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_VOCAB = 270 };

/* What the replaced entries of the table share. */
static struct {
    int32_t ids[KG_SCRIPT_MAX];
    size_t n_ids;
    uint32_t n_filled; /* positions of the cache after the last write */
} script;

static enum kg_status watched_kv_write(struct kg_backend *backend, const struct kg_kv_write_args *args,
                                       struct kg_error *err) {
    script.n_filled = args->position + args->n_rows;
    return kg_cpu_ops.kv_write(backend, args, err);
}

/* Overwrites logits: the rows are the last positions of the cache. */
static enum kg_status scripted_linear(struct kg_backend *backend, const struct kg_linear_args *args,
                                      struct kg_error *err) {
    const enum kg_status status = kg_cpu_ops.linear(backend, args, err);
    if (status || args->weight.n_rows != N_VOCAB) return status;
    for (uint32_t r = 0; r < args->n_rows; r++) {
        const uint32_t position = script.n_filled - args->n_rows + r;
        const int32_t id = position < script.n_ids ? script.ids[position] : 'z';
        float *row = (float *)args->y + (size_t)r * N_VOCAB;
        if (id == KG_SCRIPT_NAN) row[3] = NAN;
        if (id >= 0) row[id] = 1000;
    }
    return KG_OK;
}

void kg_scripted_open(struct kg_record *rec, const int32_t *ids, size_t n_ids, uint32_t n_ctx, bool draws,
                      struct kg_scripted *s) {
    static struct kg_backend_ops ops;
    struct kg_tiny_model tiny = KG_TINY_QWEN2;
    struct kg_error err;
    tiny.n_vocab = N_VOCAB;
    ops = kg_cpu_ops;
    ops.kv_write = watched_kv_write;
    ops.linear = scripted_linear;
    ops.draws = draws ? &kg_host_draw_ops : NULL;
    ck_assert_uint_le(n_ids, KG_SCRIPT_MAX);
    if (n_ids) memcpy(script.ids, ids, n_ids * sizeof *ids);
    script.n_ids = n_ids;
    script.n_filled = 0;
    char *path = kg_path_join(kg_scratch_dir(rec), "scripted.gguf");
    kg_tiny_model_write(path, &tiny, NULL, 0);
    const struct kg_session_options options = { .n_ctx = n_ctx };
    *s = (struct kg_scripted){ 0 };
    enum kg_status status = kg_backend_open_ops(&ops, 1, &s->backend, &err);
    if (!status) status = kg_model_load(path, s->backend, NULL, &s->model, &err);
    if (!status) status = kg_session_create(s->model, &options, &s->session, &err);
    if (status) ck_abort_msg("%s", err.message);
    free(path);
}

void kg_scripted_close(struct kg_scripted *s) {
    kg_session_free(s->session);
    kg_model_free(s->model);
    kg_backend_close(s->backend);
}
