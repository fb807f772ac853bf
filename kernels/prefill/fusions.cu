/* The table of fusions of many rows. A launch costs little beside a matrix product, but rows that cross memory between
 * launches do not: what these fusions leave out is a fifth of the time of 512 tokens of Qwen2.5-0.5B. */
#include "kernels/decode/fusions.h"
#include "kernels/gemm/gated.h"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/ops/linear.h"
#include "kernels/prefill/heads.h"

/* q, k, v + rope + kv_write */

static bool heads_fit(const struct kg_site *at, struct kg_why *why) {
    const struct kg_rope_args *q = &at->n[3].args.rope, *k = &at->n[4].args.rope;
    const struct kg_kv_write_args *kv = &at->n[5].args.kv_write;
    if (!kg_same_frequencies(q, k) || q->pairing != k->pairing || q->head_dim != k->head_dim)
        return kg_no(why, "q and k are not rotated alike");
    if (k->n_heads != kv->n_kv_heads || k->head_dim != kv->head_dim)
        return kg_no(why, "%u heads of %u keys, a cache of %u heads of %u", k->n_heads, k->head_dim, kv->n_kv_heads,
                     kv->head_dim);
    for (int i = 0; i < 3; i++)
        if (at->n[i].args.linear.output != q->activations)
            return kg_no(why, "outputs of other precision than the activations");
    return true;
}

/* The node's product for the run's rows. */
static struct kg_linear_args product_of(const struct kg_site *at, int node) {
    struct kg_linear_args args = at->n[node].args.linear;
    args.n_rows = at->run->n_rows;
    return args;
}

/* Where a bias would cost each product a launch, float32 products go to the workspace, and the bias is added with the
 * rotation. False: they do not fit. */
static bool place_wide(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args, float **to) {
    uint64_t free_bytes, at = 0;
    char *space = static_cast<char *>(kg_cuda_linear_free_space(args, &free_bytes));
    for (int i = 0; i < 3; i++) {
        if (!kg_cuda_linear_finishes(cuda, &args[i])) return false;
        to[i] = reinterpret_cast<float *>(space + at);
        at += ((uint64_t)args[i].n_rows * args[i].weight.n_rows * sizeof(float) + 255) / 256 * 256;
    }
    return at <= free_bytes;
}

static enum kg_status launch_heads(const struct kg_site *at, struct kg_error *err) {
    const struct kg_rope_args *rope = &at->n[3].args.rope;
    const struct kg_kv_write_args *kv = &at->n[5].args.kv_write;
    struct kg_linear_args args[] = { product_of(at, 0), product_of(at, 1), product_of(at, 2) };
    struct kg_row_heads heads = {};
    float *to[3];
    heads.wide = place_wide(at->cuda, args, to);
    decltype(heads.q) *parts[] = { &heads.q, &heads.k, &heads.v };
    for (int i = 0; i < 3; i++) {
        if (heads.wide) {
            parts[i]->bias = args[i].bias;
            args[i].bias = NULL, args[i].output = KG_PRECISION_F32, args[i].y = to[i];
        }
        parts[i]->x = args[i].y;
    }
    const enum kg_status status = kg_cuda_linear_each(at->cuda, args, 3, err);
    if (status) return status;
    heads.activations = rope->activations, heads.kv = kv->kv;
    heads.y = rope->y, heads.k_cache = kv->k_cache, heads.v_cache = kv->v_cache;
    heads.n_rows = at->run->n_rows, heads.n_heads = rope->n_heads, heads.n_kv_heads = kv->n_kv_heads;
    heads.head_dim = rope->head_dim, heads.n_ctx = kv->n_ctx, heads.position = at->run->position;
    heads.half = rope->pairing == KG_ROPE_HALF;
    heads.angles = kg_rope_angles_of(rope, at->run->rope_factors);
    return kg_cuda_row_heads(at->cuda, &heads, err);
}

/* linear + add */

static bool residual_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_linear_args *a = &at->n[0].args.linear;
    return a->output == at->n[1].args.add.activations || kg_no(why, "a product of other precision than the sum");
}

static struct kg_linear_args residual_of(const struct kg_site *at) {
    struct kg_linear_args args = product_of(at, 0);
    args.y = at->n[1].args.add.y;
    return args;
}

static bool residual_takes(const struct kg_site *at) {
    const struct kg_linear_args args = residual_of(at);
    return kg_cuda_linear_adds(at->cuda, &args);
}

static enum kg_status launch_residual(const struct kg_site *at, struct kg_error *err) {
    const struct kg_linear_args args = residual_of(at);
    return kg_cuda_linear_residual(at->cuda, &args, err);
}

/* experts_combine + add */

static bool combine_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_experts_combine_args *a = &at->n[0].args.experts_combine;
    if (a->residual) return kg_no(why, "a sum that has a residual");
    return a->activations == at->n[1].args.add.activations || kg_no(why, "a sum of other precision than the residual");
}

