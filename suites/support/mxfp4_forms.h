/* The operations over MXFP4 weights, as compositions of the engine's: a table of forms, each run on a back end and
 * judged. */
#ifndef KIGO_SUITES_MXFP4_FORMS_H
#define KIGO_SUITES_MXFP4_FORMS_H

#include "suites/support/mxfp4_values.h"

struct kg_mxfp4_form {
    const char *op, *name;
    void (*run)(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f);
    uint32_t rows, n_out, n_in;   /* n_out: of a matrix, the width between two (ffn, moe) or the vocabulary */
    uint32_t n_heads, n_kv_heads; /* of n_in / n_heads dims (qkv) */
    uint32_t n_experts, n_used;   /* moe */
    bool bias, residual, as_in_file, one_expert;
    double limit; /* of swiglu, 0: none */
};
extern const struct kg_mxfp4_form KG_MXFP4_FORMS[];
extern const size_t KG_MXFP4_N_FORMS;

/* The first form of the operation and name; fails the case if there is none. */
const struct kg_mxfp4_form *kg_mxfp4_form_find(const char *op, const char *name);

/* "M=1 N=2 K=32", with heads and experts where there are. */
void kg_mxfp4_form_shape(const struct kg_mxfp4_form *f, char *shape, size_t size);

/* How a form is run; NULL and 0: as the back end is, and judged. */
struct kg_mxfp4_mode {
    const char *backend;
    enum kg_precision activations;
    const struct kg_backend_ops *ops;
    kg_mxfp4_read_fn read;
    double *margin;
    bool is_control;
};
/* Opens the back end, runs the form, closes. False if the back end is not there, after a skip. */
bool kg_mxfp4_form_run(struct kg_record *rec, const struct kg_mxfp4_form *f, const struct kg_mxfp4_mode *mode);

#endif
