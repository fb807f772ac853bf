/* A Hugging Face folder to a GGUF file that llama.cpp and kigo load: configuration, vocabulary and weights. */
#ifndef KIGO_CONVERT_MODEL_H
#define KIGO_CONVERT_MODEL_H

#include "convert/plan.h"
#include "convert/vocab.h"

struct kg_convert_options {
    enum kg_dtype dtype; /* of matrices: F32, F16, BF16, Q8_0 or MXFP4 */
    int n_threads;       /* 0: all processors */
    kg_gguf_progress_fn on_progress;
    bool (*cancelled)(void *user); /* asked between pieces; or NULL */
    void *user;                    /* for both */
};

struct kg_convert_summary {
    const char *architecture; /* general.architecture; static */
    struct kg_vocab_summary vocab;
    uint32_t n_layers;
    size_t n_tensors, n_packed;               /* n_packed: MXFP4 taken over as it was */
    uint64_t n_params, n_bytes;               /* of tensors */
    char (*fell_back)[KG_CONVERT_NAME_BYTES]; /* names of the tensors that are F16 because their rows are no blocks */
    size_t n_fell_back;
};

/* Names, metadata and arrangement are those of llama.cpp's converter; matrices are of the type asked for, but MXFP4 of
 * the source stays MXFP4; norms, biases, routers and positions are F32. The vocabulary is read back by kigo's tokenizer
 * before weights are written. The file appears at out_path complete or not at all, replacing what was there. Out of the
 * folder's own files none may be out_path (KG_ERR_USAGE). Statuses: hf_folder.h, hf_config.h, convert_plan.h,
 * convert_vocab.h, convert_values.h; KG_ERR_CANCELLED. */
KG_WARN_UNUSED enum kg_status kg_convert_model(const char *hf_dir, const char *out_path,
                                               const struct kg_convert_options *options,
                                               struct kg_convert_summary *summary, struct kg_error *err);
void kg_convert_summary_free(struct kg_convert_summary *summary);

/* Writes the configuration's keys: general.* and those of the architecture. name is general.name; taken_mxfp4 says that
 * experts were MXFP4 in the source. */
void kg_convert_put_config(struct kg_gguf_writer *writer, const struct kg_hf_config *config,
                           const struct kg_convert_plan *plan, enum kg_dtype dtype, const char *name);

#endif