static enum kg_status launch_combine(const struct kg_site *at, struct kg_error *err) {
    struct kg_experts_combine_args args = at->n[0].args.experts_combine;
    const struct kg_add_args *add = &at->n[1].args.add;
    args.n_rows = at->run->n_rows;
    args.residual = add->a, args.y = add->y;
    return kg_cuda_experts_combine(&at->cuda->base, &args, err);
}

/* gate, up + swiglu: in one launch; where no kernel takes them, both products in one where they lie so */

static bool gated_of(const struct kg_site *at, struct kg_few_rows_product *p) {
    const struct kg_linear_args args[] = { product_of(at, 0), product_of(at, 1) };
    const struct kg_swiglu_args *act = &at->n[2].args.swiglu;
    if (!kg_cuda_linear_plain_product(args, 2, p)) return false;
    p->form = act->cubic != 0 ? KG_FEW_ROWS_GEGLU : KG_FEW_ROWS_SWIGLU;
    p->part[0].y = act->y;
    p->output = act->activations;
    p->gate = kg_swiglu_op_of(act->limit, act->alpha, act->up_offset);
    p->gelu = { act->alpha, act->cubic, act->up_offset };
    return true;
}

/* The same of repacked weights. */
static bool repacked_gated_of(const struct kg_site *at, struct kg_mxfp4_gated *p) {
    const struct kg_linear_args gate = product_of(at, 0), up = product_of(at, 1);
    const struct kg_swiglu_args *act = &at->n[2].args.swiglu;
    struct kg_mxfp4_product second;
    if (!kg_cuda_linear_repacked(at->cuda, &gate, &p->gate) || !kg_cuda_linear_repacked(at->cuda, &up, &second) ||
        act->activations != KG_PRECISION_F16)
        return false;
    p->gate.y = act->y, p->gate.y_is_f16 = true;
    p->up = second.weight, p->up_bias = second.bias;
    p->form = { act->limit, act->alpha, act->up_offset, act->cubic };
    return kg_mxfp4_gated_takes(at->cuda, &p->gate);
}

static bool is_f16_range(const struct kg_cuda_backend *cuda, const struct kg_weight *w) {
    const struct kg_mxfp4_range *repacked = kg_mxfp4_repacked_range(cuda, w);
    return repacked && repacked->f16;
}

static bool gated_fits(const struct kg_site *at, struct kg_why *why) {
    const struct kg_linear_args *gate = &at->n[0].args.linear, *up = &at->n[1].args.linear;
    const struct kg_swiglu_args *act = &at->n[2].args.swiglu;
    const bool are_f16 = gate->weight.dtype == KG_DTYPE_F16 && up->weight.dtype == KG_DTYPE_F16,
               are_repacked = is_f16_range(at->cuda, &gate->weight) && is_f16_range(at->cuda, &up->weight);
    if ((!are_f16 && !are_repacked) || gate->activations != KG_PRECISION_F16)
        return kg_no(why, "%s and %s weights; the kernels have f16, and repacked mxfp4",
                     kg_dtype_info(gate->weight.dtype)->name, kg_dtype_info(up->weight.dtype)->name);
    if (act->cubic != 0 && act->limit != 0) return kg_no(why, "gelu gates with a limit");
    return gate->weight.n_rows == up->weight.n_rows || kg_no(why, "gate and up are not alike");
}

static bool gated_takes(const struct kg_site *at) {
    const struct kg_linear_args gate = product_of(at, 0);
    struct kg_mxfp4_gated repacked;
    return gate.weight.dtype == KG_DTYPE_F16 ? kg_cuda_linear_many_rows(&gate) : repacked_gated_of(at, &repacked);
}

static enum kg_status launch_gated(const struct kg_site *at, struct kg_error *err) {
    const struct kg_linear_args args[] = { product_of(at, 0), product_of(at, 1) };
    struct kg_few_rows_product p;
    struct kg_mxfp4_gated repacked;
    const bool is_f16 = gated_of(at, &p);
    if (is_f16 && kg_cuda_few_rows_takes(at->cuda, &p)) return kg_cuda_few_rows(at->cuda, &p, err);
    if (is_f16 && kg_cuda_gated_takes(at->cuda, &p)) return kg_cuda_gated(at->cuda, &p, err);
    if (repacked_gated_of(at, &repacked)) return kg_mxfp4_gemm_gated(at->cuda, &repacked, err);
    const enum kg_status status = kg_cuda_linear_each(at->cuda, args, 2, err);
    return status ? status : kg_plan_run_node(&at->cuda->base, &at->n[2], at->run, err);
}

/* experts: gate, up + swiglu; down */

/* From so many rows on, one pass over rows sorted by expert; up to KG_MXFP4_OWN_ROWS gate and up have a kernel of their
 * own. 18 rows of GPT-OSS-20B, a layer: 112 us in one pass, 153 node by node. */
enum { EXPERTS_FROM_ROWS = KG_MXFP4_OWN_ROWS + 1 };

