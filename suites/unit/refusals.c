#include "suites/unit/refusals.h"
#include "base/file.h"
#include "base/size.h"
#include "backend/backend.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

struct kg_tiny_model kg_tiny_of(const char *architecture) {
    static const struct kg_tiny_model ALL[] = { KG_TINY_QWEN2, KG_TINY_LLAMA, KG_TINY_PHI3,  KG_TINY_GPT_OSS,
                                                KG_TINY_GPT2,  KG_TINY_QWEN3, KG_TINY_GEMMA3 };
    for (size_t i = 0; i < KG_COUNT_OF(ALL); i++)
        if (architecture && strcmp(architecture, ALL[i].architecture) == 0) return ALL[i];
    return ALL[0];
}

static size_t count_edits(const struct kg_tiny_edit *edits) {
    size_t n = 0;
    while (n < KG_MAX_EDITS && edits[n].name) n++;
    return n;
}

char *kg_scratch_model(struct kg_record *rec) {
    return kg_path_join(kg_scratch_dir(rec), "model.gguf");
}

struct kg_backend *kg_cpu_of_one_thread(void) {
    struct kg_backend *backend;
    struct kg_error err;
    if (kg_backend_open("cpu", 1, &backend, &err)) ck_abort_msg("%s", err.message);
    return backend;
}

uint64_t kg_bytes_in_use(const struct kg_backend *backend) {
    struct kg_memory_use use;
    kg_backend_memory(backend, &use);
    return use.total_current_bytes;
}

void kg_refusal_run(struct kg_record *rec, const void *arg) {
    const struct kg_refusal *r = arg;
    const struct kg_tiny_model model = kg_tiny_of(r->architecture);
    char *path = kg_scratch_model(rec);
    kg_tiny_model_write(path, &model, r->edits, count_edits(r->edits));
    struct kg_backend *backend = kg_cpu_of_one_thread();
    struct kg_model *loaded = NULL;
    struct kg_error err = { 0 };
    const enum kg_status status = kg_model_load(path, backend, NULL, &loaded, &err);
    ck_assert_msg(status == r->status, "%s, not %s: %s", kg_status_name(status), kg_status_name(r->status),
                  err.message);
    ck_assert_msg(strstr(err.message, r->says) != NULL, "'%s' does not say '%s'", err.message, r->says);
    ck_assert_msg(strstr(err.message, path) != NULL, "'%s' does not name the file", err.message);
    ck_assert_ptr_null(loaded);
    ck_assert_uint_eq(kg_bytes_in_use(backend), 0);
    kg_backend_close(backend);
    free(path);
}

struct kg_model *kg_tiny_load(const char *path, const struct kg_tiny_model *model, const struct kg_tiny_edit *edits,
                              size_t n_edits, struct kg_backend *backend) {
    struct kg_model *loaded;
    struct kg_error err;
    kg_tiny_model_write(path, model, edits, n_edits);
    if (kg_model_load(path, backend, NULL, &loaded, &err)) ck_abort_msg("%s", err.message);
    return loaded;
}
