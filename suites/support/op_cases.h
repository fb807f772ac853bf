/* Running one operation of a back end on a golden file of fixtures/ops and judging every element of its output. */
#ifndef KIGO_SUITES_OP_CASES_H
#define KIGO_SUITES_OP_CASES_H

#include "suites/support/golden.h"
#include "suites/support/op_device.h"

struct kg_op_case {
    struct kg_record *rec;
    struct kg_op_device device;
    struct kg_golden *golden;
    enum kg_precision activations, kv;
    /* NULL: an output outside its tolerance fails the case. Else its margin (err/limit) is only recorded and the
     * largest kept here, for cases that want a wrong operation to be outside. */
    double *margin;
    bool is_control; /* beside a margin: the operation itself, whose comparisons are judged all the same */
};

/* One per operation; parameters and inputs come from the golden file. */
void kg_op_case_embedding(struct kg_op_case *c);
void kg_op_case_rmsnorm(struct kg_op_case *c);
void kg_op_case_linear(struct kg_op_case *c);
void kg_op_case_rope(struct kg_op_case *c);
void kg_op_case_attention(struct kg_op_case *c); /* through kv_write */
void kg_op_case_swiglu(struct kg_op_case *c);
void kg_op_case_add(struct kg_op_case *c);
void kg_op_case_layernorm(struct kg_op_case *c);
void kg_op_case_gelu(struct kg_op_case *c);
void kg_op_case_softmax(struct kg_op_case *c);
void kg_op_case_router(struct kg_op_case *c); /* float32 whatever the activations are */
void kg_op_case_experts_linear(struct kg_op_case *c);
void kg_op_case_experts_combine(struct kg_op_case *c);

/* An input of the golden file; for f16 activations the values that float16 holds. */
const float *kg_op_case_input(struct kg_op_case *c, const char *name, size_t *rows, size_t *cols);

/* Judges a read output of (rows, cols) against the golden tensor `out`, or against `reference` unless NULL: what the
 * cpu back end makes of rounded inputs (its own rounding, of float32, is small beside float16's). `unit` divides both
 * sides (NULL: not). */
void kg_op_case_judge(struct kg_op_case *c, const char *name, const struct kg_op_output *y, size_t rows, size_t cols,
                      const float *reference, const double *unit, const struct kg_tolerance *tol);

/* Room for a reference, valid until the device is closed; NULL for f32, where the golden is the reference. */
float *kg_op_case_reference(struct kg_op_case *c, size_t n);

/* A parameter that not every golden has. */
float kg_op_case_number(const struct kg_op_case *c, const char *name, float fallback);

/* A tolerance for results in float32, and for f16 activations one that allows for their rounding. */
struct kg_tolerance kg_op_case_tolerance(const struct kg_op_case *c, double mixed_rel, double mixed_abs,
                                         const char *why_f32, const char *why_f16);

/* Fails the case unless both outputs, read, hold the same bits. */
void kg_op_expect_same_bits(const char *name, const struct kg_op_output *a, const struct kg_op_output *b);

/* How far sums of k products may be off, in units that the caller has filled with sum|x w| + |bias|: for f16 (a
 * reference) they are changed to whole errors. bias: of element i that of i % n_bias, or NULL. */
struct kg_tolerance kg_op_case_products(double *unit, size_t n_elems, size_t k, enum kg_dtype dtype,
                                        const float *reference, const float *bias, size_t n_bias);

/* sum_i |x[r][i] w[o][i]| + |bias[o]| of x (m, k), w (n, k) and bias (n) or NULL: the unit in which a dot product's
 * rounding errors are bounded. (m, n), malloc'ed. */
double *kg_absolute_products(const float *x, const float *w, const float *bias, size_t m, size_t n, size_t k);

/* The largest |x[i]|. */
double kg_largest(const float *x, size_t n);

/* A weight of a golden file in the back end's memory: `weight` in F32, or `weight_bytes` of `weight_dtype`. *values is
 * malloc'ed: what its rows decode to. */
struct kg_weight kg_op_case_weight(struct kg_op_case *c, float **values);

/* The unit roundoff of float32. Of float16: relative, and absolute where it has no more exponents. */
#define KG_ROUNDOFF 0x1p-24
#define KG_ROUNDOFF_F16 0x1p-11
#define KG_ROUNDOFF_F16_ABS 0x1p-25

#endif
