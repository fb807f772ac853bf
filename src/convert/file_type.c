#include "convert/file_type.h"
#include "base/size.h"
#include "base/utf8.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Bits of file types; one without has one dtype for all matrices, and no rule names it. */
enum {
    ALIKE = 0,
    Q8_0 = 1 << 0,
    Q4_0 = 1 << 1,
    Q5_0 = 1 << 2,
    Q4_K_S = 1 << 3,
    Q4_K_M = 1 << 4,
    Q5_K_S = 1 << 5,
    Q5_K_M = 1 << 6,
    Q6_K = 1 << 7,
    MXFP4_MOE = 1 << 8,
    QUANTISED = Q8_0 | Q4_0 | Q5_0 | Q4_K_S | Q4_K_M | Q5_K_S | Q5_K_M | Q6_K,
};

static const struct kg_file_type TYPES[] = {
    { "F32", ALIKE, 0, KG_DTYPE_F32 },       { "F16", ALIKE, 1, KG_DTYPE_F16 },
    { "BF16", ALIKE, 32, KG_DTYPE_BF16 },    { "Q8_0", Q8_0, 7, KG_DTYPE_Q8_0 },
    { "Q6_K", Q6_K, 18, KG_DTYPE_Q6_K },     { "Q5_K_M", Q5_K_M, 17, KG_DTYPE_Q5_K },
    { "Q5_K_S", Q5_K_S, 16, KG_DTYPE_Q5_K }, { "Q5_K", ALIKE, 16, KG_DTYPE_Q5_K },
    { "Q5_0", Q5_0, 8, KG_DTYPE_Q5_0 },      { "Q4_K_M", Q4_K_M, 15, KG_DTYPE_Q4_K },
    { "Q4_K_S", Q4_K_S, 14, KG_DTYPE_Q4_K }, { "Q4_K", ALIKE, 14, KG_DTYPE_Q4_K },
    { "Q4_0", Q4_0, 2, KG_DTYPE_Q4_0 },      { "MXFP4_MOE", MXFP4_MOE, 38, KG_DTYPE_Q8_0 },
    { "MXFP4", ALIKE, 38, KG_DTYPE_MXFP4 },
};

/* What a tensor is to the rules. */
enum { OUTPUT = 1, EMBEDDING = 2, V = 4, K = 8, ATTENTION_OUTPUT = 16, DOWN = 32, OTHER = 64, ALL = 127 };

/* The first part that the tensor's name has in it: attn_output.weight is no output.weight. A fused attn_qkv counts as
 * V. */
static const struct {
    const char *part;
    int role;
} ROLES[] = {
    { "attn_output.weight", ATTENTION_OUTPUT },
    { "attn_qkv.weight", V },
    { "attn_v.weight", V },
    { "attn_k.weight", K },
    { "ffn_down", DOWN },
    { "output.weight", OUTPUT },
    { "token_embd.weight", EMBEDDING },
    { "", OTHER },
};

/* What else a rule asks for. */
enum condition {
    ALWAYS,
    SPLIT_ROWS,   /* the rows are no whole blocks of the type's dtype */
    EXPERTS,      /* the tensor has a matrix for each expert */
    MORE_BITS,    /* the layer is in the first or last eighth, or every third of those between */
    FIRST_FOUR,   /* the layer is one of the first four */
    FIRST_EIGHTH, /* ... in the first eighth */
    EIGHT_EXPERTS,
    SIZE_70B, /* llama of 80 layers with groups of heads, where V is small; and qwen2 of 80 */
};

/* The first row that fits decides; without one it is the type's dtype. A tied embedding is an OUTPUT. */
static const struct rule {
    unsigned types;
    int roles;
    enum condition when;
    enum kg_dtype dtype;
} RULES[] = {
    { MXFP4_MOE, ALL, EXPERTS, KG_DTYPE_MXFP4 },
    { QUANTISED, OUTPUT, SPLIT_ROWS, KG_DTYPE_Q8_0 },
    { QUANTISED & ~Q8_0, OUTPUT, ALWAYS, KG_DTYPE_Q6_K },
    { QUANTISED, V | K, EIGHT_EXPERTS, KG_DTYPE_Q8_0 },
    { Q4_K_S | Q4_K_M, ATTENTION_OUTPUT, EIGHT_EXPERTS, KG_DTYPE_Q5_K },
    { Q4_K_M | Q5_K_M, V | DOWN, MORE_BITS, KG_DTYPE_Q6_K },
    { Q4_K_S, V, FIRST_FOUR, KG_DTYPE_Q5_K },
    { Q4_K_S, DOWN, FIRST_EIGHTH, KG_DTYPE_Q5_K },
    { Q4_K_S | Q4_K_M, V, SIZE_70B, KG_DTYPE_Q5_K },
};

