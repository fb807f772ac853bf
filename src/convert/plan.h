/* What a converted file will hold: every tensor with where its values come from, and no tensor of the folder left over.
 */
#ifndef KIGO_CONVERT_PLAN_H
#define KIGO_CONVERT_PLAN_H

#include "convert/rules.h"
#include "format/gguf.h"
#include "convert/hf_folder.h"

enum { KG_CONVERT_NAME_BYTES = 64 };

struct kg_convert_tensor {
    char name[KG_CONVERT_NAME_BYTES]; /* in the GGUF file */
    enum kg_dtype dtype;
    uint64_t experts, rows, cols;
    uint32_t n_dims;
    uint64_t dims[KG_GGUF_MAX_DIMS]; /* fastest first */
    bool fell_back;                  /* to F16: its rows are no whole blocks of the type asked for */

    const struct kg_safetensors_tensor *source; /* NULL: values */
    const struct kg_safetensors_tensor *scales; /* of packed MXFP4, whose blocks source is; else NULL */
    enum kg_convert_rows row_map;
    bool transposed, plus_one;
    const float *values; /* (rows) of a tensor that config.json makes */
};

struct kg_convert_plan {
    struct kg_convert_tensor *tensors;
    size_t n_tensors, n_fell_back, n_packed;
    uint64_t n_params, n_bytes;
    float *rope_freqs; /* (n_rot / 2) of llama3's scaling, else NULL */
    struct kg_convert_size {
        uint64_t shared, expert; /* parameters outside experts, and of one expert */
    } size;
};

/* dtype: of matrices but routers and positions. A missing, misshapen or left-over tensor is KG_ERR_FORMAT, one of a
 * type that is not converted KG_ERR_UNSUPPORTED; both name it. Marks the folder's tensors as used; the plan points into
 * folder and config. */
KG_WARN_UNUSED enum kg_status kg_convert_plan_make(struct kg_hf_folder *folder, const struct kg_hf_config *config,
                                                   enum kg_dtype dtype, struct kg_convert_plan *plan,
                                                   struct kg_error *err);
void kg_convert_plan_free(struct kg_convert_plan *plan);

#endif
