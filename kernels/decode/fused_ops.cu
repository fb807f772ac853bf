/* norm_qkv, norm_swiglu and linear_add on the GPU (contracts in ops/<op>.h): the nodes of a plan that each stands for,
 * by the fusions that a forward pass takes there (decode/fusions.cu for one row, prefill/fusions.cu for more), and one
 * by one where none fits. What the nodes leave to one another lies in args->scratch, if they do.
 *
 * Kernels of fusions read vectors, of weights, biases and activations alike: operands that are not on 16 bytes, as a
 * plan's always are, go to the operations one by one. */
#include "kernels/block/precision.cuh"
#include "kernels/decode/fusions.h"
#include "kernels/ops/linear.h"

extern "C" {
#include "ops/scratch.h"
}

namespace {

enum { MOST_NODES = 4 };

/* The nodes of an operation, as they are written. */
struct nodes_of {
    struct kg_node nodes[MOST_NODES];
    uint32_t n;
    bool aligned; /* all their operands, on 16 bytes */

    nodes_of() : nodes(), n(0), aligned(true) {
    }

    void needs(std::initializer_list<const void *> operands) {
        for (const void *p : operands) aligned = aligned && kg_vector_aligned(p);
    }

    union kg_node::kg_op_args *add(enum kg_op op) {
        struct kg_node *node = &nodes[n++];
        node->op = op;
        node->layer = KG_NO_LAYER;
        node->rows_per_id = 1;
        return &node->args;
    }

    void rmsnorm(enum kg_precision activations, const void *x, bool wide_input, const float *weight, void *y,
                 uint32_t n_cols, float eps) {
        struct kg_rmsnorm_args *a = &add(KG_OP_rmsnorm)->rmsnorm;
        a->activations = activations, a->x = x, a->wide_input = wide_input, a->weight = weight, a->y = y;
        a->n_cols = n_cols, a->eps = eps;
        needs({ x, weight, y });
    }

    void linear(const struct kg_linear_args &args) {
        add(KG_OP_linear)->linear = args;
        needs({ args.x, args.weight.data, args.bias, args.y });
    }

    enum kg_status run(struct kg_backend *backend, uint32_t n_rows, struct kg_error *err) {
        const struct kg_run rows = { n_rows, 0, NULL };
        struct kg_plan plan = {};
        plan.nodes = nodes;
        plan.n_nodes = n;
        if (aligned) return kg_cuda_run_fused(kg_cuda_of(backend), &plan, &rows, err);
        enum kg_status status = KG_OK;
        for (uint32_t i = 0; i < n && !status; i++) status = kg_plan_run_node(backend, &nodes[i], &rows, err);
        return status;
    }
};

/* Matrices one after the other in the scratch. */
struct scratch {
    char *at;
    explicit scratch(void *begin) : at(static_cast<char *>(begin)) {
    }
    void *take(uint64_t n_rows, uint64_t n_cols, enum kg_precision precision) {
        void *taken = at;
        at += kg_scratch_bytes(n_rows, n_cols, precision);
        return taken;
    }
};

struct kg_linear_args product_of(enum kg_precision activations, const void *x, const struct kg_weight &weight,
                                 const float *bias, void *y, void *workspace) {
    struct kg_linear_args a = {};
    a.activations = a.output = activations;
    a.x = x, a.weight = weight, a.bias = bias, a.y = y, a.workspace = workspace;
    return a;
}

/* What the back end asks beyond the contract's check, of an operation of some rows. So few outputs are counted in 32
 * bits, those of all products together. */
enum kg_status require_room(const char *op, uint32_t n_rows, const struct kg_weight *weights, int n_weights,
                            const void *scratch, struct kg_error *err) {
    constexpr uint32_t MOST = 1u << 30;
    for (const struct kg_weight *w = weights; w < weights + n_weights; w++)
        if (n_rows >= MOST || w->n_rows > MOST || w->n_cols > MOST)
            return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: %u x %u by %u rows is too large for the cuda back end", op,
                           w->n_rows, w->n_cols, n_rows);
    if (scratch && (uintptr_t)scratch % KG_SCRATCH_ALIGN_BYTES == 0) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE, "%s: the scratch is %s", op, scratch ? "not on 256 bytes" : "missing");
}

} // namespace

