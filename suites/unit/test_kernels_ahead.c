/* Kernels are loaded beside a model's load, all of them, and not by something else: the driver tells which are there. A
 * load without it, as where the back end does not hear that weights come, is the mutant. */
#include "backend/backend.h"
#include "backend/measure.h"
#include "suites/harness/must.h"
#include "suites/support/haiku_stage.h"
#include "suites/support/op_device.h"
#include <check.h>
#include <kigo/model.h>
#include <stdlib.h>
#include <string.h>

/* After the back end has loaded the fixture over this table. */
static struct kg_kernels_ahead after_a_load(const struct kg_backend_ops *ops) {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_kernels_ahead kernels;
    struct kg_error err = { 0 };
    kg_must(kg_backend_open_ops(ops, 0, &backend, &err), &err);
    kg_must(kg_model_load(kg_fixture_path(KG_HAIKU_MODEL), backend, NULL, &model, &err), &err);
    kg_must(ops->measure->kernels_ahead(backend, &kernels, &err), &err);
    kg_model_free(model);
    kg_backend_close(backend);
    return kernels;
}

static void beside_a_load(struct kg_record *rec, const void *arg) {
    const struct kg_backend_ops *right;
    struct kg_backend_ops mutant;
    struct kg_kernels_ahead kernels;
    struct kg_op_device d;
    struct kg_error err = { 0 };
    const char *loading = getenv("CUDA_MODULE_LOADING");
    (void)arg;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    const enum kg_status status = d.backend->ops->measure->kernels_ahead(d.backend, &kernels, &err);
    kg_op_device_close(&d);
    if (status == KG_ERR_UNSUPPORTED) {
        kg_record_skip(rec, "%s", err.message);
        return;
    }
    if (loading && strcmp(loading, "EAGER") == 0) {
        kg_record_skip(rec, "CUDA_MODULE_LOADING=EAGER: the driver loads every kernel at once");
        return;
    }
    kg_must(status, &err);
    kg_must(kg_backend_find_ops("cuda", &right, &err), &err);
    mutant = *right;
    mutant.reserve_weights = NULL;
    const struct kg_kernels_ahead without = after_a_load(&mutant), with = after_a_load(right);
    kg_record_metric(rec, "kernels", "count", (double)with.n);
    kg_record_metric(rec, "loaded_without", "count", (double)without.n_loaded);
    ck_assert_uint_gt(with.n, 0);
    ck_assert_msg(with.n_loaded == with.n, "%zu of %zu kernels are loaded", with.n_loaded, with.n);
    ck_assert_msg(without.n_loaded < without.n, "%zu of %zu kernels are loaded without it", without.n_loaded,
                  without.n);
}

static void build(struct kg_case_list *cases) {
    kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                               .op = "kernels_ahead",
                                               .name = "beside_a_load",
                                               .backend = "cuda",
                                               .spec = "FT-056",
                                               .run = beside_a_load });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
