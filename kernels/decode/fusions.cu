/* The table of fusions, its conditions and its launches. At one row a launch costs as much as reading a small matrix,
 * so what needs no other block's result is one kernel, and each begins while the one before it ends
 * (ptx/dependent.cuh). */
#include "kernels/decode/fusions.h"
#include "kernels/attention/attention.cuh"
#include "kernels/block/dequant.cuh"
#include "kernels/decode/launches.h"
#include "kernels/mxfp4/mxfp4.h"
#include <cstdarg>
#include <cstdio>

static bool __attribute__((format(printf, 2, 3))) no(struct kg_why *why, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    return false;
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const enum kg_status try_status = (call);                                                                      \
        if (try_status) return try_status;                                                                             \
    } while (0)

/* Wiring */

bool kg_residual_is_wired(const struct kg_node *n) {
    const struct kg_add_args *add = &n[1].args.add;
    return add->b == n[0].args.linear.y && add->a == add->y && n[0].args.linear.output == add->activations;
}

bool kg_qkv_is_wired(const struct kg_node *n) {
    const struct kg_linear_args *q = &n[1].args.linear, *k = &n[2].args.linear, *v = &n[3].args.linear;
    const struct kg_rope_args *rope_q = &n[4].args.rope, *rope_k = &n[5].args.rope;
    const struct kg_kv_write_args *kv = &n[6].args.kv_write;
    const void *x = n[0].args.rmsnorm.y;
    return q->x == x && k->x == x && v->x == x && rope_q->x == q->y && rope_q->y == q->y && rope_k->x == k->y &&
           rope_k->y == k->y && kv->k == k->y && kv->v == v->y && kg_same_frequencies(rope_q, rope_k) &&
           rope_q->pairing == rope_k->pairing;
}

bool kg_gated_is_wired(const struct kg_node *n) {
    const struct kg_linear_args *gate = &n[1].args.linear, *up = &n[2].args.linear;
    const struct kg_swiglu_args *act = &n[3].args.swiglu;
    const void *x = n[0].args.rmsnorm.y;
    return gate->x == x && up->x == x && act->gate == gate->y && act->up == up->y && n[3].rows_per_id == 1;
}

/* Products with F16 or F32 matrices (matrix.cu) */

/* n_pairs pairs of rows, of these and of its like. */
static bool matrix_fits(const struct kg_cuda_backend *cuda, const struct kg_linear_args *a,
                        const struct kg_weight *like, uint32_t n_pairs, struct kg_why *why) {
    const struct kg_weight *w = &a->weight;
    const char *name = kg_dtype_info(w->dtype)->name;
    if (w->dtype != KG_DTYPE_F16 && w->dtype != KG_DTYPE_F32)
        return no(why, "%s weights; the kernel has f16, f32", name);
    if (w->dtype != like->dtype) return no(why, "%s beside %s weights", kg_dtype_info(like->dtype)->name, name);
    if (w->n_cols != like->n_cols) return no(why, "rows of %u beside %u elements", like->n_cols, w->n_cols);
    if (!kg_dequant::rows_are_whole(w)) return no(why, "rows of %u elements are no whole vectors", w->n_cols);
    if (!kg_step_matrix_fits(cuda, w->dtype, a->activations, w->n_cols, n_pairs))
        return no(why, "%u pairs of rows of %u %s elements do not fit a block's shared memory", n_pairs, w->n_cols,
                  name);
    return true;
}

static struct kg_step_matrix matrix_of(const struct kg_linear_args *a, enum kg_step_form form, uint32_t n_pairs) {
    struct kg_step_matrix m = {};
    m.form = form;
    m.dtype = a->weight.dtype;
    m.activations = a->activations;
    m.n_in = a->weight.n_cols;
    m.n_pairs = n_pairs;
    m.matrix[0] = { static_cast<const uint8_t *>(a->weight.data), a->bias };
    m.x = a->x;
    m.x_precision = a->activations;
    return m;
}

static void add_matrix(struct kg_step_matrix *m, int i, const struct kg_linear_args *a) {
    m->matrix[i] = { static_cast<const uint8_t *>(a->weight.data), a->bias };
}

/* The product is of norm(x). */
static void read_norm(struct kg_step_matrix *m, const struct kg_rmsnorm_args *norm) {
    m->x = norm->x;
    m->x_precision = norm->wide_input ? KG_PRECISION_F32 : norm->activations;
    m->norm_weight = norm->weight;
    m->eps = norm->eps;
}

