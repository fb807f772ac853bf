#include "suites/bench/model_work.h"
#include "backend/gpu.h"
#include "suites/support/machine.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct kg_model_work kg_prefill_work(void) {
    const uint32_t n_prompt = kg_bench_quick() ? 64 : 512;
    return (struct kg_model_work){ .n_prompt = n_prompt, .n_tokens = 1, .n_ctx = n_prompt + 16 };
}

struct kg_model_work kg_decode_work(bool long_context) {
    const uint32_t n_tokens = kg_bench_quick() ? 32 : 256;
    if (long_context) return (struct kg_model_work){ .n_prompt = 8000, .n_tokens = 128, .n_ctx = 8192 };
    return (struct kg_model_work){ .n_prompt = 16, .n_tokens = n_tokens, .n_ctx = n_tokens + 16 };
}

struct kg_model_work kg_context_work(uint32_t n_ctx) {
    const uint32_t n_tokens = 128;
    return (struct kg_model_work){ .n_prompt = n_ctx - 2 * n_tokens, .n_tokens = n_tokens, .n_ctx = n_ctx };
}

struct kg_model_work kg_cold_start_work(void) {
    return (struct kg_model_work){ .n_prompt = 20, .n_tokens = 1, .n_ctx = 21 };
}

bool kg_model_work_is_timed(struct kg_record *rec, const char *backend, const char *path) {
    struct kg_gpu_info gpus[1];
    struct kg_error err = { 0 };
    struct stat file;
    size_t n = 0;
    if (strcmp(backend, "cuda") == 0) {
        const enum kg_status status = kg_gpu_list(gpus, 1, &n, &err);
        if (status == KG_OK && n > 0) return true;
        kg_record_skip(rec, "%s", status ? err.message : "no CUDA device");
        return false;
    }
    if (stat(path, &file) != 0 || file.st_size <= KG_BENCH_MOST_CPU_BYTES) return true;
    kg_record_skip(rec, "%lld bytes are too much for the reference back end", (long long)file.st_size);
    return false;
}

void kg_model_work_name(size_t index, const char *path, char name[KG_MODEL_WORK_TEXT]) {
    const char *const slash = path ? strrchr(path, '/') : NULL;
    if (path) snprintf(name, KG_MODEL_WORK_TEXT, "model=%zu %.64s", index, slash ? slash + 1 : path);
    else snprintf(name, KG_MODEL_WORK_TEXT, "fixture");
    for (char *c = name; *c; c++)
        if (*c < ' ' || *c > '~' || strchr("[]#", *c)) *c = '_';
}

void kg_model_work_shape(const char *name, const struct kg_model_work *w, char shape[KG_MODEL_WORK_TEXT]) {
    if (w->n_prompt == 0) snprintf(shape, KG_MODEL_WORK_TEXT, "%.100s", name);
    else
        snprintf(shape, KG_MODEL_WORK_TEXT, "%.100s prompt=%u tokens=%u ctx=%u", name, w->n_prompt, w->n_tokens,
                 w->n_ctx);
}
