/* Every operation of every back end against float64 by PyTorch: one case per file of fixtures/ops and back end. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/support/op_cases.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Back ends and precisions. A cache of another precision than the activations matters to attention only. */
static const struct op_mode {
    const char *backend, *dtype;
    enum kg_precision activations, kv;
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32, KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32, KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16, KG_PRECISION_F16 },
    { "cuda", "f32_kv_f16", KG_PRECISION_F32, KG_PRECISION_F16 },
    { "cuda", "f16_kv_f32", KG_PRECISION_F16, KG_PRECISION_F32 },
};

/* Holds inputs beyond float16's largest. */
static const char BEYOND_F16[] = "rmsnorm.large_values.safetensors";

/* The files are named <op>.<edge>.safetensors; at least n_least of each, so that a lost folder is seen. */
static const struct {
    const char *op;
    void (*run)(struct kg_op_case *c);
    size_t n_least;
    const char *spec; /* NULL where no requirement names the operation by itself */
} OPS[] = {
    { "embedding", kg_op_case_embedding, 14, NULL },
    { "rmsnorm", kg_op_case_rmsnorm, 13, NULL },
    { "layernorm", kg_op_case_layernorm, 15, NULL },
    { "linear", kg_op_case_linear, 33, "FT-051" },
    { "rope", kg_op_case_rope, 28, NULL },
    { "attention", kg_op_case_attention, 30, "FT-052" },
    { "softmax", kg_op_case_softmax, 15, NULL },
    { "swiglu", kg_op_case_swiglu, 11, NULL },
    { "gelu", kg_op_case_gelu, 12, NULL },
    { "add", kg_op_case_add, 1, NULL },
    { "router", kg_op_case_router, 7, NULL },
    { "experts_linear", kg_op_case_experts_linear, 10, NULL },
    { "experts_combine", kg_op_case_experts_combine, 8, NULL },
};

/* What the cases point at, for the life of the program. */
static struct op_file {
    size_t op; /* row of OPS */
    const struct op_mode *mode;
    char *path;
} files[1024];
static size_t n_files;

static void run_file(struct kg_record *rec, const void *arg) {
    const struct op_file *file = arg;
    struct kg_op_case c = { .rec = rec, .activations = file->mode->activations, .kv = file->mode->kv };
    if (!kg_op_device_open(rec, file->mode->backend, NULL, &c.device)) return;
    c.golden = kg_golden_open(file->path);
    OPS[file->op].run(&c);
    kg_golden_close(c.golden);
    kg_op_device_close(&c.device);
}

static bool find_op(const char *name, size_t *op, const char **edge) {
    for (size_t i = 0; i < KG_COUNT_OF(OPS); i++) {
        const size_t len = strlen(OPS[i].op);
        if (strncmp(name, OPS[i].op, len) != 0 || name[len] != '.') continue;
        *op = i;
        *edge = name + len + 1;
        return true;
    }
    return false;
}

/* Whether a golden of the operation says something in that mode. A router is float32 in all of them. */
static bool has_mode(const char *file_name, const char *op, const struct op_mode *mode) {
    if (mode->activations == KG_PRECISION_F16 && strcmp(op, "router") == 0) return false;
    if (mode->activations == KG_PRECISION_F16 && strcmp(file_name, BEYOND_F16) == 0) return false;
    return mode->activations == mode->kv || strcmp(op, "attention") == 0;
}

/* A golden beside the archive is none of the cases. */
static void expect_packed(void) {
    struct kg_dir_list list;
    struct kg_error err;
    kg_op_expect_ok(kg_dir_list(kg_fixture_path("ops"), &list, &err), &err);
    for (size_t i = 0; i < list.n_names; i++)
        if (strstr(list.names[i], ".safetensors"))
            ck_abort_msg("fixtures/ops/%s is not in goldens.tar.xz: fixtures/pack puts it there", list.names[i]);
    kg_dir_list_free(&list);
}

static void every_operation_has_goldens(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_dir_list list;
    struct kg_error err;
    expect_packed();
    kg_op_expect_ok(kg_dir_list(kg_unpacked_fixture_path("ops"), &list, &err), &err);
    size_t n_of[KG_COUNT_OF(OPS)] = { 0 }, n_all = 0, n_cases = 0;
    for (size_t i = 0; i < list.n_names; i++) {
        size_t op;
        const char *edge, *suffix = strstr(list.names[i], ".safetensors");
        if (!suffix) continue;
        if (!find_op(list.names[i], &op, &edge)) ck_abort_msg("fixtures/ops/%s is of no operation", list.names[i]);
        n_of[op]++;
        n_all++;
        for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) n_cases += has_mode(list.names[i], OPS[op].op, &MODES[m]);
    }
    for (size_t i = 0; i < KG_COUNT_OF(OPS); i++)
        if (n_of[i] < OPS[i].n_least)
            ck_abort_msg("%zu goldens of %s, at least %zu are meant to be there", n_of[i], OPS[i].op, OPS[i].n_least);
    ck_assert_uint_eq(n_cases, n_files);
    kg_record_metric(rec, "goldens", "count", (double)n_all);
    kg_dir_list_free(&list);
}

static void add_file(struct kg_case_list *cases, const char *file_name) {
    size_t op;
    const char *edge;
    const char *suffix = strstr(file_name, ".safetensors");
    if (!suffix || !find_op(file_name, &op, &edge)) return;
    char *name = kg_xstrndup(edge, (size_t)(suffix - edge)), *relative = kg_xasprintf("ops/%s", file_name);
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        if (n_files == KG_COUNT_OF(files)) break;
        if (!has_mode(file_name, OPS[op].op, &MODES[m])) continue;
        struct op_file *file = &files[n_files++];
        *file = (struct op_file){ op, &MODES[m], kg_xstrdup(kg_fixture_path(relative)) };
        kg_case_list_add(cases, &(struct kg_case){
                                    .layer = "tolerance",
                                    .op = OPS[op].op,
                                    .name = name,
                                    .backend = MODES[m].backend,
                                    .dtype = MODES[m].dtype,
                                    .spec = OPS[op].spec,
                                    .definition = relative,
                                    .run = run_file,
                                    .arg = file,
                                });
    }
    free(relative);
    free(name);
}

static void build(struct kg_case_list *cases) {
    kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                               .op = "ops",
                                               .name = "every_operation_has_goldens",
                                               .run = every_operation_has_goldens });
    struct kg_dir_list list;
    if (kg_dir_list(kg_unpacked_fixture_path("ops"), &list, NULL) != KG_OK) return; /* the case above will say so */
    for (size_t i = 0; i < list.n_names; i++) add_file(cases, list.names[i]);
    kg_dir_list_free(&list);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
