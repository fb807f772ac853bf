/* The plan of a converted file: every tensor and the source of its values. Every tensor of the folder is used. */
#ifndef KIGO_CONVERT_PLAN_H
#define KIGO_CONVERT_PLAN_H

#include "convert/file_type.h"
#include "convert/rules.h"
#include "format/gguf.h"
#include "convert/hf_folder.h"

enum { KG_CONVERT_NAME_BYTES = 64 };

struct kg_convert_tensor {
    char name[KG_CONVERT_NAME_BYTES]; /* in the GGUF file */
    enum kg_dtype dtype, by_rules;    /* they differ where the rows are no whole blocks of what the rules name */
    uint64_t experts, rows, cols;
    uint32_t n_dims;
    uint64_t dims[KG_GGUF_MAX_DIMS]; /* fastest first */

    const struct kg_safetensors_tensor *source; /* NULL: values */
    const struct kg_safetensors_tensor
        *scales; /* packed MXFP4: the scales; source then holds the blocks. Otherwise NULL */
    enum kg_convert_rows row_map;
    bool transposed, plus_one;
    const float *values; /* (rows), for a tensor computed from config.json */
};

struct kg_convert_plan {
    struct kg_convert_tensor *tensors;
    size_t n_tensors, n_packed;
    uint64_t n_params, n_bytes;
    float *rope_freqs; /* (n_rot / 2) of llama3's scaling, else NULL */
    struct kg_convert_size {
        uint64_t shared, expert; /* number of parameters outside experts, and of one expert */
    } size;
};

/* The type is that of the file. Marks the folder's tensors as used. The plan points into folder and
 * config. KG_ERR_FORMAT names a missing, misshaped or unused tensor; KG_ERR_UNSUPPORTED one of a type that is not
 * converted. */
KG_WARN_UNUSED enum kg_status kg_convert_plan_make(struct kg_hf_folder *folder, const struct kg_hf_config *config,
                                                   const struct kg_file_type *type, struct kg_convert_plan *plan,
                                                   struct kg_error *err);
void kg_convert_plan_free(struct kg_convert_plan *plan);

#endif
