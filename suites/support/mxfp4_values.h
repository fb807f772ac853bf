/* Values computed three times at once: by a back end over MXFP4 weights, in float64 over what those weights denote, and
 * in float64 over the numbers they were quantised from. Operations take values and give values, so that a form of an
 * operation (mxfp4_forms.c) is written once. Every failure fails the case.
 *
 * What a block denotes is read here by the specification (OCP Microscaling Formats 1.0: E2M1 elements, an E8M0 scale),
 * not by the engine's decoder. */
#ifndef KIGO_SUITES_MXFP4_VALUES_H
#define KIGO_SUITES_MXFP4_VALUES_H

#include "suites/support/op_device.h"

enum { KG_MXFP4_BLOCK_ELEMS = 32, KG_MXFP4_BLOCK_BYTES = 17, KG_MXFP4_MOST_VALUES = 24 };

/* The 32 elements of a block: byte 0 is the scale, low nibbles are elements 0 to 15, high ones 16 to 31. */
typedef void (*kg_mxfp4_read_fn)(const uint8_t block[KG_MXFP4_BLOCK_BYTES], double elems[KG_MXFP4_BLOCK_ELEMS]);
void kg_mxfp4_read(const uint8_t block[KG_MXFP4_BLOCK_BYTES], double elems[KG_MXFP4_BLOCK_ELEMS]);

/* The value of a code: a sign bit, two bits of exponent (bias 1), one of mantissa; exponent 0 has no leading one. */
double kg_mxfp4_element(unsigned code);

struct kg_mxfp4_value {
    struct kg_op_output y;
    double *exact, *plain; /* (rows, cols) over the decoded weights and over the unquantised ones */
    double *variance;      /* (rows, cols) of what rounding to float16 leaves: deviation squared, to first order */
    uint32_t rows, cols;
    uint32_t n_roundings; /* to float32 on the way here, where sums are double; an input: 0 */
    bool by_weights;      /* of experts, which float32 computes and the exact result has in double */
    bool is_copy;         /* decoded: no sums but a position's addition */
};

struct kg_mxfp4_matrix {
    struct kg_weight weight;
    double *exact, *plain;
    uint32_t n_matrices; /* one below the other */
};

/* The experts that answer each row: ids and weights as the back end routed, and as float64 does. */
struct kg_mxfp4_routes {
    int32_t *device_ids;
    float *device_weights;
    int32_t *ids;
    double *weights;
    uint32_t rows, n_used, n_experts;
};

/* A case: one form on one back end. */
struct kg_mxfp4_run {
    struct kg_record *rec;
    struct kg_op_device device;
    enum kg_precision activations;
    uint64_t seed;
    bool as_in_file;       /* weights stay as a file has them: the back end decodes them to its workspace */
    kg_mxfp4_read_fn read; /* NULL: the back end gets MXFP4; else float32 weights, read from the blocks by this */
    double *margin;        /* NULL: judged; else the largest err/limit is kept there, and only recorded */
    bool is_control;       /* beside a margin: the form itself, whose comparisons are judged all the same */
    struct kg_mxfp4_value values[KG_MXFP4_MOST_VALUES];
    size_t n_values;
    void *memory[5 * KG_MXFP4_MOST_VALUES];
    size_t n_memory;
};
void kg_mxfp4_run_close(struct kg_mxfp4_run *r);

/* Normal numbers; of a matrix 1 / sqrt(n_in) of them, half or twice that from block to block, so that scales differ and
 * the outputs do not. */
struct kg_mxfp4_value *kg_mxfp4_input(struct kg_mxfp4_run *r, uint32_t rows, uint32_t cols);
struct kg_mxfp4_matrix kg_mxfp4_matrix(struct kg_mxfp4_run *r, uint32_t n_matrices, uint32_t n_out, uint32_t n_in);
float *kg_mxfp4_bias(struct kg_mxfp4_run *r, size_t n); /* host memory, valid until closed */

/* The operations of those names. bias (host memory): of each output, or NULL. */
struct kg_mxfp4_value *kg_mxfp4_linear(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x,
                                       const struct kg_mxfp4_matrix *w, const float *bias, enum kg_precision output);
struct kg_mxfp4_value *kg_mxfp4_embedding(struct kg_mxfp4_run *r, const struct kg_mxfp4_matrix *w, const int32_t *ids,
                                          uint32_t n_ids, const float *positions, uint32_t n_positions,
                                          uint32_t position);
struct kg_mxfp4_value *kg_mxfp4_add(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *a,
                                    const struct kg_mxfp4_value *b);
struct kg_mxfp4_value *kg_mxfp4_gelu(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x);
/* limit 0: silu(gate) * up; else the clamped form of gpt-oss, alpha 1.702 and up + 1. */
struct kg_mxfp4_value *kg_mxfp4_swiglu(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *gate,
                                       const struct kg_mxfp4_value *up, double limit);
struct kg_mxfp4_value *kg_mxfp4_softmax(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x);

/* The k largest of x W^T + bias of a float32 router, whose rows of x are made anew until the last expert chosen and the
 * first that is not are apart: x is that input then. one_expert: the first k for every row. */
struct kg_mxfp4_routes kg_mxfp4_route(struct kg_mxfp4_run *r, uint32_t rows, uint32_t n_in, uint32_t n_experts,
                                      uint32_t n_used, bool one_expert, struct kg_mxfp4_value **x);
struct kg_mxfp4_value *kg_mxfp4_experts(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x,
                                        const struct kg_mxfp4_matrix *w, const float *bias,
                                        const struct kg_mxfp4_routes *routes);
struct kg_mxfp4_value *kg_mxfp4_combine(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x,
                                        const struct kg_mxfp4_routes *routes, const struct kg_mxfp4_value *residual);

/* Judges every element: NMSE, and the error by 1% of the element, or by its noise floor where that is larger. Records
 * the share of elements below their floor, and how far the unquantised result is. */
void kg_mxfp4_judge(struct kg_mxfp4_run *r, const char *name, struct kg_mxfp4_value *value);

#endif
