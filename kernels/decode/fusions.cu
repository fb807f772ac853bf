/* The table of fusions, its conditions and its launches. At one row a launch costs as much as reading a small matrix,
 * so what needs no other block's result is one kernel, and each begins while the one before it ends
 * (ptx/dependent.cuh). */
#include "kernels/decode/fusions.h"
#include "kernels/attention/attention.cuh"
#include "kernels/block/dequant.cuh"
#include "kernels/decode/launches.h"
#include "kernels/mxfp4/mxfp4.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const enum kg_status try_status = (call);                                                                      \
        if (try_status) return try_status;                                                                             \
    } while (0)

static enum kg_precision norm_input(const struct kg_node *norm) {
    return norm->args.rmsnorm.wide_input ? KG_PRECISION_F32 : norm->args.rmsnorm.activations;
}

/* Products: F16, BF16 and F32 matrices (matrix.cu), block formats (blocks.cu), repacked MXFP4 (repacked.cu) */

static bool has_rows(enum kg_dtype dtype) {
    return dtype == KG_DTYPE_F16 || dtype == KG_DTYPE_BF16 || dtype == KG_DTYPE_F32;
}

static bool has_mxfp4(enum kg_dtype dtype) {
    return dtype == KG_DTYPE_MXFP4;
}

static const struct product {
    bool (*has)(enum kg_dtype dtype);
    bool (*fits)(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m);
    enum kg_status (*multiply)(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m,
                               struct kg_error *err);
    bool f16_only; /* activations */
    bool plain;    /* has KG_STEP_PLAIN */
    bool mixes;    /* formats of q, k, v */
} PRODUCTS[] = {
    { has_rows, kg_step_rows_fit, kg_step_multiply_rows, false, false, false },
    { kg_step_has_blocks, kg_step_blocks_fit, kg_step_multiply_blocks, true, true, true },
    { has_mxfp4, kg_step_repacked_fits, kg_step_multiply_repacked, true, true, false },
};

/* That has the format, NULL if none has. */
static const struct product *product_for(enum kg_dtype dtype) {
    for (const struct product &p : PRODUCTS)
        if (p.has(dtype)) return &p;
    return NULL;
}

/* Pairs of rows of the n matrices from node `linear` on. */
static uint32_t pairs_of(const struct kg_node *linear, int n) {
    uint32_t n_rows = 0;
    for (int i = 0; i < n; i++) n_rows += linear[i].args.linear.weight.n_rows;
    return n_rows / 2;
}

/* The product of x, or of norm(x) where there is a norm, with the n matrices from node `linear` on. */
static struct kg_step_matrix product_of(const struct kg_site *at, enum kg_step_form form, const struct kg_node *norm,
                                        const struct kg_node *linear, int n) {
    const struct kg_linear_args *a = &linear->args.linear;
    struct kg_step_matrix m = {};
    m.form = form;
    m.activations = m.x_precision = a->activations;
    m.n_in = a->weight.n_cols;
    m.n_pairs = pairs_of(linear, n);
    for (int i = 0; i < n; i++) {
        const struct kg_linear_args *of = &linear[i].args.linear;
        m.matrix[i] = { static_cast<const uint8_t *>(of->weight.data), of->bias, of->weight.dtype };
    }
    m.x = a->x;
    m.pending = at->pending;
    if (norm) {
        m.x = norm->args.rmsnorm.x;
        m.x_precision = norm_input(norm);
        m.norm_weight = norm->args.rmsnorm.weight;
        m.eps = norm->args.rmsnorm.eps;
    }
    return m;
}

static enum kg_status multiply(const struct kg_site *at, const struct kg_step_matrix *m, struct kg_error *err) {
    return product_for(m->matrix[0].dtype)->multiply(at->cuda, m, err);
}

/* Where the matrix's memory is one that the kernel reads. */
static bool memory_fits(const struct kg_cuda_backend *cuda, enum kg_step_form form, const struct kg_weight *w,
                        struct kg_why *why) {
    const char *name = kg_dtype_info(w->dtype)->name;
    if (kg_step_has_blocks(w->dtype) &&
        (!kg_vector_aligned(w->data) || w->n_rows * kg_weight_row_bytes(w) % KG_VECTOR_ALIGN_BYTES != 0))
        return kg_no(why, "a %s matrix that does not begin and end on 16 bytes", name);
    if (!has_mxfp4(w->dtype)) return true;
    const bool is_paired = form == KG_STEP_GATED || form == KG_STEP_GELU; /* with the other matrix's rows */
    const uint32_t unit_rows = (is_paired ? 1 : 2) * KG_STEP_UNIT_PAIRS;
    if (!kg_mxfp4_repacked_range(cuda, w)) return kg_no(why, "%s weights that are not repacked", name);
    return w->n_rows % unit_rows == 0 ||
           kg_no(why, "%u rows of %s; the kernel has multiples of %u", w->n_rows, name, unit_rows);
}

