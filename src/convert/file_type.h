/* File types: which dtype each tensor of a file gets, by its name, its shape and its layer. The rules and
 * general.file_type are those of llama.cpp's quantiser (src/llama-quant.cpp, without an importance matrix), so that a
 * file of a type is what others mean by it; the table of rules in file_type.c is all of them. */
#ifndef KIGO_CONVERT_FILE_TYPE_H
#define KIGO_CONVERT_FILE_TYPE_H

#include "format/dtype.h"
#include <kigo/status.h>
#include <stdbool.h>

/* The names, for help and errors. */
#define KG_FILE_TYPE_NAMES "f32, f16, bf16, q8_0, q6_k, q5_k_m, q5_k_s, q5_0, q4_k_m, q4_k_s, q4_0, mxfp4_moe"
#define KG_FILE_TYPE_PLAIN_NAMES "q5_k, q4_k, mxfp4"

struct kg_file_type {
    const char *name;
    unsigned bit;
    uint32_t id;         /* general.file_type */
    enum kg_dtype dtype; /* of tensors that no rule names */
};

/* What the rules ask of a model. */
struct kg_file_type_model {
    const char *architecture; /* general.architecture */
    uint32_t n_layers, n_heads, n_kv_heads, n_experts;
    bool tied; /* there is no output.weight: the embedding is the output, too */
};

/* One tensor: its GGUF name, dimensions fastest first. */
struct kg_file_type_tensor {
    const char *name;
    uint32_t n_dims;
    const uint64_t *dims;
};

/* KG_ERR_USAGE, listing the names, for an unknown one. Case does not matter. */
KG_WARN_UNUSED enum kg_status kg_file_type_find(const char *name, const struct kg_file_type **type,
                                                struct kg_error *err);

/* Whether the tensor is a matrix that a file type applies to; vectors, biases, norms, routers and learned positions
 * keep their dtype. */
bool kg_file_type_applies(const struct kg_file_type_tensor *tensor);

/* The dtype of a tensor that the type applies to. *by_rules is the one that the rules name; the returned one differs
 * where the rows are no whole blocks of that. */
enum kg_dtype kg_file_type_dtype(const struct kg_file_type *type, const struct kg_file_type_model *model,
                                 const struct kg_file_type_tensor *tensor, enum kg_dtype *by_rules);

#endif