/* What is taken where rows are no whole blocks of a dtype; for those that are not listed, and where these do not fit
 * either, F16. llama.cpp takes Q5_1 for Q5_K: kigo has no such type, and Q8_0 is the next that loses less. */
static const struct {
    enum kg_dtype dtype, instead;
} FALLBACKS[] = {
    { KG_DTYPE_Q4_K, KG_DTYPE_Q5_0 },
    { KG_DTYPE_Q5_K, KG_DTYPE_Q8_0 },
    { KG_DTYPE_Q6_K, KG_DTYPE_Q8_0 },
};

/* Matrices that keep their dtype, by a part of the name. */
static const char *const KEPT[] = { "_norm.weight", "ffn_gate_inp.weight", "position_embd.weight",
                                    "token_types.weight" };

enum kg_status kg_file_type_find(const char *name, const struct kg_file_type **type, struct kg_error *err) {
    for (size_t i = 0; i < KG_COUNT_OF(TYPES); i++) {
        if (strcasecmp(TYPES[i].name, name) != 0) continue;
        *type = &TYPES[i];
        return KG_OK;
    }
    return kg_fail(err, KG_ERR_USAGE, "no type '%s' of files; there are %s, and %s for all matrices alike",
                   kg_quote(name, strlen(name)).text, KG_FILE_TYPE_NAMES, KG_FILE_TYPE_PLAIN_NAMES);
}

bool kg_file_type_applies(const struct kg_file_type_tensor *tensor) {
    static const char END[] = "weight";
    const size_t len = strlen(tensor->name), n_end = sizeof END - 1;
    bool is_matrix = false;
    for (uint32_t d = 1; d < tensor->n_dims; d++) is_matrix = is_matrix || tensor->dims[d] > 1;
    bool applies = is_matrix && len >= n_end && strcmp(tensor->name + len - n_end, END) == 0;
    for (size_t i = 0; i < KG_COUNT_OF(KEPT); i++) applies = applies && !strstr(tensor->name, KEPT[i]);
    return applies;
}

static int role_of(const char *name, bool tied) {
    size_t i = 0;
    while (!strstr(name, ROLES[i].part)) i++;
    return tied && ROLES[i].role == EMBEDDING ? OUTPUT : ROLES[i].role;
}

static bool in_blocks(const struct kg_file_type_tensor *t, enum kg_dtype dtype) {
    return t->dims[0] % kg_dtype_info(dtype)->block_elems == 0;
}

static bool holds(enum condition when, const struct kg_file_type *type, const struct kg_file_type_model *m,
                  const struct kg_file_type_tensor *t) {
    uint32_t layer = 0;
    const bool in_layer = sscanf(t->name, "blk.%u.", &layer) == 1;
    const uint32_t n = m->n_layers, eighth = n / 8;
    switch (when) {
    case ALWAYS: return true;
    case SPLIT_ROWS: return !in_blocks(t, type->dtype);
    case EXPERTS: return t->n_dims > 2 && t->dims[2] > 1;
    case MORE_BITS: return in_layer && (layer < eighth || layer >= 7 * (uint64_t)n / 8 || (layer - eighth) % 3 == 2);
    case FIRST_FOUR: return in_layer && layer < 4;
    case FIRST_EIGHTH: return in_layer && layer < eighth;
    case EIGHT_EXPERTS: return m->n_experts == 8;
    case SIZE_70B:
        return n == 80 && (strcmp(m->architecture, "qwen2") == 0 ||
                           (strcmp(m->architecture, "llama") == 0 && m->n_heads != m->n_kv_heads));
    }
    return false;
}

static enum kg_dtype fitting(enum kg_dtype dtype, const struct kg_file_type_tensor *tensor) {
    enum kg_dtype instead = KG_DTYPE_F16;
    if (in_blocks(tensor, dtype)) return dtype;
    for (size_t i = 0; i < KG_COUNT_OF(FALLBACKS); i++)
        if (FALLBACKS[i].dtype == dtype) instead = FALLBACKS[i].instead;
    return in_blocks(tensor, instead) ? instead : KG_DTYPE_F16;
}

enum kg_dtype kg_file_type_dtype(const struct kg_file_type *type, const struct kg_file_type_model *model,
                                 const struct kg_file_type_tensor *tensor, enum kg_dtype *by_rules) {
    const int role = role_of(tensor->name, model->tied);
    *by_rules = type->dtype;
    for (size_t i = 0; i < KG_COUNT_OF(RULES); i++) {
        const struct rule *r = &RULES[i];
        if (!(r->types & type->bit) || !(r->roles & role) || !holds(r->when, type, model, tensor)) continue;
        *by_rules = r->dtype;
        break;
    }
    return fitting(*by_rules, tensor);
}