/* rmsnorm + q, k, v + rope + kv_write */

static bool qkv_fits(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                     struct kg_why *why) {
    const struct kg_rope_args *rope = &n[4].args.rope;
    const struct kg_weight *like = &n[1].args.linear.weight;
    uint32_t n_pairs = 0;
    if (!kg_qkv_is_wired(n)) return no(why, "q, k and v are not of one norm, rotated alike and cached");
    if (rope->head_dim % 2 != 0) return no(why, "heads of %u", rope->head_dim);
    for (int i = 1; i <= 3; i++) n_pairs += n[i].args.linear.weight.n_rows / 2;
    for (int i = 1; i <= 3; i++)
        if (!matrix_fits(cuda, &n[i].args.linear, like, n_pairs, why)) return false;
    return kg_rotation_table_of(l, rope) || no(why, "ropes of more than %d frequencies", (int)KG_ROTATION_TABLES);
}

static struct kg_step_heads heads_of(const struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                     const struct kg_rope_args *rope, const struct kg_kv_write_args *kv) {
    struct kg_step_heads h = {};
    h.k_cache = kv->k_cache;
    h.v_cache = kv->v_cache;
    h.cos_sin = kg_rotation_table_of(const_cast<struct kg_cuda_lowered *>(l), rope)->data;
    h.step = cuda->step;
    h.n_heads = rope->n_heads;
    h.n_kv_heads = kv->n_kv_heads;
    h.head_dim = kv->head_dim;
    h.n_ctx = kv->n_ctx;
    h.n_rot = rope->n_rot;
    h.half = rope->pairing == KG_ROPE_HALF;
    h.kv = kv->kv;
    return h;
}

static enum kg_status multiply_qkv(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                   const struct kg_node *n, const struct kg_step_pending *pending,
                                   struct kg_error *err) {
    const struct kg_linear_args *q = &n[1].args.linear, *k = &n[2].args.linear, *v = &n[3].args.linear;
    const struct kg_rope_args *rope = &n[4].args.rope;
    const struct kg_kv_write_args *kv = &n[6].args.kv_write;
    struct kg_step_matrix m = matrix_of(q, KG_STEP_QKV, (q->weight.n_rows + k->weight.n_rows + v->weight.n_rows) / 2);
    add_matrix(&m, 1, k);
    add_matrix(&m, 2, v);
    read_norm(&m, &n[0].args.rmsnorm);
    m.pending = *pending;
    m.y = rope->y;
    m.y_precision = rope->activations;
    m.heads.k_cache = kv->k_cache;
    m.heads.v_cache = kv->v_cache;
    m.heads.cos_sin = kg_rotation_table_of(const_cast<struct kg_cuda_lowered *>(l), rope)->data;
    m.heads.step = cuda->step;
    m.heads.n_heads = rope->n_heads;
    m.heads.n_kv_heads = kv->n_kv_heads;
    m.heads.head_dim = kv->head_dim;
    m.heads.n_ctx = kv->n_ctx;
    m.heads.n_rot = rope->n_rot;
    m.heads.half = rope->pairing == KG_ROPE_HALF;
    m.heads.kv = kv->kv;
    return kg_step_multiply(cuda, &m, err);
}

static enum kg_status launch_qkv(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l, const struct kg_node *n,
                                 const struct kg_run *run, struct kg_error *err) {
    const struct kg_step_pending none = {};
    (void)run;
    return multiply_qkv(cuda, l, n, &none, err);
}

/* rmsnorm + q, k, v, where heads are normalised before they are rotated: the same kernel stores q, k and v as heads of
 * two elements in a cache of one position. */

static bool products_fit(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                         struct kg_why *why) {
    const struct kg_linear_args *q = &n[1].args.linear, *k = &n[2].args.linear, *v = &n[3].args.linear;
    const void *x = n[0].args.rmsnorm.y;
    const uint32_t n_pairs = (q->weight.n_rows + k->weight.n_rows + v->weight.n_rows) / 2;
    (void)l;
    if (q->x != x || k->x != x || v->x != x || n[0].rows_per_id != 1)
        return no(why, "the products are not of one norm");
    if (k->weight.n_rows != v->weight.n_rows || q->weight.n_rows % 2 != 0 || k->weight.n_rows % 2 != 0)
        return no(why, "%u, %u and %u outputs", q->weight.n_rows, k->weight.n_rows, v->weight.n_rows);
    if (q->output != q->activations || k->output != q->activations || v->output != q->activations)
        return no(why, "outputs of other precision than the activations");
    return matrix_fits(cuda, q, &q->weight, n_pairs, why) && matrix_fits(cuda, k, &q->weight, n_pairs, why) &&
           matrix_fits(cuda, v, &q->weight, n_pairs, why);
}

