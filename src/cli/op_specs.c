/* The table of operations, and from a call's tensors and parameters to each operation's arguments. */
#include "base/size.h"
#include "cli/op_spec.h"
#include <math.h>

static enum kg_status run_embedding(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_embedding_args args = {
        .activations = c->activations,
        .weight = kg_op_weight(c, "weight"),
        .ids = kg_op_data(c, "ids"),
        .n_rows = kg_op_length(c, "rows"),
        .y = kg_op_data(c, "out"),
        .positions = { .data = kg_op_data(c, "positions"),
                       .dtype = KG_DTYPE_F32,
                       .n_rows = kg_op_length(c, "n_positions"),
                       .n_cols = kg_op_length(c, "n_embd") },
        .scale = (float)kg_op_param(c, "scale"),
        .position = (uint32_t)kg_op_param(c, "first_position"),
    };
    return c->backend->ops->embedding(c->backend, &args, err);
}

static enum kg_status run_rmsnorm(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_rmsnorm_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .weight = kg_op_data(c, "weight"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_cols = kg_op_length(c, "n_cols"),
        .eps = (float)kg_op_param(c, "eps"),
    };
    return c->backend->ops->rmsnorm(c->backend, &args, err);
}

static enum kg_status run_layernorm(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_layernorm_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .weight = kg_op_data(c, "weight"),
        .bias = kg_op_data(c, "bias"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_cols = kg_op_length(c, "n_cols"),
        .eps = (float)kg_op_param(c, "eps"),
    };
    return c->backend->ops->layernorm(c->backend, &args, err);
}

static enum kg_status run_linear(struct kg_op_call *c, struct kg_error *err) {
    const uint32_t n_in = kg_op_length(c, "n_in"), n_out = kg_op_length(c, "n_out");
    struct kg_linear_args args = {
        .activations = c->activations,
        .output = c->activations,
        .x = kg_op_data(c, "x"),
        .weight = kg_op_weight(c, "weight"),
        .bias = kg_op_data(c, "bias"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
    };
    const struct kg_op_extent extent = { .n_rows = args.n_rows, .n_in = n_in, .n_out = n_out };
    const enum kg_status status = kg_op_workspace(c, &extent, err);
    if (status != KG_OK) return status;
    args.workspace = c->workspace;
    return c->backend->ops->linear(c->backend, &args, err);
}

static enum kg_status settle_rope(struct kg_op_call *c, struct kg_error *err) {
    const double asked = kg_op_param(c, "n_rot");
    const uint32_t n_rot = isnan(asked) ? kg_op_length(c, "head_dim") : (uint32_t)asked;
    if (kg_op_data(c, "factors") && kg_op_length(c, "half_rot") != n_rot / 2)
        return kg_fail(err, KG_ERR_USAGE, "tensor 'factors' has %u elements; n_rot / 2 = %u are meant",
                       kg_op_length(c, "half_rot"), n_rot / 2);
    return KG_OK;
}

static enum kg_status run_rope(struct kg_op_call *c, struct kg_error *err) {
    const double n_rot = kg_op_param(c, "n_rot");
    const struct kg_rope_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_heads = kg_op_length(c, "n_heads"),
        .head_dim = kg_op_length(c, "head_dim"),
        .position = (uint32_t)kg_op_param(c, "first_position"),
        .n_rot = isnan(n_rot) ? kg_op_length(c, "head_dim") : (uint32_t)n_rot,
        .pairing = kg_op_param(c, "interleaved") != 0 ? KG_ROPE_INTERLEAVED : KG_ROPE_HALF,
        .freq_base = (float)kg_op_param(c, "base"),
        .freq_scale = (float)kg_op_param(c, "scale"),
        .freq_factors = kg_op_data(c, "factors"),
        .magnitude = (float)kg_op_param(c, "magnitude"),
    };
    return c->backend->ops->rope(c->backend, &args, err);
}

static enum kg_status settle_kv_write(struct kg_op_call *c, struct kg_error *err) {
    if (kg_op_length(c, "n_ctx") == 0) {
        const uint64_t needed = (uint64_t)kg_op_param(c, "first_position") + kg_op_length(c, "rows");
        if (needed > UINT32_MAX)
            return kg_fail(err, KG_ERR_RANGE, "a cache of %llu positions", (unsigned long long)needed);
        kg_op_set_length(c, "n_ctx", needed);
    }
    return KG_OK;
}

