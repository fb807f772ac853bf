/* Synthetic models: GGUF files with the shapes of a published model and random weights, for measuring speed and memory
 * without the model's weights.
 *
 * Names and metadata are those of llama.cpp's converter. Values are normally distributed. Matrices (and learned
 * positions) have mean 0 and standard deviation 1/sqrt(columns), which keeps activations near 1 and the spread of
 * logits near 1; norm weights are 1 +- 0.1, biases +- 0.1, attention sinks +- 1. An element depends only on the seed,
 * its tensor's name and its index (counter-based Philox), not on the number of threads.
 *
 * The vocabulary is synthetic and has the model's size. Ids 0-255 are the bytes in GPT-2's spelling, the last id is
 * <|endoftext|> (control, ends a text), and those between are made-up words (" aaaa", " aaab", ...) without merges. So
 * any text encodes to one token per byte, and any id decodes to text. Phi-3's also has <unk>, <s> and </s>, before the
 * last: llama.cpp looks them up in the vocabulary of every file whose name says phi-3 (src/llama-vocab.cpp), and does
 * not load one that lacks them. */
#ifndef KIGO_CONVERT_SYNTH_H
#define KIGO_CONVERT_SYNTH_H

#include "convert/file_type.h"
#include "format/gguf.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

/* One model, as published in its config.json. */
struct kg_synth_shape {
    const char *name, *source; /* name: for --like; source: the published configuration */
    const char *architecture;  /* general.architecture */
    const char *also;          /* an alternative architecture for the same shapes, or NULL */
    bool for_tests;            /* not listed */
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_ctx;
    uint32_t window;                    /* in positions; 0: no key is written */
    uint32_t n_experts, n_experts_used; /* 0: dense; otherwise n_ff is of one expert */
    float rope_base, eps;               /* rope_base 0: n_ctx learned positions */
    float yarn_factor;                  /* 0: no scaling */
    uint32_t rope_original_ctx;         /* 0: no key is written */
    bool tied;
    bool rope_factors;   /* there is a rope_freqs.weight; its values are 1 +- 0.1 */
    bool sentence_marks; /* the vocabulary has <unk>, <s> and </s> */
    const char *type;    /* of the file, unless one is asked for */
};

extern const struct kg_synth_shape KG_SYNTH_SHAPES[];
extern const size_t KG_SYNTH_N_SHAPES;

/* Finds a shape by name; KG_ERR_USAGE, listing the names, for an unknown one. */
KG_WARN_UNUSED enum kg_status kg_synth_find(const char *name, const struct kg_synth_shape **shape,
                                            struct kg_error *err);

struct kg_synth_tensor {
    char name[64];
    enum kg_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[KG_GGUF_MAX_DIMS]; /* fastest first */
    uint64_t n_elems;
    double mean, deviation;
};

struct kg_synth_options {
    const char *like;
    const char *architecture; /* NULL: the shape's */
    const char *type;         /* a file type (file_type.h); NULL: the shape's. Of gpt-oss mxfp4 applies to the experts'
                                 matrices, others are then f16. Vectors and routers are f32 */
    uint64_t seed;
    uint32_t n_layers;                                                          /* 0: as many as the model has */
    int n_threads;                                                              /* 0: all processors */
    void (*on_progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    bool (*cancelled)(void *user);                                              /* called between pieces; may be NULL */
    void *user;
};

/* The tensors to write, in file order. */
struct kg_synth_plan {
    const struct kg_synth_shape *shape;
    const char *architecture;
    const struct kg_file_type *type;
    uint32_t n_layers;
    struct kg_synth_tensor *tensors;
    size_t n_tensors;
    uint64_t n_params; /* elements of all tensors */
    uint64_t n_bytes;  /* of tensor data */
};

/* KG_ERR_USAGE names an option whose value is unknown or does not fit the model. */
KG_WARN_UNUSED enum kg_status kg_synth_plan_make(const struct kg_synth_options *options, struct kg_synth_plan *plan,
                                                 struct kg_error *err);
void kg_synth_plan_free(struct kg_synth_plan *plan);

/* Writes the file and replaces path atomically; on failure nothing is left behind. Memory use does not grow with the
 * file. KG_ERR_CANCELLED if options->cancelled returned true. */
KG_WARN_UNUSED enum kg_status kg_synth_write(const struct kg_synth_options *options, const struct kg_synth_plan *plan,
                                             const char *path, struct kg_error *err);

#endif