static enum kg_status launch_products(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                      const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    const struct kg_linear_args *q = &n[1].args.linear, *k = &n[2].args.linear, *v = &n[3].args.linear;
    struct kg_step_matrix m = matrix_of(q, KG_STEP_QKV, (q->weight.n_rows + k->weight.n_rows + v->weight.n_rows) / 2);
    (void)l, (void)run;
    add_matrix(&m, 1, k);
    add_matrix(&m, 2, v);
    read_norm(&m, &n[0].args.rmsnorm);
    m.y = q->y;
    m.y_precision = q->activations;
    m.heads.k_cache = k->y;
    m.heads.v_cache = v->y;
    m.heads.kv = q->activations;
    m.heads.step = cuda->step_memory + 1;
    m.heads.n_heads = q->weight.n_rows / 2;
    m.heads.n_kv_heads = k->weight.n_rows / 2;
    m.heads.head_dim = 2;
    m.heads.n_ctx = 1;
    return kg_step_multiply(cuda, &m, err);
}

/* rmsnorm of heads + rope + kv_write */

static bool heads_fit(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                      struct kg_why *why) {
    const struct kg_rmsnorm_args *q = &n[0].args.rmsnorm, *k = &n[1].args.rmsnorm;
    const struct kg_rope_args *rope_q = &n[2].args.rope, *rope_k = &n[3].args.rope;
    const struct kg_kv_write_args *kv = &n[4].args.kv_write;
    (void)cuda;
    if (q->x != q->y || rope_q->x != q->y || rope_q->y != q->y || k->x != k->y || rope_k->x != k->y ||
        rope_k->y != k->y || kv->k != k->y || n[0].rows_per_id != rope_q->n_heads ||
        n[1].rows_per_id != kv->n_kv_heads || q->n_cols != rope_q->head_dim || k->n_cols != rope_q->head_dim ||
        q->eps != k->eps || q->wide_input || k->wide_input || !kg_same_frequencies(rope_q, rope_k) ||
        rope_q->pairing != rope_k->pairing)
        return no(why, "q and k are not normalised by heads, rotated alike and cached");
    if (!kg_step_heads_fit(rope_q->head_dim)) return no(why, "heads of %u", rope_q->head_dim);
    return kg_rotation_table_of(l, rope_q) || no(why, "ropes of more than %d frequencies", (int)KG_ROTATION_TABLES);
}

static enum kg_status launch_heads(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                   const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    struct kg_step_head_norms p = {};
    (void)run;
    p.q = n[2].args.rope.y;
    p.k = n[1].args.rmsnorm.x;
    p.v = n[4].args.kv_write.v;
    p.q_weight = n[0].args.rmsnorm.weight;
    p.k_weight = n[1].args.rmsnorm.weight;
    p.eps = n[0].args.rmsnorm.eps;
    p.activations = n[0].args.rmsnorm.activations;
    p.heads = heads_of(cuda, l, &n[2].args.rope, &n[4].args.kv_write);
    return kg_step_norm_heads(cuda, &p, err);
}

/* attention of one row */

static bool attention_fits(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                           struct kg_why *why) {
    const struct kg_attention_args *a = &n->args.attention;
    (void)l;
    if (a->head_dim > 128) return no(why, "heads of %u; the kernel has 128", a->head_dim);
    return kg_step_attention_fits(cuda, a->n_ctx, a->window) ||
           no(why, "%u keys are too many for one launch; two take them", a->window > 0 ? a->window : a->n_ctx);
}

