/* Rounds the matrices of a GGUF file to a file type, as llama.cpp's quantiser does: metadata and other tensors stay as
 * they are, but for general.file_type and general.quantization_version. */
#ifndef KIGO_CONVERT_QUANTIZE_H
#define KIGO_CONVERT_QUANTIZE_H

#include "convert/file_type.h"
#include "convert/rounding.h"
#include "format/gguf.h"

struct kg_quantize_options {
    const struct kg_file_type *type;
    bool requantize; /* tensors of a block format may be rounded to another one */
    int n_threads;   /* 0: all processors */
    kg_gguf_progress_fn on_progress;
    bool (*cancelled)(void *user); /* called between pieces; may be NULL */
    void *user;                    /* passed to both */
};

struct kg_quantize_summary {
    const char *architecture; /* static */
    uint32_t n_layers;
    struct kg_written_tensor *tensors; /* in file order */
    size_t n_tensors;
    uint64_t n_params, n_bytes, n_bytes_before; /* of all tensors */
};

/* Memory use does not grow with the file. The file replaces out_path atomically: complete or not at all. KG_ERR_USAGE:
 * out_path is in_path, or a tensor is of a block format already and requantize is false. KG_ERR_UNSUPPORTED: an
 * architecture that kigo does not know, or one of several files of a model. KG_ERR_NUMERIC names a tensor and its first
 * value that is NaN, infinite or out of the dtype's range. KG_ERR_CANCELLED; statuses of kg_gguf_open. */
KG_WARN_UNUSED enum kg_status kg_quantize_file(const char *in_path, const char *out_path,
                                               const struct kg_quantize_options *options,
                                               struct kg_quantize_summary *summary, struct kg_error *err);
void kg_quantize_summary_free(struct kg_quantize_summary *summary);

#endif