/* Of one dtype where the epilogue takes a pair from two matrices, or where the kernel has one. */
static bool dtypes_fit(const struct kg_cuda_backend *cuda, enum kg_step_form form, const struct kg_weight *first,
                       const struct kg_weight *w, enum kg_precision activations, struct kg_why *why) {
    const char *name = kg_dtype_info(w->dtype)->name;
    const struct product *product = product_for(w->dtype);
    if (!product)
        return kg_no(why, "%s weights; the kernels have f16, bf16, f32, q4_0, q5_0, q8_0, q4_k, q5_k, q6_k, mxfp4",
                     name);
    if (product->mixes && form == KG_STEP_QKV ? product_for(first->dtype) != product : w->dtype != first->dtype)
        return kg_no(why, "%s beside %s weights", kg_dtype_info(first->dtype)->name, name);
    if (form == KG_STEP_PLAIN && !product->plain)
        return kg_no(why, "%s weights; the kernel has quantised formats", name);
    if (product->f16_only && activations != KG_PRECISION_F16)
        return kg_no(why, "float32 activations; with %s weights the kernel has float16", name);
    return memory_fits(cuda, form, w, why);
}

/* Behind a norm, unless that is NULL. */
static bool matrices_fit(const struct kg_site *at, enum kg_step_form form, const struct kg_node *norm,
                         const struct kg_node *linear, int n, struct kg_why *why) {
    const struct kg_weight *first = &linear->args.linear.weight;
    if (norm && norm->rows_per_id != 1) return kg_no(why, "the norm is of parts of a row");
    for (int i = 0; i < n; i++) {
        const struct kg_linear_args *a = &linear[i].args.linear;
        const struct kg_weight *w = &a->weight;
        if (!dtypes_fit(at->cuda, form, first, w, a->activations, why)) return false;
        if (w->n_cols != first->n_cols) return kg_no(why, "rows of %u beside %u elements", first->n_cols, w->n_cols);
        if (!kg_dequant::rows_are_whole(w)) return kg_no(why, "rows of %u elements are no whole vectors", w->n_cols);
    }
    const struct kg_step_matrix m = product_of(at, form, norm, linear, n);
    return product_for(first->dtype)->fits(at->cuda, &m) ||
           kg_no(why, "%u pairs of rows of %u %s elements do not fit a block's shared memory", m.n_pairs, m.n_in,
                 kg_dtype_info(first->dtype)->name);
}

/* rmsnorm + q, k, v + rope + kv_write */

static bool ropes_fit(const struct kg_site *at, const struct kg_rope_args *q, const struct kg_rope_args *k,
                      struct kg_why *why) {
    if (!kg_same_frequencies(q, k) || q->pairing != k->pairing) return kg_no(why, "q and k are not rotated alike");
    return kg_rotation_table_of(at->lowered, q) ||
           kg_no(why, "ropes of more than %d frequencies", (int)KG_ROTATION_TABLES);
}

static bool qkv_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_rope_args *rope = &at->n[4].args.rope;
    if (rope->head_dim % 2 != 0) return kg_no(why, "heads of %u", rope->head_dim);
    if (has_mxfp4(at->n[1].args.linear.weight.dtype) && rope->pairing == KG_ROPE_HALF &&
        !kg_step_repacked_heads_fit(rope->head_dim, rope->n_rot))
        return kg_no(why, "heads of %u mxfp4 rows, %u rotated by halves", rope->head_dim, rope->n_rot);
    return matrices_fit(at, KG_STEP_QKV, at->n, &at->n[1], 3, why) && ropes_fit(at, rope, &at->n[5].args.rope, why);
}

static struct kg_step_heads heads_of(const struct kg_site *at, const struct kg_rope_args *rope,
                                     const struct kg_kv_write_args *kv) {
    return { kv->k_cache,
             kv->v_cache,
             kg_rotation_table_of(at->lowered, rope)->data,
             at->cuda->step,
             rope->n_heads,
             kv->n_kv_heads,
             kv->head_dim,
             kv->n_ctx,
             rope->n_rot,
             rope->pairing == KG_ROPE_HALF,
             kv->kv };
}

