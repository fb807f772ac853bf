/* Random models of the shapes that decode steps differ by: heads, groups, widths, biases, rotations, lengths; and what
 * they compute, by the cpu reference. */
#ifndef KIGO_SUITES_STEP_MODELS_H
#define KIGO_SUITES_STEP_MODELS_H

#include "suites/harness/compare.h"
#include "suites/support/tiny_model.h"
#include "suites/support/layer_models.h"

struct kg_step_model {
    const char *name;
    struct kg_tiny_model model; /* matrices: as the precision has them, or float16 where a row says so */
    uint32_t n_ids;             /* positions that are looked at */
    uint32_t n_rot;             /* dims of a head that are rotated; 0: all */
    float rope_scale;           /* positions are divided by it; 0: none */
    bool rope_factors;
    bool is_long;     /* crosses the lengths at which steps divide their keys otherwise */
    bool is_repeated; /* stands for its kind in the cases that compare steps with steps */
};
extern const struct kg_step_model kg_step_models[];
extern const size_t kg_n_step_models;
const struct kg_step_model *kg_step_model_find(const char *name); /* never NULL: an unknown name ends the program */

/* A model's file, ids, and their logits at every position by the cpu reference in float32 from the same file; of a
 * model that outgrows its rope factors as steps one after another give them. */
struct kg_step_work {
    char *path;
    int32_t *ids; /* (n_ids) */
    size_t n_ids, n_vocab;
    const float *want; /* (n_ids, n_vocab) */
    struct kg_tolerance tol;
};

/* Writes the model where the case may write, its matrices in the precision, and evaluates it. tol is of a row of logits
 * in that precision: a constant in float32; in float16 measured on plain implementations (plain_f16.h) of this model.
 * The file and what was computed are kept for the process's later cases of that model. */
void kg_step_work_open(struct kg_record *rec, const struct kg_step_model *model, enum kg_precision precision,
                       struct kg_step_work *work);
void kg_step_work_close(struct kg_step_work *work);

/* The largest margin of n rows of logits, each judged by itself; the comparison of that row in *worst, its number in
 * *worst_row (may be NULL). */
double kg_step_margin(const float *got, const float *want, size_t n_rows, size_t n_vocab,
                      const struct kg_tolerance *tol, struct kg_compare *worst, size_t *worst_row);

/* A model on a back end; failures fail the case. */
struct kg_step_engine {
    struct kg_backend *backend;
    struct kg_model *model;
    size_t n_vocab;
};
/* ops: in place of the back end's own table, or NULL. */
void kg_step_engine_open(struct kg_step_engine *engine, const char *path, const char *backend,
                         const struct kg_backend_ops *ops);
void kg_step_engine_close(struct kg_step_engine *engine);
struct kg_session *kg_step_session(struct kg_step_engine *engine, size_t n_ctx, enum kg_precision precision);

/* n ids at once, or one after another; logits to out (n, n_vocab). */
void kg_step_prefill(struct kg_session *session, const int32_t *ids, size_t n, size_t n_vocab, float *out);
void kg_step_decode(struct kg_session *session, const int32_t *ids, size_t n, size_t n_vocab, float *out);

#endif
