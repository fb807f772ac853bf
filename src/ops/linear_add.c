#include "ops/linear_add.h"
#include "ops/check.h"
#include "ops/scratch.h"

uint64_t kg_linear_add_scratch_bytes(const struct kg_linear_add_args *args) {
    return kg_scratch_bytes(args->linear.n_rows, args->linear.weight.n_rows, args->linear.output);
}

enum kg_status kg_linear_add_check(const struct kg_linear_add_args *args, struct kg_error *err) {
    const enum kg_status status = kg_linear_check(&args->linear, err);
    return status ? kg_error_context(err, status, "linear_add") : KG_OK;
}

enum kg_status kg_cpu_linear_add(struct kg_thread_pool *pool, const struct kg_linear_add_args *args,
                                 struct kg_error *err) {
    enum kg_status status = kg_linear_add_check(args, err);
    if (!status) status = kg_cpu_require_f32("linear_add", "activations", args->linear.activations, err);
    if (!status) status = kg_cpu_require_f32("linear_add", "outputs", args->linear.output, err);
    if (!status) kg_linear_on_cpu(pool, &args->linear, true);
    return status;
}