static enum kg_status launch_qkv(const struct kg_site *at, struct kg_error *err) {
    const struct kg_rope_args *rope = &at->n[4].args.rope;
    struct kg_step_matrix m = product_of(at, KG_STEP_QKV, at->n, &at->n[1], 3);
    m.y = rope->y;
    m.y_precision = rope->activations;
    m.heads = heads_of(at, rope, &at->n[6].args.kv_write);
    return multiply(at, &m, err);
}

/* rmsnorm + q, k, v, where heads are normalised before they are rotated: the same kernel stores q, k and v as heads of
 * two elements in a cache of one position. */

static bool products_fit(const struct kg_site *at, struct kg_why *why) {
    const struct kg_linear_args *q = &at->n[1].args.linear, *k = &at->n[2].args.linear, *v = &at->n[3].args.linear;
    if (k->weight.n_rows != v->weight.n_rows || q->weight.n_rows % 2 != 0 || k->weight.n_rows % 2 != 0)
        return kg_no(why, "%u, %u and %u outputs", q->weight.n_rows, k->weight.n_rows, v->weight.n_rows);
    if (q->output != q->activations || k->output != q->activations || v->output != q->activations)
        return kg_no(why, "outputs of other precision than the activations");
    return matrices_fit(at, KG_STEP_QKV, at->n, &at->n[1], 3, why);
}

static enum kg_status launch_products(const struct kg_site *at, struct kg_error *err) {
    const struct kg_linear_args *q = &at->n[1].args.linear, *k = &at->n[2].args.linear, *v = &at->n[3].args.linear;
    struct kg_step_matrix m = product_of(at, KG_STEP_QKV, at->n, &at->n[1], 3);
    m.y = q->y;
    m.y_precision = m.heads.kv = q->activations;
    m.heads.k_cache = k->y;
    m.heads.v_cache = v->y;
    m.heads.step = at->cuda->step_memory + 1;
    m.heads.n_heads = q->weight.n_rows / 2;
    m.heads.n_kv_heads = k->weight.n_rows / 2;
    m.heads.head_dim = 2;
    m.heads.n_ctx = 1;
    return multiply(at, &m, err);
}

/* rmsnorm of heads + rope + kv_write */

static bool heads_fit(const struct kg_site *at, struct kg_why *why) {
    const struct kg_rmsnorm_args *q = &at->n[0].args.rmsnorm, *k = &at->n[1].args.rmsnorm;
    const struct kg_rope_args *rope = &at->n[2].args.rope;
    if (at->n[0].rows_per_id != rope->n_heads || at->n[1].rows_per_id != at->n[4].args.kv_write.n_kv_heads ||
        q->n_cols != rope->head_dim || k->n_cols != rope->head_dim || q->eps != k->eps || q->wide_input ||
        k->wide_input)
        return kg_no(why, "q and k are not normalised by heads");
    if (!kg_step_heads_fit(rope->head_dim)) return kg_no(why, "heads of %u", rope->head_dim);
    return ropes_fit(at, rope, &at->n[3].args.rope, why);
}

static enum kg_status launch_heads(const struct kg_site *at, struct kg_error *err) {
    const struct kg_rmsnorm_args *q = &at->n[0].args.rmsnorm, *k = &at->n[1].args.rmsnorm;
    const struct kg_kv_write_args *kv = &at->n[4].args.kv_write;
    const struct kg_step_head_norms p = { q->y,      k->x,   kv->v,          q->weight,
                                          k->weight, q->eps, q->activations, heads_of(at, &at->n[2].args.rope, kv) };
    return kg_step_norm_heads(at->cuda, &p, err);
}

/* attention of one row: beside the operation's own launch, memory that is zeroed once */

static bool attention_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_attention_args *a = &at->n->args.attention;
    const uint64_t n_bytes = kg_attention_decode_bytes(at->cuda, a->n_heads / a->n_kv_heads, a->head_dim);
    (void)why;
    if (at->lowered->zeroed_bytes < n_bytes) at->lowered->zeroed_bytes = n_bytes;
    return true;
}

static enum kg_status launch_attention(const struct kg_site *at, struct kg_error *err) {
    struct kg_attention_args args = at->n->args.attention;
    args.n_rows = 1;
    args.n_keys = at->run->position + 1;
    return kg_attention_decode(at->cuda, &args, at->lowered->memory.data, err);
}