static enum kg_status run_kv_write(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_kv_write_args args = {
        .activations = c->activations,
        .kv = c->kv,
        .k = kg_op_data(c, "k"),
        .v = kg_op_data(c, "v"),
        .k_cache = kg_op_data(c, "k_cache"),
        .v_cache = kg_op_data(c, "v_cache"),
        .n_rows = kg_op_length(c, "rows"),
        .n_kv_heads = kg_op_length(c, "n_kv_heads"),
        .head_dim = kg_op_length(c, "head_dim"),
        .n_ctx = kg_op_length(c, "n_ctx"),
        .position = (uint32_t)kg_op_param(c, "first_position"),
    };
    return c->backend->ops->kv_write(c->backend, &args, err);
}

static enum kg_status run_softmax(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_softmax_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_cols = kg_op_length(c, "n_cols"),
        .scale = (float)kg_op_param(c, "scale"),
    };
    return c->backend->ops->softmax(c->backend, &args, err);
}

static enum kg_status run_add(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_add_args args = {
        .activations = c->activations,
        .a = kg_op_data(c, "a"),
        .b = kg_op_data(c, "b"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_cols = kg_op_length(c, "n_cols"),
    };
    return c->backend->ops->add(c->backend, &args, err);
}

static enum kg_status run_swiglu(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_swiglu_args args = {
        .activations = c->activations,
        .gate = kg_op_data(c, "gate"),
        .up = kg_op_data(c, "up"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_cols = kg_op_length(c, "n_cols"),
        .limit = (float)kg_op_param(c, "limit"),
        .alpha = (float)kg_op_param(c, "alpha"),
        .up_offset = (float)kg_op_param(c, "up_offset"),
        .cubic = (float)kg_op_param(c, "cubic"),
    };
    return c->backend->ops->swiglu(c->backend, &args, err);
}

static enum kg_status run_gelu(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_gelu_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_cols = kg_op_length(c, "n_cols"),
        .form = kg_op_param(c, "erf") != 0 ? KG_GELU_ERF : KG_GELU_TANH,
    };
    return c->backend->ops->gelu(c->backend, &args, err);
}

#define WEIGHT_DTYPE                                                                                                   \
    { "weight_dtype", KG_OP_DTYPE, NAN, "type of NAME_bytes, as q4_0 or its GGUF number" }
#define EPS                                                                                                            \
    { "eps", KG_OP_NUMBER, 1e-6, "added to the mean square" }
#define SWIGLU_PARAMS                                                                                                  \
    { "limit", KG_OP_NUMBER, 0, "of gate (from above) and up, 0: none; gpt-oss 7" },                                   \
        { "alpha", KG_OP_NUMBER, 1, "above 0; 1: silu; gpt-oss 1.702" },                                               \
        { "up_offset", KG_OP_NUMBER, 0, "added to up; gpt-oss 1" }, {                                                  \
        "cubic", KG_OP_NUMBER, 0, "0: none; gemma3 0.044715, with alpha sqrt(8 / pi)"                                  \
    }

const struct kg_op_spec KG_OP_SPECS[] = {
    { .name = "embedding",
      .equation = "out[r] = scale * weight[ids[r]] + positions[first_position + r]",
      .tensors = { { "weight", KG_OP_WEIGHT, "n_vocab n_embd", false },
                   { "ids", KG_OP_IDS, "rows", false },
                   { "positions", KG_OP_VECTOR, "n_positions n_embd", true },
                   { "out", KG_OP_OUT, "rows n_embd", false } },
      .params = { WEIGHT_DTYPE,
                  { "first_position", KG_OP_COUNT, 0, "position of row 0" },
                  { "scale", KG_OP_NUMBER, 1, "of the weight's rows; gemma3 sqrt(n_embd)" } },
      .run = run_embedding },
    { .name = "rmsnorm",
      .equation = "out[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * weight[i]",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_cols", false },
                   { "weight", KG_OP_VECTOR, "n_cols", false },
                   { "out", KG_OP_OUT, "rows n_cols", false } },
      .params = { EPS },
      .run = run_rmsnorm },
    { .name = "layernorm",
      .equation = "out[r][i] = (x[r][i] - mean_j x[r][j]) / sqrt(var_j x[r][j] + eps) * weight[i] + bias[i]",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_cols", false },
                   { "weight", KG_OP_VECTOR, "n_cols", false },
                   { "bias", KG_OP_VECTOR, "n_cols", true },
                   { "out", KG_OP_OUT, "rows n_cols", false } },
      .params = { { "eps", KG_OP_NUMBER, 1e-5, "added to the variance" } },
      .run = run_layernorm },
    { .name = "linear",
      .equation = "out[r][o] = sum_i x[r][i] * weight[o][i] + bias[o]",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_in", false },
                   { "weight", KG_OP_WEIGHT, "n_out n_in", false },
                   { "bias", KG_OP_VECTOR, "n_out", true },
                   { "out", KG_OP_OUT, "rows n_out", false } },
      .params = { WEIGHT_DTYPE },
      .run = run_linear },
    { .name = "rope",
      .equation = "pairs (a, b) of the first n_rot dims rotate by (first_position + r) * scale * base^(-2i/n_rot) / "
                  "factors[i], times magnitude",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_heads head_dim", false },
                   { "factors", KG_OP_VECTOR, "half_rot", true },
                   { "out", KG_OP_OUT, "rows n_heads head_dim", false } },
      .params = { { "first_position", KG_OP_COUNT, 0, "position of row 0" },
                  { "n_rot", KG_OP_COUNT, NAN, "dims of a head that rotate (head_dim)" },
                  { "interleaved", KG_OP_FLAG, 0, "pairs (2i, 2i+1) instead of (i, i + n_rot/2)" },
                  { "base", KG_OP_NUMBER, 10000, "of the frequencies" },
                  { "scale", KG_OP_NUMBER, 1, "of positions" },
                  { "magnitude", KG_OP_NUMBER, 1, "of cosine and sine, above 0" } },
      .settle = settle_rope,
      .run = run_rope },
    { .name = "kv_write",
      .equation =
          "k_cache[h][first_position + r] = k[r][h], v_cache likewise; what is not written stays (zero if not given)",
      .tensors = { { "k", KG_OP_ACTIVATIONS, "rows n_kv_heads head_dim", false },
                   { "v", KG_OP_ACTIVATIONS, "rows n_kv_heads head_dim", false },
                   { "k_cache", KG_OP_CACHE, "n_kv_heads n_ctx head_dim", true },
                   { "v_cache", KG_OP_CACHE, "n_kv_heads n_ctx head_dim", true } },
      .params = { { "first_position", KG_OP_COUNT, 0, "of row 0" } },
      .settle = settle_kv_write,
      .run = run_kv_write },
    { .name = "attention",
      .equation = "out[r][h] = softmax_j(q[r][h] . k[j][g] * scale) v[j][g], g = h / (n_heads / n_kv_heads); "
                  "sinks[h] is one more logit, without a value",
      .tensors = { { "q", KG_OP_ACTIVATIONS, "rows n_heads head_dim", false },
                   { "k", KG_OP_ACTIVATIONS, "n_keys n_kv_heads head_dim", false },
                   { "v", KG_OP_ACTIVATIONS, "n_keys n_kv_heads head_dim", false },
                   { "sinks", KG_OP_VECTOR, "n_heads", true },
                   { "out", KG_OP_OUT, "rows n_heads head_dim", false } },
      .params = { { "scale", KG_OP_NUMBER, NAN, "of the products (1/sqrt(head_dim))" },
                  { "causal", KG_OP_FLAG, 1,
                    "1: row r, at position n_keys - rows + r, sees keys up to its own; 0: all" },
                  { "window", KG_OP_COUNT, 0, "keys a row sees at most, 0: all" },
                  { "n_past", KG_OP_COUNT, NAN, "if given, must be n_keys - rows" },
                  { "n_ctx", KG_OP_COUNT, NAN, "positions of the cache the keys are written to (n_keys)" } },
      .settle = kg_op_settle_attention,
      .run = kg_op_run_attention },
    { .name = "softmax",
      .equation = "out[r][i] = exp(scale * x[r][i]) / sum_j exp(scale * x[r][j]); 0 where x is -inf",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_cols", false }, { "out", KG_OP_OUT, "rows n_cols", false } },
      .params = { { "scale", KG_OP_NUMBER, 1, "above 0" } },
      .run = run_softmax },
    { .name = "add",
      .equation = "out = a + b",
      .tensors = { { "a", KG_OP_ACTIVATIONS, "rows n_cols", false },
                   { "b", KG_OP_ACTIVATIONS, "rows n_cols", false },
                   { "out", KG_OP_OUT, "rows n_cols", false } },
      .run = run_add },
    { .name = "swiglu",
      .equation = "out = g / (1 + exp(-alpha * (g + cubic * g^3))) * (u + up_offset), g = min(gate, limit), u = "
                  "clamp(up, -limit, limit)",
      .tensors = { { "gate", KG_OP_ACTIVATIONS, "rows n_cols", false },
                   { "up", KG_OP_ACTIVATIONS, "rows n_cols", false },
                   { "out", KG_OP_OUT, "rows n_cols", false } },
      .params = { SWIGLU_PARAMS },
      .run = run_swiglu },
    { .name = "gelu",
      .equation = "out = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), or x / 2 * (1 + erf(x / sqrt(2)))",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_cols", false }, { "out", KG_OP_OUT, "rows n_cols", false } },
      .params = { { "erf", KG_OP_FLAG, 0, "1: the form with erf; 0: with tanh, as GPT-2" } },
      .run = run_gelu },
    { .name = "router",
      .equation = "ids[r] = the n_used largest logits[r] in order, weights[r] = softmax over those",
      .tensors = { { "logits", KG_OP_VECTOR, "rows n_experts", false },
                   { "ids", KG_OP_OUT_IDS, "rows n_used", false },
                   { "weights", KG_OP_OUT_VECTOR, "rows n_used", false } },
      .settle = kg_op_settle_router,
      .run = kg_op_run_router },
    { .name = "experts_linear",
      .equation = "out[r][o] = sum_i x[r / n_sharing][i] * weight[ids[r]][o][i] + bias[ids[r]][o], "
                  "n_sharing = rows / x_rows",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "x_rows n_in", false },
                   { "weight", KG_OP_WEIGHT, "n_experts n_out n_in", false },
                   { "bias", KG_OP_VECTOR, "n_experts n_out", true },
                   { "ids", KG_OP_IDS, "rows", false },
                   { "out", KG_OP_OUT, "rows n_out", false } },
      .params = { WEIGHT_DTYPE },
      .settle = kg_op_settle_experts_linear,
      .run = kg_op_run_experts_linear },
    { .name = "experts_combine",
      .equation = "out[r][i] = residual[r][i] + sum_j weights[r][j] * x[r][j][i]",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_used n_cols", false },
                   { "weights", KG_OP_VECTOR, "rows n_used", false },
                   { "residual", KG_OP_ACTIVATIONS, "rows n_cols", true },
                   { "out", KG_OP_OUT, "rows n_cols", false } },
      .run = kg_op_run_experts_combine },
    { .name = "sdpa",
      .equation = "out[b][h][i] = sum_j exp(s[j] - m) v[b][g][j] / (sum_j exp(s[j] - m) + exp(sinks[h] - m)), "
                  "s[j] = q[b][h][i] . k[b][g][j] * scale, g = h / (n_heads / n_kv_heads)",
      .tensors = { { "q", KG_OP_QUANTIZED, "n_batch n_heads n_queries head_dim", false },
                   { "k", KG_OP_QUANTIZED, "n_batch n_kv_heads n_keys head_dim", false },
                   { "v", KG_OP_QUANTIZED, "n_batch n_kv_heads n_keys head_dim", false },
                   { "q_scale", KG_OP_VECTOR, "n_batch n_heads", true },
                   { "k_scale", KG_OP_VECTOR, "n_batch n_kv_heads", true },
                   { "v_scale", KG_OP_VECTOR, "n_batch n_kv_heads", true },
                   { "sinks", KG_OP_VECTOR, "n_heads", true },
                   { "out", KG_OP_OUT, "n_batch n_heads n_queries head_dim", false } },
      .params = { { "scale", KG_OP_NUMBER, NAN, "of the products (1/sqrt(head_dim))" },
                  { "causal", KG_OP_FLAG, 0,
                    "1: query i, at position n_keys - n_queries + i, sees keys up to its own; 0: all" },
                  { "window", KG_OP_COUNT, 0, "keys a query sees at most (causal), 0: all" },
                  { "variant", KG_OP_VARIANT, KG_SDPA_AUTO, "the way to compute it" } },
      .settle = kg_op_settle_sdpa,
      .run = kg_op_run_sdpa },
    { .name = "sdpa_quantize",
      .equation =
          "scale[b][h] = max |x[b][h]| / 448 (of int8 127; 1 if that is 0), out = e4m3 or int8 (x / scale[b][h])",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "n_batch n_heads n_rows head_dim", false },
                   { "out", KG_OP_OUT_QUANTIZED, "n_batch n_heads n_rows head_dim", false },
                   { "scale", KG_OP_OUT_VECTOR, "n_batch n_heads", false } },
      .params = { { "int8", KG_OP_FLAG, 0, "1: to int8; 0: to E4M3" } },
      .settle = kg_op_settle_sdpa_quantize,
      .run = kg_op_run_sdpa_quantize },
    { .name = "attention_weights",
      .equation = "out[h][i] = softmax_j(q[i][h] . k[j][g] * scale) of the keys j that query i sees, 0 of the others, "
                  "g = h / (n_heads / n_kv_heads); sinks[h] is one more logit",
      .tensors = { { "q", KG_OP_ACTIVATIONS, "n_queries n_heads head_dim", false },
                   { "k", KG_OP_ACTIVATIONS, "n_keys n_kv_heads head_dim", false },
                   { "sinks", KG_OP_VECTOR, "n_heads", true },
                   { "out", KG_OP_OUT, "n_heads n_queries n_keys", false } },
      .params = { { "scale", KG_OP_NUMBER, NAN, "of the products (1/sqrt(head_dim))" },
                  { "causal", KG_OP_FLAG, 1,
                    "1: query i, at position n_keys - n_queries + i, sees keys up to its own; 0: all" },
                  { "window", KG_OP_COUNT, 0, "keys a query sees at most (causal), 0: all" } },
      .run = kg_op_run_attention_weights },
    { .name = "norm_qkv",
      .equation = "n[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * norm_weight[i]; "
                  "q[r][o] = sum_i n[r][i] * q_weight[o][i] + q_bias[o], k and v likewise",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_in", false },
                   { "norm_weight", KG_OP_VECTOR, "n_in", false },
                   { "q_weight", KG_OP_WEIGHT, "n_q n_in", false },
                   { "k_weight", KG_OP_WEIGHT, "n_k n_in", false },
                   { "v_weight", KG_OP_WEIGHT, "n_v n_in", false },
                   { "q_bias", KG_OP_VECTOR, "n_q", true },
                   { "k_bias", KG_OP_VECTOR, "n_k", true },
                   { "v_bias", KG_OP_VECTOR, "n_v", true },
                   { "q", KG_OP_OUT, "rows n_q", false },
                   { "k", KG_OP_OUT, "rows n_k", false },
                   { "v", KG_OP_OUT, "rows n_v", false } },
      .params = { WEIGHT_DTYPE, EPS },
      .run = kg_op_run_norm_qkv },
    { .name = "norm_swiglu",
      .equation = "n[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * norm_weight[i]; "
                  "out = swiglu(n gate_weight^T + gate_bias, n up_weight^T + up_bias)",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_in", false },
                   { "norm_weight", KG_OP_VECTOR, "n_in", false },
                   { "gate_weight", KG_OP_WEIGHT, "n_out n_in", false },
                   { "up_weight", KG_OP_WEIGHT, "n_out n_in", false },
                   { "gate_bias", KG_OP_VECTOR, "n_out", true },
                   { "up_bias", KG_OP_VECTOR, "n_out", true },
                   { "out", KG_OP_OUT, "rows n_out", false } },
      .params = { WEIGHT_DTYPE, EPS, SWIGLU_PARAMS },
      .run = kg_op_run_norm_swiglu },
    { .name = "linear_add",
      .equation = "out[r][o] = residual[r][o] + sum_i x[r][i] * weight[o][i] + bias[o]",
      .tensors = { { "x", KG_OP_ACTIVATIONS, "rows n_in", false },
                   { "weight", KG_OP_WEIGHT, "n_out n_in", false },
                   { "bias", KG_OP_VECTOR, "n_out", true },
                   { "residual", KG_OP_ACTIVATIONS, "rows n_out", false },
                   { "out", KG_OP_OUT, "rows n_out", false } },
      .params = { WEIGHT_DTYPE },
      .run = kg_op_run_linear_add },
};
const size_t KG_OP_N_SPECS = KG_COUNT_OF(KG_OP_SPECS);

/* An operation added to the engine has a row here. */
#define COUNT_OP(op) +1
_Static_assert(KG_COUNT_OF(KG_OP_SPECS) == 0 KG_OP_LIST(COUNT_OP), "a row an operation");