/* One row is one launch. Of more the norm is one, and the products are those of the fusion of rows that goes on to
 * rotate them. */
extern "C" enum kg_status kg_cuda_norm_qkv(struct kg_backend *backend, const struct kg_norm_qkv_args *args,
                                           struct kg_error *err) {
    enum kg_status status = kg_norm_qkv_check(args, err);
    if (!status) status = kg_cuda_require_float("norm_qkv", "activations", args->activations, err);
    if (status || args->n_rows == 0) return status;
    status = require_room("norm_qkv", args->n_rows, args->weight, KG_NORM_QKV_PRODUCTS, args->scratch, err);
    if (status) return status;
    struct kg_linear_args products[KG_NORM_QKV_PRODUCTS];
    nodes_of of;
    of.rmsnorm(args->activations, args->x, args->wide_input, args->norm_weight, args->scratch, args->n_cols, args->eps);
    for (int p = 0; p < KG_NORM_QKV_PRODUCTS; p++)
        products[p] =
            product_of(args->activations, args->scratch, args->weight[p], args->bias[p], args->y[p], args->workspace);
    if (args->n_rows == 1) {
        for (const struct kg_linear_args &product : products) of.linear(product);
        return of.run(backend, 1, err);
    }
    for (struct kg_linear_args &product : products) product.n_rows = args->n_rows;
    status = of.run(backend, args->n_rows, err);
    return status ? status : kg_cuda_linear_each(kg_cuda_of(backend), products, KG_NORM_QKV_PRODUCTS, err);
}

extern "C" enum kg_status kg_cuda_norm_swiglu(struct kg_backend *backend, const struct kg_norm_swiglu_args *args,
                                              struct kg_error *err) {
    const enum kg_precision activations = args->activations;
    enum kg_status status = kg_norm_swiglu_check(args, err);
    if (!status) status = kg_cuda_require_float("norm_swiglu", "activations", activations, err);
    if (status || args->n_rows == 0) return status;
    status = require_room("norm_swiglu", args->n_rows, args->weight, KG_NORM_SWIGLU_PRODUCTS, args->scratch, err);
    if (status) return status;
    const uint32_t n_out = args->weight[0].n_rows;
    scratch room(args->scratch);
    void *const normed = room.take(args->n_rows, args->n_cols, activations);
    void *between[KG_NORM_SWIGLU_PRODUCTS];
    nodes_of of;
    of.rmsnorm(activations, args->x, args->wide_input, args->norm_weight, normed, args->n_cols, args->eps);
    for (int p = 0; p < KG_NORM_SWIGLU_PRODUCTS; p++) {
        between[p] = room.take(args->n_rows, n_out, activations);
        of.linear(product_of(activations, normed, args->weight[p], args->bias[p], between[p], args->workspace));
    }
    struct kg_swiglu_args *act = &of.add(KG_OP_swiglu)->swiglu;
    act->activations = activations, act->gate = between[0], act->up = between[1], act->y = args->y, act->n_cols = n_out;
    act->limit = args->limit, act->alpha = args->alpha, act->up_offset = args->up_offset, act->cubic = args->cubic;
    of.needs({ args->y });
    return of.run(backend, args->n_rows, err);
}

extern "C" enum kg_status kg_cuda_linear_add(struct kg_backend *backend, const struct kg_linear_add_args *args,
                                             struct kg_error *err) {
    const struct kg_linear_args *l = &args->linear;
    enum kg_status status = kg_linear_add_check(args, err);
    if (!status) status = kg_cuda_require_float("linear_add", "activations", l->activations, err);
    if (status || l->n_rows == 0) return status;
    if (l->output != l->activations && l->output != KG_PRECISION_F32)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "linear_add: the cuda back end has no %s outputs of %s activations",
                       kg_precision_name(l->output), kg_precision_name(l->activations));
    status = require_room("linear_add", l->n_rows, &l->weight, 1, args->scratch, err);
    if (status) return status;
    struct kg_linear_args product = *l;
    nodes_of of;
    product.y = args->scratch;
    of.linear(product);
    struct kg_add_args *sum = &of.add(KG_OP_add)->add;
    sum->activations = l->output, sum->a = sum->y = l->y, sum->b = args->scratch, sum->n_cols = l->weight.n_rows;
    of.needs({ l->y });
    return of.run(backend, l->n_rows, err);
}