/* linear + add */

static bool residual_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_linear_args *a = &at->n[0].args.linear;
    if (a->output != at->n[1].args.add.activations) return kg_no(why, "a product of other precision than the sum");
    if (a->weight.n_rows % 2 != 0) return kg_no(why, "%u outputs are no pairs", a->weight.n_rows);
    return matrices_fit(at, KG_STEP_RESIDUAL, NULL, at->n, 1, why);
}

static enum kg_status launch_residual(const struct kg_site *at, struct kg_error *err) {
    struct kg_step_matrix m = product_of(at, KG_STEP_RESIDUAL, NULL, at->n, 1);
    m.y = at->n[1].args.add.y;
    m.y_precision = at->n[1].args.add.activations;
    return multiply(at, &m, err);
}

/* linear of quantised formats */

static bool linear_fits(const struct kg_site *at, struct kg_why *why) {
    if (at->n->args.linear.weight.n_rows % 2 != 0)
        return kg_no(why, "%u outputs are no pairs", at->n->args.linear.weight.n_rows);
    return matrices_fit(at, KG_STEP_PLAIN, NULL, at->n, 1, why);
}

static enum kg_status launch_linear(const struct kg_site *at, struct kg_error *err) {
    struct kg_step_matrix m = product_of(at, KG_STEP_PLAIN, NULL, at->n, 1);
    m.y = at->n->args.linear.y;
    m.y_precision = at->n->args.linear.output;
    return multiply(at, &m, err);
}

/* rmsnorm + gate, up + swiglu */

static enum kg_step_form form_of(const struct kg_swiglu_args *act) {
    return act->cubic != 0 ? KG_STEP_GELU : KG_STEP_GATED;
}

static bool gated_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_swiglu_args *act = &at->n[3].args.swiglu;
    if (act->cubic != 0 && act->limit != 0) return kg_no(why, "gelu gates with a limit");
    return matrices_fit(at, form_of(act), at->n, &at->n[1], 2, why);
}

static enum kg_status launch_gated(const struct kg_site *at, struct kg_error *err) {
    const struct kg_swiglu_args *act = &at->n[3].args.swiglu;
    struct kg_step_matrix m = product_of(at, form_of(act), at->n, &at->n[1], 2);
    m.y = act->y;
    m.y_precision = act->activations;
    m.gate = kg_swiglu_op_of(act->limit, act->alpha, act->up_offset);
    m.gelu = { act->alpha, act->cubic, act->up_offset };
    return multiply(at, &m, err);
}

/* rmsnorm + add */

static struct kg_step_norm_add norm_add_of(const struct kg_site *at) {
    const struct kg_rmsnorm_args *norm = &at->n[0].args.rmsnorm;
    return { norm->x, at->n[1].args.add.y, norm->weight, norm->n_cols, norm->eps, norm->activations };
}

static bool norm_add_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_rmsnorm_args *norm = &at->n[0].args.rmsnorm;
    const struct kg_step_norm_add p = norm_add_of(at);
    if (at->n->rows_per_id != 1) return kg_no(why, "the norm is of parts of a row");
    if (norm->wide_input || norm->activations != at->n[1].args.add.activations)
        return kg_no(why, "a norm of other precision than the sum");
    return kg_step_norm_add_fits(&p) || kg_no(why, "rows of %u elements are no whole vectors", p.n);
}

static enum kg_status launch_norm_add(const struct kg_site *at, struct kg_error *err) {
    const struct kg_step_norm_add p = norm_add_of(at);
    return kg_step_add_norm(at->cuda, &p, err);
}

/* rmsnorm + linear + router */

static bool router_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_weight *w = &at->n[1].args.linear.weight;
    return kg_step_router_fits(at->cuda, w) ||
           kg_no(why, "a %s router of %u columns; the kernel has f16, f32 of whole vectors",
                 kg_dtype_info(w->dtype)->name, w->n_cols);
}

static enum kg_status launch_router(const struct kg_site *at, struct kg_error *err) {
    const struct kg_rmsnorm_args *norm = &at->n[0].args.rmsnorm;
    const struct kg_linear_args *a = &at->n[1].args.linear;
    const struct kg_router_args *router = &at->n[2].args.router;
    const struct kg_step_router r = { norm->x,           norm_input(at->n), norm->weight,    norm->eps,
                                      norm->y,           norm->activations, a->weight.data,  a->weight.dtype,
                                      a->bias,           router->ids,       router->weights, a->weight.n_cols,
                                      router->n_experts, router->n_used };
    return kg_step_route(at->cuda, &r, err);
}