static enum kg_status launch_attention(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                       const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    const struct kg_attention_args *a = &n->args.attention;
    struct kg_attention_params p = {};
    (void)l;
    p.q = a->q;
    p.k = a->k_cache;
    p.v = a->v_cache;
    p.y = a->y;
    p.activations = a->activations;
    p.kv = a->kv;
    p.n_rows = 1;
    p.n_keys = run->position + 1;
    p.n_heads = a->n_heads;
    p.n_kv_heads = a->n_kv_heads;
    p.head_dim = a->head_dim;
    p.n_ctx = a->n_ctx;
    p.window = a->window;
    p.scale = a->scale;
    p.causal = a->causal;
    p.step = cuda->step;
    p.sinks = a->sinks;
    return kg_step_attend(cuda, &p, err);
}

/* linear + add */

static bool residual_fits(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                          struct kg_why *why) {
    const struct kg_linear_args *a = &n->args.linear;
    (void)l;
    if (!kg_residual_is_wired(n)) return no(why, "the sum is not of the product and the residual stream");
    if (a->weight.n_rows % 2 != 0) return no(why, "%u outputs are no pairs", a->weight.n_rows);
    return matrix_fits(cuda, a, &a->weight, a->weight.n_rows / 2, why);
}

static enum kg_status add_product(struct kg_cuda_backend *cuda, const struct kg_node *n,
                                  const struct kg_step_pending *pending, struct kg_error *err) {
    const struct kg_linear_args *a = &n[0].args.linear;
    struct kg_step_matrix m = matrix_of(a, KG_STEP_RESIDUAL, a->weight.n_rows / 2);
    m.pending = *pending;
    m.y = n[1].args.add.y;
    m.y_precision = n[1].args.add.activations;
    return kg_step_multiply(cuda, &m, err);
}

static enum kg_status launch_residual(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                      const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    const struct kg_step_pending none = {};
    (void)l, (void)run;
    return add_product(cuda, n, &none, err);
}

/* rmsnorm + gate, up + swiglu */

static bool gated_fits(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                       struct kg_why *why) {
    const struct kg_linear_args *gate = &n[1].args.linear, *up = &n[2].args.linear;
    (void)l;
    if (!kg_gated_is_wired(n)) return no(why, "gate and up are not of one norm, or gated otherwise");
    if (n[3].args.swiglu.cubic != 0 && n[3].args.swiglu.limit != 0) return no(why, "gelu gates with a limit");
    return matrix_fits(cuda, gate, &gate->weight, gate->weight.n_rows, why) &&
           matrix_fits(cuda, up, &gate->weight, gate->weight.n_rows, why);
}

static enum kg_status launch_gated(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                   const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    const struct kg_linear_args *gate = &n[1].args.linear;
    const struct kg_swiglu_args *act = &n[3].args.swiglu;
    struct kg_step_matrix m = matrix_of(gate, act->cubic != 0 ? KG_STEP_GELU : KG_STEP_GATED, gate->weight.n_rows);
    (void)l, (void)run;
    add_matrix(&m, 1, &n[2].args.linear);
    read_norm(&m, &n[0].args.rmsnorm);
    m.y = act->y;
    m.y_precision = act->activations;
    m.gate = kg_swiglu_op_of(act->limit, act->alpha, act->up_offset);
    m.gelu = { act->alpha, act->cubic, act->up_offset };
    return kg_step_multiply(cuda, &m, err);
}

/* rmsnorm + add */

static struct kg_step_norm_add norm_add_of(const struct kg_node *n) {
    const struct kg_rmsnorm_args *norm = &n[0].args.rmsnorm;
    return { norm->x, n[1].args.add.y, norm->weight, norm->n_cols, norm->eps, norm->activations };
}

static bool norm_add_fits(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                          struct kg_why *why) {
    const struct kg_rmsnorm_args *norm = &n[0].args.rmsnorm;
    const struct kg_add_args *add = &n[1].args.add;
    const struct kg_step_norm_add p = norm_add_of(n);
    (void)cuda, (void)l;
    if (add->b != norm->y || add->a != add->y || n[0].rows_per_id != 1 || norm->wide_input ||
        norm->activations != add->activations)
        return no(why, "the sum is not of the norm and the residual stream");
    return kg_step_norm_add_fits(&p) || no(why, "rows of %u elements are no whole vectors", p.n);
}

static enum kg_status launch_norm_add(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                      const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    const struct kg_step_norm_add p = norm_add_of(n);
    (void)l, (void)run;
    return kg_step_add_norm(cuda, &p, err);
}

/* rmsnorm + linear + router */

