/* Operations as data: what tensors and parameters each takes, for `kigo op`.
 *
 * A shape is a list of lengths by name ("rows n_heads head_dim", slowest first). A length is known from the first
 * tensor that has it, from --param or from a tensor of one element with its name; all must agree. A tensor of three
 * lengths may also come as two, the last two as one (n_heads * head_dim). */
#ifndef KIGO_CLI_OP_SPEC_H
#define KIGO_CLI_OP_SPEC_H

#include "engine/op_workspace.h"
#include "format/safetensors.h"
#include "format/safetensors_write.h"

enum {
    KG_OP_MAX_TENSORS = 12,
    KG_OP_MAX_PARAMS = 8,
    KG_OP_MAX_LENGTHS = 8,
    KG_OP_MAX_RANK = 4,
    KG_OP_MAX_BLOCKS = 16,
};

enum kg_op_role {
    KG_OP_ACTIVATIONS, /* F64, F32, F16 or BF16; rounded to the precision of activations */
    KG_OP_QUANTIZED,   /* the same, or as stored E4M3 (U8 or F8_E4M3) or int8 (I8); all of the call's alike */
    KG_OP_CACHE,       /* as activations, to the precision of the KV cache; also an output, zero before if not given */
    KG_OP_VECTOR,      /* the same, to float32 */
    KG_OP_WEIGHT,      /* F32, F16, BF16 as stored; or `NAME_bytes` (.., bytes of a row), U8, with weight_dtype */
    KG_OP_IDS,         /* I32 or I64, below the first length of the weight's shape */
    KG_OP_OUT,         /* activations, given back as F32 */
    KG_OP_OUT_VECTOR,  /* float32 */
    KG_OP_OUT_IDS,     /* int32, given back as I32 */
    KG_OP_OUT_QUANTIZED, /* in the call's precision `quantized`, given back as F8_E4M3 or I8 */
};

struct kg_op_tensor {
    const char *name;
    enum kg_op_role role;
    const char *shape;
    bool optional;
};

enum kg_op_param_kind { KG_OP_COUNT, KG_OP_NUMBER, KG_OP_FLAG, KG_OP_DTYPE, KG_OP_VARIANT };
struct kg_op_param {
    const char *name;
    enum kg_op_param_kind kind;
    double fallback; /* NAN: decided by the operation */
    const char *help;
};

struct kg_op_call;
struct kg_op_spec {
    const char *name;
    const char *equation;
    struct kg_op_tensor tensors[KG_OP_MAX_TENSORS]; /* ended by a NULL name, if there are fewer */
    struct kg_op_param params[KG_OP_MAX_PARAMS];
    /* Before outputs are made: lengths that follow from others. May be NULL. */
    enum kg_status (*settle)(struct kg_op_call *call, struct kg_error *err);
    enum kg_status (*run)(struct kg_op_call *call, struct kg_error *err);
};

extern const struct kg_op_spec KG_OP_SPECS[]; /* in the order of KG_OP_LIST */
extern const size_t KG_OP_N_SPECS;

/* One run of an operation. */
struct kg_op_call {
    const struct kg_op_spec *spec;
    struct kg_backend *backend;
    enum kg_precision activations, kv;
    enum kg_precision quantized; /* of the KG_OP_QUANTIZED and KG_OP_OUT_QUANTIZED tensors */
    double params[KG_OP_MAX_PARAMS];
    bool param_given[KG_OP_MAX_PARAMS];
    struct {
        char name[24];
        uint64_t value; /* 0: not known */
    } lengths[KG_OP_MAX_LENGTHS];
    size_t n_lengths;
    void *data[KG_OP_MAX_TENSORS];               /* in the back end's memory; NULL: not given */
    bool flat;                                   /* the first activations came as rows of one length */
    struct kg_weight weights[KG_OP_MAX_TENSORS]; /* of those that are: all but the last length are its rows */
    struct kg_block blocks[KG_OP_MAX_BLOCKS];
    size_t n_blocks;
    void *workspace;
};

/* For the table's functions; the name must be one of the table. */
uint32_t kg_op_length(const struct kg_op_call *call, const char *name); /* 0 if not known */
void kg_op_set_length(struct kg_op_call *call, const char *name, uint64_t value);
double kg_op_param(const struct kg_op_call *call, const char *name);
void *kg_op_data(const struct kg_op_call *call, const char *name);
struct kg_weight kg_op_weight(const struct kg_op_call *call, const char *name);
/* Has the output be what lies in that memory, which the call keeps. */
void kg_op_give(struct kg_op_call *call, const char *name, void *data);
/* Memory of the back end for the call's time. */
KG_WARN_UNUSED enum kg_status kg_op_alloc(struct kg_op_call *call, enum kg_memory_tag tag, uint64_t size_bytes,
                                          void **data, struct kg_error *err);
/* call->workspace for an operation of that extent in the call's precisions. */
KG_WARN_UNUSED enum kg_status kg_op_workspace(struct kg_op_call *call, const struct kg_op_extent *extent,
                                              struct kg_error *err);

/* op_attention.c */
KG_WARN_UNUSED enum kg_status kg_op_settle_attention(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_attention(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_attention_weights(struct kg_op_call *call, struct kg_error *err);

/* op_experts.c */
KG_WARN_UNUSED enum kg_status kg_op_settle_router(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_router(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_settle_experts_linear(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_experts_linear(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_experts_combine(struct kg_op_call *call, struct kg_error *err);

/* op_fused.c */
KG_WARN_UNUSED enum kg_status kg_op_run_norm_qkv(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_norm_swiglu(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_linear_add(struct kg_op_call *call, struct kg_error *err);

/* op_sdpa.c */
KG_WARN_UNUSED enum kg_status kg_op_settle_sdpa(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_sdpa(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_settle_sdpa_quantize(struct kg_op_call *call, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_op_run_sdpa_quantize(struct kg_op_call *call, struct kg_error *err);

struct kg_op_request {
    const struct kg_op_spec *spec;
    const char *backend;
    enum kg_precision activations, kv;
    const char *in, *out;
    const char *const *params; /* "key=value" */
    size_t n_params;
};

/* One output, as reported. */
struct kg_op_result {
    const char *name;
    size_t n_dims;
    uint64_t dims[KG_OP_MAX_RANK];
    uint64_t n_elems, n_nonfinite;
};

/* Reads request->in, runs, writes request->out. For quantised inputs asked for as kv = f8 or i8, request->activations
 * becomes what the back end's output is in. Errors name the tensor or parameter: missing, of another shape or dtype,
 * unknown (a tensor the operation does not take, but for `out`, is refused too). */
KG_WARN_UNUSED enum kg_status kg_op_run(struct kg_op_request *request, const char **backend_name,
                                        struct kg_op_result results[KG_OP_MAX_TENSORS], size_t *n_results,
                                        struct kg_error *err);

#endif