/* experts: gate, up + swiglu; down */

static bool experts_fit(const struct kg_site *at, struct kg_why *why) {
    const uint32_t n_used = at->n[0].rows_per_id, n_sharing[] = { n_used, n_used, 0, 1 };
    if (at->n[0].args.experts_linear.activations != KG_PRECISION_F16)
        return kg_no(why, "float32 activations; the kernel has float16");
    if (at->n[2].args.swiglu.cubic != 0) return kg_no(why, "gelu gates; the kernel has silu");
    if (n_used > KG_MXFP4_OWN_ROWS)
        return kg_no(why, "%u experts a row; the kernel has at most %d", n_used, (int)KG_MXFP4_OWN_ROWS);
    if (at->n[0].args.experts_linear.x != at->n[1].args.experts_linear.x)
        return kg_no(why, "gate and up are not of one row");
    for (int i : { 0, 1, 3 }) {
        const struct kg_experts_linear_args *a = &at->n[i].args.experts_linear;
        if (a->n_sharing != n_sharing[i]) return kg_no(why, "gate, up and down are not of one row's experts");
        if (!kg_mxfp4_repacked_range(at->cuda, &a->weight))
            return kg_no(why, "%s weights that are not repacked MXFP4", kg_dtype_info(a->weight.dtype)->name);
    }
    return true;
}

static struct kg_mxfp4_product expert_product_of(const struct kg_cuda_backend *cuda, const struct kg_node *n) {
    const struct kg_experts_linear_args *a = &n->args.experts_linear;
    struct kg_mxfp4_product p = kg_mxfp4_product_of(a, kg_mxfp4_repacked_range(cuda, &a->weight));
    p.n_rows = n->rows_per_id;
    return p;
}

static enum kg_status launch_experts(const struct kg_site *at, struct kg_error *err) {
    const struct kg_experts_linear_args *up = &at->n[1].args.experts_linear;
    const struct kg_swiglu_args *act = &at->n[2].args.swiglu;
    const struct kg_swiglu_form form = { act->limit, act->alpha, act->up_offset, 0 };
    const struct kg_mxfp4_product gate = expert_product_of(at->cuda, &at->n[0]);
    struct kg_mxfp4_product down = expert_product_of(at->cuda, &at->n[3]);
    down.ids_known = true;
    TRY(kg_mxfp4_gemv_gated(at->cuda, &gate, static_cast<const uint8_t *>(up->weight.data), up->bias, &form, err));
    return kg_mxfp4_gemv(at->cuda, &down, err);
}

/* experts_combine + add */

static bool combine_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_experts_combine_args *c = &at->n[0].args.experts_combine;
    return (!c->residual && c->activations == at->n[1].args.add.activations) ||
           kg_no(why, "the sum is not of the experts and the residual stream");
}

static enum kg_status launch_combine(const struct kg_site *at, struct kg_error *err) {
    struct kg_experts_combine_args args = at->n[0].args.experts_combine;
    args.residual = at->n[1].args.add.a;
    args.y = at->n[1].args.add.y;
    args.n_rows = 1;
    return kg_cuda_experts_combine(&at->cuda->base, &args, err);
}

/* experts_combine + add inside the next attention block: the sum is made by those who need it, the norm of q, k, v and
 * the residual stream's next product. */

struct pending_sites {
    struct kg_site qkv, attention, residual;
};

static struct pending_sites pending_sites_of(const struct kg_site *at) {
    const struct kg_experts_combine_args *c = &at->n->args.experts_combine;
    struct pending_sites s = { *at, *at, *at };
    s.qkv.n += 2, s.attention.n += 9, s.residual.n += 10;
    s.qkv.pending = s.residual.pending = { c->x, c->weights, c->n_used };
    return s;
}

static bool pending_fits(const struct kg_site *at, struct kg_why *why) {
    const struct pending_sites s = pending_sites_of(at);
    return combine_fits(at, why) && attention_fits(&s.attention, why) && residual_fits(&s.residual, why) &&
           qkv_fits(&s.qkv, why);
}

