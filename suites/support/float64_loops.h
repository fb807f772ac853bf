/* Linear and attention in plain float64 loops, for shapes and inputs that golden files do not hold, and the limits that
 * a back end's results are held to. loops_agree_with_pytorch (test_long) holds the loops to a third party. */
#ifndef KIGO_SUITES_FLOAT64_LOOPS_H
#define KIGO_SUITES_FLOAT64_LOOPS_H

#include "suites/support/op_cases.h"

/* Where and in what precision a case computes. `ops` makes a table other than the back end's own, or is NULL. */
struct kg_loops_mode {
    const char *backend, *dtype;
    enum kg_precision activations, kv;
    enum kg_precision output; /* of linear */
    enum kg_dtype weight;     /* F32 or F16 */
    const struct kg_backend_ops *(*ops)(void);
};

enum kg_precision kg_loops_weight_precision(const struct kg_loops_mode *mode);

/* n normal values, none beyond 5 deviations, malloc'ed, of those that the precision holds: the same for a seed, however
 * many threads made them. Unlike kg_fill_normal's a value may come twice, as float16's must. */
float *kg_loops_normal(size_t n, uint64_t seed, double mean, double deviation, enum kg_precision precision);
/* kg_parallel_for over all processors, or on this thread if the operations are few. */
void kg_loops_on_all_processors(size_t n, double n_operations, void (*body)(void *arg, size_t begin, size_t end),
                                void *arg);
/* Rounds x[n] to the values that the precision holds. */
void kg_loops_round(float *x, size_t n, enum kg_precision precision);

struct kg_loops_linear {
    uint32_t m, n, k;
    const float *x, *w, *bias; /* of values that mode's precisions hold; bias NULL for none */
};

/* y = x w^T + bias on the device, y made by kg_op_output_init and not yet read. */
void kg_loops_linear_run(struct kg_op_device *d, const struct kg_loops_mode *mode, const struct kg_loops_linear *l,
                         struct kg_op_output *y);
/* sum[r][o] in float64 and limit[r][o], how far a result may be from it: (8 + sqrt K) 2^-24 sum|x w| for float32 sums,
 * and for float16 results the rounding of product and sum. Both (m, n). */
void kg_loops_linear(const struct kg_loops_mode *mode, const struct kg_loops_linear *l, double *sum, double *limit);
extern const char KG_LOOPS_WHY_LINEAR[];
/* Judges every element of a read y, in units of its limit, and against the largest output: FP16 GEMM 1e-3, FP32 1e-4.
 */
void kg_loops_linear_judge(struct kg_record *rec, const struct kg_loops_mode *mode, const struct kg_loops_linear *l,
                           const float *y);

/* The largest error of an element in units of its limit, infinite for NaN. */
double kg_loops_linear_margin(const struct kg_loops_mode *mode, const struct kg_loops_linear *l, const float *y);

struct kg_loops_attention {
    uint32_t n_rows, n_keys, n_heads, n_kv_heads, head_dim, window;
};

/* One query against keys [first, last] of a head-major cache head: two passes, no running maximum. *unit becomes the
 * largest sum|q k| scale that was seen. Returns log(sum_j exp(score_j)). */
double kg_loops_attend(const float *q, const float *k, const float *v, size_t first, size_t last, size_t head_dim,
                       double scale, double *out, double *unit);

/* Inputs and result of an attention, in host memory, malloc'ed. The cache has positions past the keys, NaN. */
struct kg_loops_attended {
    float *q, *k, *v;
    size_t n_q, n_cache;
    uint32_t n_ctx;
    const float *sinks;    /* (n_heads), NULL for none */
    struct kg_op_output y; /* read, every element finite */
};
/* Normal inputs of the seed. */
void kg_loops_attention_init(const struct kg_loops_mode *mode, const struct kg_loops_attention *s, uint64_t seed,
                             struct kg_loops_attended *a);
/* The inputs and y on the device. */
struct kg_attention_args kg_loops_attention_args(struct kg_op_device *d, const struct kg_loops_mode *mode,
                                                 const struct kg_loops_attention *s, struct kg_loops_attended *a);
void kg_loops_attention_run(struct kg_op_device *d, const struct kg_loops_mode *mode,
                            const struct kg_loops_attention *s, struct kg_loops_attended *a);
/* Judges every element, and against the largest output: FP16 attention 1e-2, FP32 1e-4. */
void kg_loops_attention_judge(struct kg_record *rec, const struct kg_loops_mode *mode,
                              const struct kg_loops_attention *s, const struct kg_loops_attended *a);
/* The largest error of an element in units of its limit, infinite for NaN. */
double kg_loops_attention_margin(const struct kg_loops_mode *mode, const struct kg_loops_attention *s,
                                 const struct kg_loops_attended *a);
void kg_loops_attention_free(struct kg_loops_attended *a);

/* All of it: a case whose argument says where and which. */
void kg_loops_attention_case(struct kg_record *rec, const struct kg_loops_mode *mode,
                             const struct kg_loops_attention *s);
void kg_loops_linear_case(struct kg_record *rec, const struct kg_loops_mode *mode, uint32_t m, uint32_t n, uint32_t k,
                          double mean, bool bias);

/* Opens the mode's back end; false after a skip. */
bool kg_loops_open(struct kg_record *rec, const struct kg_loops_mode *mode, struct kg_op_device *d);

#endif