static bool router_fits(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                        struct kg_why *why) {
    const struct kg_linear_args *a = &n[1].args.linear;
    (void)l;
    if (a->x != n[0].args.rmsnorm.y || n[2].args.router.logits != a->y)
        return no(why, "the router's logits are not of the norm");
    return kg_step_router_fits(cuda, &a->weight) ||
           no(why, "a %s router of %u columns; the kernel has f16, f32 of whole vectors",
              kg_dtype_info(a->weight.dtype)->name, a->weight.n_cols);
}

static enum kg_status launch_router(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                    const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    const struct kg_rmsnorm_args *norm = &n[0].args.rmsnorm;
    const struct kg_linear_args *a = &n[1].args.linear;
    const struct kg_router_args *router = &n[2].args.router;
    const struct kg_step_router r = { norm->x,           norm->wide_input ? KG_PRECISION_F32 : norm->activations,
                                      norm->weight,      norm->eps,
                                      norm->y,           norm->activations,
                                      a->weight.data,    a->weight.dtype,
                                      a->bias,           router->ids,
                                      router->weights,   a->weight.n_cols,
                                      router->n_experts, router->n_used };
    (void)l, (void)run;
    return kg_step_route(cuda, &r, err);
}

/* experts: gate, up + swiglu; down */

static bool experts_fit(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                        struct kg_why *why) {
    const struct kg_experts_linear_args *gate = &n[0].args.experts_linear, *up = &n[1].args.experts_linear,
                                        *down = &n[3].args.experts_linear;
    const struct kg_swiglu_args *act = &n[2].args.swiglu;
    (void)l;
    if (gate->x != up->x || act->gate != gate->y || act->up != up->y || down->x != act->y ||
        gate->n_sharing != n[0].rows_per_id || up->n_sharing != n[0].rows_per_id || down->n_sharing != 1)
        return no(why, "gate, up and down are not of one row's experts");
    if (gate->activations != KG_PRECISION_F16) return no(why, "float32 activations; the kernel has float16");
    if (act->cubic != 0) return no(why, "gelu gates; the kernel has silu");
    if (n[0].rows_per_id > KG_MXFP4_OWN_ROWS)
        return no(why, "%u experts a row; the kernel has at most %d", n[0].rows_per_id, (int)KG_MXFP4_OWN_ROWS);
    return (kg_mxfp4_repacked_range(cuda, &gate->weight) && kg_mxfp4_repacked_range(cuda, &up->weight) &&
            kg_mxfp4_repacked_range(cuda, &down->weight)) ||
           no(why, "%s weights that are not repacked MXFP4", kg_dtype_info(gate->weight.dtype)->name);
}

static struct kg_mxfp4_product product_of(const struct kg_cuda_backend *cuda, const struct kg_node *n) {
    const struct kg_experts_linear_args *a = &n->args.experts_linear;
    struct kg_mxfp4_product p = kg_mxfp4_product_of(a, kg_mxfp4_repacked_range(cuda, &a->weight));
    p.n_rows = n->rows_per_id;
    return p;
}

static enum kg_status launch_experts(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                     const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    const struct kg_experts_linear_args *up = &n[1].args.experts_linear;
    const struct kg_swiglu_args *act = &n[2].args.swiglu;
    const struct kg_swiglu_form form = { act->limit, act->alpha, act->up_offset, 0 };
    const struct kg_mxfp4_product gate = product_of(cuda, &n[0]);
    struct kg_mxfp4_product down = product_of(cuda, &n[3]);
    (void)l, (void)run;
    down.ids_known = true;
    TRY(kg_mxfp4_gemv_gated(cuda, &gate, static_cast<const uint8_t *>(up->weight.data), up->bias, &form, err));
    return kg_mxfp4_gemv(cuda, &down, err);
}

/* experts_combine + add */

static bool combine_is_wired(const struct kg_node *n) {
    const struct kg_experts_combine_args *c = &n[0].args.experts_combine;
    const struct kg_add_args *add = &n[1].args.add;
    return add->b == c->y && add->a == add->y && !c->residual && c->activations == add->activations;
}

static bool combine_fits(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                         struct kg_why *why) {
    (void)cuda, (void)l;
    return combine_is_wired(n) || no(why, "the sum is not of the experts and the residual stream");
}

static enum kg_status launch_combine(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                     const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    struct kg_experts_combine_args args = n[0].args.experts_combine;
    (void)l, (void)run;
    args.residual = n[1].args.add.a;
    args.y = n[1].args.add.y;
    args.n_rows = 1;
    return kg_cuda_experts_combine(&cuda->base, &args, err);
}

