#include "history/comparison_key.h"
#include "base/buffer.h"
#include "base/size.h"
#include <string.h>

static void take(json_t *key, const char *as, const json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    if (value && !json_is_null(value)) json_object_set(key, as, value);
}

static void take_all(json_t *key, const json_t *object, const char *const *names, size_t n_names) {
    for (size_t i = 0; i < n_names; i++) take(key, names[i], object, names[i]);
}

static void take_gpu(json_t *key, const json_t *gpus) {
    static const char *const SAME[] = { "cuda_runtime", "power_limit_w", "ecc", "max_sm_mhz", "max_memory_mhz" };
    const json_t *gpu = json_array_get(gpus, 0);
    take(key, "gpu", gpu, "name");
    /* The kernel driver's own version, where NVML tells it; else the CUDA version it supports. */
    take(key, "driver", gpu, json_is_string(json_object_get(gpu, "nvidia_driver")) ? "nvidia_driver" : "driver");
    take_all(key, gpu, SAME, KG_COUNT_OF(SAME));
    json_object_set_new(key, "n_gpus", json_integer((json_int_t)json_array_size(gpus)));
}

static void take_models(json_t *key, const json_t *models) {
    json_t *names = json_array();
    for (size_t i = 0; i < json_array_size(models); i++) {
        const char *path = json_string_value(json_array_get(models, i));
        const char *slash = path ? strrchr(path, '/') : NULL;
        if (path) json_array_append_new(names, json_string(slash ? slash + 1 : path));
    }
    json_object_set_new(key, "models", names);
}

char *kg_comparison_key(const json_t *env, const json_t *build) {
    static const char *const BUILD[] = { "compiler", "cflags", "cppflags", "sanitizers", "optimized", "cuda" };
    static const char *const RUN[] = { "layers", "filter", "cases", "words", "specs", "sample",
                                       "quick",  "report", "peer",  "ncu",   "jobs" };
    const json_t *gpus = json_object_get(env, "gpus"), *run = json_object_get(env, "run");
    json_t *key = json_object();
    if (json_array_size(gpus) > 0) take_gpu(key, gpus);
    take(key, "cpu", json_object_get(env, "cpu"), "model");
    take(key, "n_cpus", json_object_get(env, "cpu"), "n_usable");
    take(key, "governor", json_object_get(env, "cpu"), "governor");
    take_all(key, build, BUILD, KG_COUNT_OF(BUILD));
    take_all(key, run, RUN, KG_COUNT_OF(RUN));
    json_t *verb = json_array_get(json_object_get(run, "argv"), 0);
    if (verb) json_object_set(key, "verb", verb);
    take_models(key, json_object_get(run, "models"));
    char *text = json_dumps(key, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(key);
    return text ? text : kg_xstrdup("{}");
}

char *kg_comparison_difference(const char *a, const char *b) {
    json_t *x = json_loads(a, 0, NULL), *y = json_loads(b, 0, NULL), *all = json_object();
    struct kg_buffer out = KG_BUFFER_INIT;
    const char *name;
    json_t *value;
    json_object_update(all, x);
    json_object_update(all, y);
    json_object_foreach(all, name, value) if (!json_equal(json_object_get(x, name), json_object_get(y, name)))
        kg_buffer_printf(&out, "%s%s", out.len > 0 ? ", " : "", name);
    json_decref(all);
    json_decref(y);
    json_decref(x);
    return out.data ? out.data : kg_xstrdup("");
}

bool kg_comparison_same_machine(const char *a, const char *b) {
    static const char *const CHOICE[] = { "layers", "filter", "cases", "words", "specs", "sample", "models",
                                          "quick",  "report", "peer",  "ncu",   "verb",  "jobs" };
    json_t *x = json_loads(a, 0, NULL), *y = json_loads(b, 0, NULL);
    for (size_t i = 0; i < KG_COUNT_OF(CHOICE); i++) {
        json_object_del(x, CHOICE[i]);
        json_object_del(y, CHOICE[i]);
    }
    const bool same = x && y && json_equal(x, y);
    json_decref(y);
    json_decref(x);
    return same;
}
