/* Synthetic models: GGUF files of a published model's true shapes with random weights, for measuring speed and memory
 * without anyone's weights.
 *
 * Names and metadata are those llama.cpp's converter writes for the model. Values are normal: matrices have mean 0 and
 * standard deviation 1/sqrt(columns), so that every activation stays near 1 and logits spread by about 1 (learned
 * positions too); norm weights are 1 +- 0.1, biases +- 0.1, attention sinks +- 1. An element depends on the seed, its
 * tensor's name and its index only (Philox by counter): never on how many threads wrote it.
 *
 * The vocabulary is synthetic too and as large as the model's: ids 0-255 are the bytes in GPT-2's spelling, the last is
 * <|endoftext|> (control, ends a text), and those between are made-up words (" aaaa", " aaab", ...) without merges: any
 * text encodes to a token a byte, any id decodes to text. */
#ifndef KIGO_CONVERT_SYNTH_H
#define KIGO_CONVERT_SYNTH_H

#include "format/dtype.h"
#include "format/gguf.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

/* One model, as published in its config.json. */
struct kg_synth_shape {
    const char *name, *source; /* for --like; whose configuration it is */
    const char *architecture;  /* as in general.architecture */
    const char *also;          /* another architecture it can be written as, or NULL */
    bool for_tests;            /* not listed */
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_ctx;
    uint32_t window;                    /* in positions; 0: no key is written */
    uint32_t n_experts, n_experts_used; /* 0: dense; n_ff is then an expert's */
    float rope_base, eps;               /* rope_base 0: positions are learned, n_ctx of them */
    float yarn_factor;                  /* 0: no scaling */
    uint32_t rope_original_ctx;         /* 0: no key is written */
    bool tied;
    enum kg_dtype dtype; /* of the matrices unless asked otherwise */
};

extern const struct kg_synth_shape KG_SYNTH_SHAPES[];
extern const size_t KG_SYNTH_N_SHAPES;

/* KG_ERR_USAGE listing the names for one that is unknown. */
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
    const char *architecture; /* NULL: the shape's own */
    const char *dtype; /* "f16", "f32", "mxfp4"; NULL: the shape's own. mxfp4 is that of the layers' (gpt-oss: the
                                 experts') matrices, the others are then f16; vectors and routers are always f32 */
    uint64_t seed;
    uint32_t n_layers;                                                          /* 0: as many as the model has */
    int n_threads;                                                              /* 0: all processors */
    void (*on_progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    bool (*cancelled)(void *user);                                              /* asked between pieces; may be NULL */
    void *user;
};

/* What would be written, in file order. */
struct kg_synth_plan {
    const struct kg_synth_shape *shape;
    const char *architecture;
    enum kg_dtype dtype;
    uint32_t n_layers;
    struct kg_synth_tensor *tensors;
    size_t n_tensors;
    uint64_t n_params; /* elements of all tensors */
    uint64_t n_bytes;  /* of tensor data */
};

/* KG_ERR_USAGE naming an option's value that is unknown or does not go with the model. */
KG_WARN_UNUSED enum kg_status kg_synth_plan_make(const struct kg_synth_options *options, struct kg_synth_plan *plan,
                                                 struct kg_error *err);
void kg_synth_plan_free(struct kg_synth_plan *plan);

/* Writes the file through a temporary beside it, replacing what is there; nothing is left behind on failure.
 * KG_ERR_CANCELLED if options->cancelled said so. Memory used does not grow with the file. */
KG_WARN_UNUSED enum kg_status kg_synth_write(const struct kg_synth_options *options, const struct kg_synth_plan *plan,
                                             const char *path, struct kg_error *err);

#endif