/* experts_combine + add inside the next attention block: the sum is made by those who need it, the norm of q, k, v and
 * the residual stream's next product. */

enum { PENDING_NORM = 2, PENDING_ATTENTION = 9, PENDING_RESIDUAL = 10 };

static bool pending_fits(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *l, const struct kg_node *n,
                         struct kg_why *why) {
    const void *x = n[1].args.add.y;
    if (!combine_is_wired(n) || n[PENDING_NORM].args.rmsnorm.x != x || n[PENDING_RESIDUAL + 1].args.add.y != x)
        return no(why, "the experts' sum is not the next block's residual stream");
    if (n[PENDING_ATTENTION].args.attention.q != n[6].args.rope.y ||
        n[PENDING_RESIDUAL].args.linear.x != n[PENDING_ATTENTION].args.attention.y)
        return no(why, "the attention between is not of these q, k and v");
    return attention_fits(cuda, l, &n[PENDING_ATTENTION], why) && residual_fits(cuda, l, &n[PENDING_RESIDUAL], why) &&
           qkv_fits(cuda, l, &n[PENDING_NORM], why);
}

static enum kg_status launch_pending(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *l,
                                     const struct kg_node *n, const struct kg_run *run, struct kg_error *err) {
    const struct kg_experts_combine_args *c = &n[0].args.experts_combine;
    const struct kg_step_pending pending = { c->x, c->weights, c->n_used };
    TRY(multiply_qkv(cuda, l, &n[PENDING_NORM], &pending, err));
    TRY(launch_attention(cuda, l, &n[PENDING_ATTENTION], run, err));
    return add_product(cuda, &n[PENDING_RESIDUAL], &pending, err);
}

#define NODE(i) (1u << (i))

/* The first row that fits is taken. */
const struct kg_fusion kg_fusions[] = {
    { "experts_combine + add + rmsnorm + q, k, v + rope + kv_write; attention; linear + add",
      12,
      { KG_OP_experts_combine, KG_OP_add, KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear, KG_OP_linear, KG_OP_rope,
        KG_OP_rope, KG_OP_kv_write, KG_OP_attention, KG_OP_linear, KG_OP_add },
      NODE(6) | NODE(8) | NODE(9) | NODE(11),
      pending_fits,
      launch_pending },
    { "rmsnorm + q, k, v + rope + kv_write",
      7,
      { KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear, KG_OP_linear, KG_OP_rope, KG_OP_rope, KG_OP_kv_write },
      NODE(4) | NODE(6),
      qkv_fits,
      launch_qkv },
    { "rmsnorm + q, k, v",
      4,
      { KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear, KG_OP_linear },
      NODE(1) | NODE(2) | NODE(3),
      products_fit,
      launch_products },
    { "rmsnorm of heads + rope + kv_write",
      5,
      { KG_OP_rmsnorm, KG_OP_rmsnorm, KG_OP_rope, KG_OP_rope, KG_OP_kv_write },
      NODE(2) | NODE(4),
      heads_fit,
      launch_heads },
    { "rmsnorm + add", 2, { KG_OP_rmsnorm, KG_OP_add }, NODE(1), norm_add_fits, launch_norm_add },
    { "attention in one launch", 1, { KG_OP_attention }, NODE(0), attention_fits, launch_attention },
    { "rmsnorm + gate, up + swiglu",
      4,
      { KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear, KG_OP_swiglu },
      NODE(3),
      gated_fits,
      launch_gated },
    { "linear + add", 2, { KG_OP_linear, KG_OP_add }, NODE(1), residual_fits, launch_residual },
    { "rmsnorm + linear + router",
      3,
      { KG_OP_rmsnorm, KG_OP_linear, KG_OP_router },
      NODE(0) | NODE(2),
      router_fits,
      launch_router },
    { "experts' gate, up + swiglu; down",
      4,
      { KG_OP_experts_linear, KG_OP_experts_linear, KG_OP_swiglu, KG_OP_experts_linear },
      NODE(2) | NODE(3),
      experts_fit,
      launch_experts },
    { "experts_combine + add", 2, { KG_OP_experts_combine, KG_OP_add }, NODE(1), combine_fits, launch_combine },
};
const uint32_t kg_n_fusions = sizeof kg_fusions / sizeof *kg_fusions;