/* What all three products are of. */
static bool experts_are_alike(const struct kg_experts_linear_args *gate, const struct kg_experts_linear_args *up,
                              const struct kg_experts_linear_args *down) {
    const uint32_t n = gate->n_experts, n_ff = gate->weight.n_rows;
    return gate->x == up->x && gate->ids == up->ids && gate->ids == down->ids && gate->n_sharing == up->n_sharing &&
           down->n_sharing == 1 && up->n_experts == n && down->n_experts == n && up->weight.n_rows == n_ff &&
           up->weight.n_cols == gate->weight.n_cols && down->weight.n_cols == n_ff / n;
}

static bool experts_fit(const struct kg_site *at, struct kg_why *why) {
    const struct kg_experts_linear_args *gate = &at->n[0].args.experts_linear, *up = &at->n[1].args.experts_linear,
                                        *down = &at->n[3].args.experts_linear;
    const struct kg_swiglu_args *act = &at->n[2].args.swiglu;
    if (gate->activations != KG_PRECISION_F16 || act->activations != KG_PRECISION_F16)
        return kg_no(why, "float32 activations; the kernel has float16");
    if (act->cubic != 0) return kg_no(why, "gelu gates; the kernel has silu");
    if (!experts_are_alike(gate, up, down) || gate->wide_output || up->wide_output)
        return kg_no(why, "gate, up and down are not of the same rows' experts");
    if (!gate->workspace) return kg_no(why, "no workspace for sorted rows");
    for (const struct kg_experts_linear_args *a : { gate, up, down }) {
        const struct kg_mxfp4_range *repacked = kg_mxfp4_repacked_range(at->cuda, &a->weight);
        if (!repacked) return kg_no(why, "%s weights that are not repacked", kg_dtype_info(a->weight.dtype)->name);
        if (!repacked->f16) return kg_no(why, "scales beyond float16's range");
        if (!kg_vector_aligned(a->x) || !kg_vector_aligned(a->y)) return kg_no(why, "rows that are not on 16 bytes");
    }
    return true;
}

/* The node's product for the run's rows. */
static struct kg_mxfp4_product expert_product_of(const struct kg_site *at, int node) {
    struct kg_experts_linear_args args = at->n[node].args.experts_linear;
    args.n_rows = at->run->n_rows * at->n[node].rows_per_id;
    return kg_mxfp4_product_of(&args, kg_mxfp4_repacked_range(at->cuda, &args.weight));
}

static bool experts_take(const struct kg_site *at) {
    const uint32_t n_rows = at->run->n_rows;
    return n_rows >= EXPERTS_FROM_ROWS &&
           kg_mxfp4_experts_take(n_rows * at->n[0].rows_per_id, at->n[0].args.experts_linear.n_experts);
}

static enum kg_status launch_experts(const struct kg_site *at, struct kg_error *err) {
    const struct kg_experts_linear_args *up = &at->n[1].args.experts_linear;
    const struct kg_swiglu_args *act = &at->n[2].args.swiglu;
    const struct kg_mxfp4_experts p = { expert_product_of(at, 0),
                                        expert_product_of(at, 3),
                                        static_cast<const uint8_t *>(up->weight.data),
                                        up->bias,
                                        { act->limit, act->alpha, act->up_offset, 0 } };
    return kg_mxfp4_run_experts(at->cuda, &p, err);
}

#define NODE(i) (1u << (i))

const struct kg_fusion kg_row_fusions[] = {
    { "q, k, v + rope + kv_write of rows",
      { KG_OP_linear, KG_OP_linear, KG_OP_linear, KG_OP_rope, KG_OP_rope, KG_OP_kv_write },
      { { 3, 0, 0 }, { 4, 0, 1 }, { 5, 0, 4 }, { 5, 1, 2 } },
      NODE(3) | NODE(5),
      heads_fit,
      launch_heads,
      NULL },
    { "linear + add of rows",
      { KG_OP_linear, KG_OP_add },
      { { 1, 0, 1 }, { 1, 1, 0 } },
      NODE(1),
      residual_fits,
      launch_residual,
      residual_takes },
    { "experts_combine + add of rows",
      { KG_OP_experts_combine, KG_OP_add },
      { { 1, 0, 1 }, { 1, 1, 0 } },
      NODE(1),
      combine_fits,
      launch_combine,
      NULL },
    { "gate, up + swiglu of rows",
      { KG_OP_linear, KG_OP_linear, KG_OP_swiglu },
      { { 2, 0, 0 }, { 2, 1, 1 } },
      NODE(2),
      gated_fits,
      launch_gated,
      gated_takes },
    { "experts' gate, up + swiglu; down of rows",
      { KG_OP_experts_linear, KG_OP_experts_linear, KG_OP_swiglu, KG_OP_experts_linear },
      { { 2, 0, 0 }, { 2, 1, 1 }, { 3, 0, 2 } },
      NODE(3),
      experts_fit,
      launch_experts,
      experts_take },
};
const uint32_t kg_n_row_fusions = sizeof kg_row_fusions / sizeof *kg_row_fusions;
