/* Converts a Hugging Face folder to a GGUF file that llama.cpp and kigo load: configuration, vocabulary and weights. */
#ifndef KIGO_CONVERT_MODEL_H
#define KIGO_CONVERT_MODEL_H

#include "convert/plan.h"
#include "convert/rounding.h"
#include "convert/vocab.h"

struct kg_convert_options {
    const struct kg_file_type *type;
    int n_threads; /* 0: all processors */
    kg_gguf_progress_fn on_progress;
    bool (*cancelled)(void *user); /* called between pieces; may be NULL */
    void *user;                    /* passed to both */
};

struct kg_convert_summary {
    const char *architecture; /* general.architecture; static */
    struct kg_vocab_summary vocab;
    uint32_t n_layers;
    struct kg_written_tensor *tensors;
    size_t n_tensors, n_packed; /* n_packed: MXFP4 tensors copied without requantising */
    uint64_t n_params, n_bytes; /* of tensors */
};

/* Names, metadata and layout are those of llama.cpp's converter. Matrices get what options->type gives them
 * (file_type.h), except that MXFP4 in the source stays MXFP4; norms, biases, routers and positions are F32. kigo's
 * tokenizer reads the vocabulary back before weights are written. The file replaces out_path atomically: complete or
 * not at all. KG_ERR_USAGE if out_path is a file of the folder. Statuses: hf_folder.h, hf_config.h, convert_plan.h,
 * convert_vocab.h, convert_values.h; KG_ERR_CANCELLED. */
KG_WARN_UNUSED enum kg_status kg_convert_model(const char *hf_dir, const char *out_path,
                                               const struct kg_convert_options *options,
                                               struct kg_convert_summary *summary, struct kg_error *err);
void kg_convert_summary_free(struct kg_convert_summary *summary);

/* Writes the configuration's keys: general.* and those of the architecture. name: general.name. */
void kg_convert_put_config(struct kg_gguf_writer *writer, const struct kg_hf_config *config,
                           const struct kg_convert_plan *plan, const struct kg_file_type *type, const char *name);

#endif