static enum kg_status launch_pending(const struct kg_site *at, struct kg_error *err) {
    const struct pending_sites s = pending_sites_of(at);
    TRY(launch_qkv(&s.qkv, err));
    TRY(launch_attention(&s.attention, err));
    return launch_residual(&s.residual, err);
}

#define NODE(i) (1u << (i))

/* The first row that fits is taken. */
const struct kg_fusion kg_fusions[] = {
    { "experts_combine + add + rmsnorm + q, k, v + rope + kv_write; attention; linear + add",
      { KG_OP_experts_combine, KG_OP_add, KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear, KG_OP_linear, KG_OP_rope,
        KG_OP_rope, KG_OP_kv_write, KG_OP_attention, KG_OP_linear, KG_OP_add },
      { { 1, 0, 1 },
        { 1, 1, 0 },
        { 2, 0, 1 },
        { 3, 0, 2 },
        { 4, 0, 2 },
        { 5, 0, 2 },
        { 6, 0, 3 },
        { 7, 0, 4 },
        { 8, 0, 7 },
        { 8, 1, 5 },
        { 9, 0, 6 },
        { 9, 1, 8 },
        { 10, 0, 9 },
        { 11, 0, 1 },
        { 11, 0, 11 },
        { 11, 1, 10 } },
      NODE(6) | NODE(8) | NODE(9) | NODE(11),
      pending_fits,
      launch_pending },
    { "rmsnorm + q, k, v + rope + kv_write",
      { KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear, KG_OP_linear, KG_OP_rope, KG_OP_rope, KG_OP_kv_write },
      { { 1, 0, 0 }, { 2, 0, 0 }, { 3, 0, 0 }, { 4, 0, 1 }, { 5, 0, 2 }, { 6, 0, 5 }, { 6, 1, 3 } },
      NODE(4) | NODE(6),
      qkv_fits,
      launch_qkv },
    { "rmsnorm + q, k, v",
      { KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear, KG_OP_linear },
      { { 1, 0, 0 }, { 2, 0, 0 }, { 3, 0, 0 } },
      NODE(1) | NODE(2) | NODE(3),
      products_fit,
      launch_products },
    { "rmsnorm of heads + rope + kv_write",
      { KG_OP_rmsnorm, KG_OP_rmsnorm, KG_OP_rope, KG_OP_rope, KG_OP_kv_write },
      { { 0, 0, 0 }, { 2, 0, 0 }, { 2, 0, 2 }, { 3, 0, 1 }, { 4, 0, 3 } },
      NODE(2) | NODE(4),
      heads_fit,
      launch_heads },
    { "rmsnorm + add",
      { KG_OP_rmsnorm, KG_OP_add },
      { { 1, 0, 1 }, { 1, 1, 0 } },
      NODE(1),
      norm_add_fits,
      launch_norm_add },
    { "attention in one launch", { KG_OP_attention }, {}, NODE(0), attention_fits, launch_attention },
    { "rmsnorm + gate, up + swiglu",
      { KG_OP_rmsnorm, KG_OP_linear, KG_OP_linear, KG_OP_swiglu },
      { { 1, 0, 0 }, { 2, 0, 0 }, { 3, 0, 1 }, { 3, 1, 2 } },
      NODE(3),
      gated_fits,
      launch_gated },
    { "linear + add",
      { KG_OP_linear, KG_OP_add },
      { { 1, 0, 1 }, { 1, 1, 0 } },
      NODE(1),
      residual_fits,
      launch_residual },
    { "linear of quantised formats", { KG_OP_linear }, {}, NODE(0), linear_fits, launch_linear },
    { "rmsnorm + linear + router",
      { KG_OP_rmsnorm, KG_OP_linear, KG_OP_router },
      { { 1, 0, 0 }, { 2, 0, 1 } },
      NODE(0) | NODE(2),
      router_fits,
      launch_router },
    { "experts' gate, up + swiglu; down",
      { KG_OP_experts_linear, KG_OP_experts_linear, KG_OP_swiglu, KG_OP_experts_linear },
      { { 2, 0, 0 }, { 2, 1, 1 }, { 3, 0, 2 } },
      NODE(2) | NODE(3),
      experts_fit,
      launch_experts },
    { "experts_combine + add",
      { KG_OP_experts_combine, KG_OP_add },
      { { 1, 0, 1 }, { 1, 1, 0 } },
      NODE(1),
      combine_fits,
      launch_combine },
};
const uint32_t kg_n_fusions = sizeof kg_fusions / sizeof *kg_fusions;
