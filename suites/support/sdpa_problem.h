/* Attention problems with their answers, for every suite that looks at sdpa: inputs of a seed, the answer in plain
 * float64 loops (float64_loops.h, which share nothing with kg_cpu_sdpa), the limits of its error; and the memory of a
 * back end in any layout, poisoned wherever an element is not. */
#ifndef KIGO_SUITES_SDPA_PROBLEM_H
#define KIGO_SUITES_SDPA_PROBLEM_H

#include "suites/support/op_device.h"

struct kg_sdpa_problem_shape {
    uint32_t n_batch, n_heads, n_kv_heads, n_queries, n_keys, head_dim;
    bool causal;
    uint32_t window;
    bool sinks;
};

/* "B=1 H=8/8 S=512 D=64 full", "B=1 H=14/2 Sq=1 Sk=8192 D=64 causal window=128 sinks". */
enum { KG_SDPA_PROBLEM_TEXT = 96 };
void kg_sdpa_problem_text(const struct kg_sdpa_problem_shape *shape, char text[KG_SDPA_PROBLEM_TEXT]);

enum kg_sdpa_data {
    KG_SDPA_NORMAL,   /* mean 0, deviation 1 */
    KG_SDPA_OUTLIERS, /* every thousandth element, and at least one, ten times as large; values by a tenth of all, for a
                       * float16 result of 16 or more is itself rounded by more than the limits of the error */
};

/* Dense (n_batch, n_heads, n_rows, head_dim), all in host memory. */
struct kg_sdpa_tensor {
    size_t n; /* elements */
    uint32_t n_heads, n_rows;
    float *original; /* before it is rounded or quantised */
    float *values;   /* as the inputs' precision holds them; of f8 and i8 without the scale */
    uint8_t *bytes;  /* f8 and i8 only */
    float *scales;   /* f8 and i8 only: (n_batch, n_heads) */
};

struct kg_sdpa_problem {
    struct kg_sdpa_problem_shape shape;
    enum kg_precision inputs;
    float scale; /* 1/sqrt(head_dim) */
    struct kg_sdpa_tensor q, k, v;
    float *sinks; /* (n_heads) or NULL */
    double *want; /* (n_batch, n_heads, n_queries, head_dim): of the values */
    size_t n_want;
    double *want_original; /* of what they were before they were quantised; NULL where it was not asked for */
    double largest;        /* of |want| */
    double plain_max_abs, plain_nmse; /* f16: of a plain FP16 implementation; else 0 */
};

/* The inputs in float32, unrounded, for a case to change; then rounded or quantised; then the answers. */
void kg_sdpa_problem_fill(struct kg_sdpa_problem *p, const struct kg_sdpa_problem_shape *shape,
                          enum kg_precision inputs, enum kg_sdpa_data data, uint64_t seed);
void kg_sdpa_problem_round(struct kg_sdpa_problem *p);
void kg_sdpa_problem_solve(struct kg_sdpa_problem *p, bool with_original);
void kg_sdpa_problem_free(struct kg_sdpa_problem *p);

/* Where an element of a dense tensor lies. */
size_t kg_sdpa_at(const struct kg_sdpa_problem *p, const struct kg_sdpa_tensor *t, size_t batch, size_t head,
                  size_t row);
/* Whether the query sees any key. */
bool kg_sdpa_sees(const struct kg_sdpa_problem *p, size_t query);

/* The limits of an output in that precision. */
struct kg_tolerance kg_sdpa_tolerance(const struct kg_sdpa_problem *p, enum kg_precision output);
/* Compares with want; the margin is infinite where a query that sees nothing has not zeros. */
double kg_sdpa_margin(const struct kg_sdpa_problem *p, const float *got, const struct kg_tolerance *tol,
                      struct kg_compare *compare);

/* What a variant of the GPU is not made for: no cases, but for one that sees it refused. All that a row says must hold;
 * 0 says nothing. */
struct kg_sdpa_untaken {
    enum kg_sdpa_variant variant;
    enum kg_precision inputs;
    uint32_t head_dim, queries_above, keys_above;
};
extern const struct kg_sdpa_untaken KG_SDPA_UNTAKEN[];
extern const size_t KG_SDPA_N_UNTAKEN;
bool kg_sdpa_is_untaken(enum kg_sdpa_variant variant, enum kg_precision inputs,
                        const struct kg_sdpa_problem_shape *shape);

/* How many of the problems that a variant was asked it took. */
struct kg_sdpa_share {
    size_t n_asked, n_taken;
};
/* Counts an answer. False: it is not the one of KG_SDPA_UNTAKEN, a refusal that no row says or a result where one
 * does. */
bool kg_sdpa_share_count(struct kg_sdpa_share *share, enum kg_sdpa_variant variant, enum kg_precision inputs,
                         const struct kg_sdpa_problem_shape *shape, bool taken);
/* The least share of the tolerance suite's problems that a variant takes, and why so much. */
struct kg_sdpa_floor {
    double share;
    const char *why;
};
const struct kg_sdpa_floor *kg_sdpa_floor(enum kg_sdpa_variant variant);

/* Layouts. */
enum kg_sdpa_layout {
    KG_SDPA_DENSE,       /* as the contract has it */
    KG_SDPA_INTERLEAVED, /* (batch, rows, heads, head_dim), as a projection leaves them */
    KG_SDPA_PADDED,      /* 16 elements between rows, 3 rows between heads */
    KG_SDPA_CACHE,       /* each head has room for 200 more rows, as a cache that is not full */
    KG_SDPA_ODD,         /* nothing aligned: 3 elements between rows, the first element one off */
};

/* Multiples of 16 elements, but for the odd layout: of 16 bytes in any precision. */
struct kg_sdpa_strides kg_sdpa_layout_strides(enum kg_sdpa_layout layout, uint64_t n_heads, uint64_t n_rows,
                                              uint64_t dim);

/* A problem in a back end's memory. */
struct kg_sdpa_placed {
    const struct kg_sdpa_problem *problem;
    struct kg_sdpa_args args; /* variant AUTO */
    void *y_block;            /* in the back end's memory: guards, the output with what lies between its rows, guards */
    size_t y_block_elems, y_first;
};

/* `as`: the problem's inputs, or f32 for the values of f16 inputs. The output is f32 on the cpu back end, f16 on any
 * other. Everything around and between the rows of the inputs is NaN. Lasts until kg_op_device_clear. */
void kg_sdpa_place(struct kg_op_device *d, const struct kg_sdpa_problem *p, enum kg_sdpa_layout layout,
                   enum kg_precision as, struct kg_sdpa_placed *placed);
/* Poisons the output and runs; KG_ERR_UNSUPPORTED is the caller's to judge. */
enum kg_status kg_sdpa_run(struct kg_op_device *d, struct kg_sdpa_placed *placed, enum kg_sdpa_variant variant,
                           struct kg_error *err);
/* got[n_want], dense. Fails the case if an element was not written, or anything else was. */
void kg_sdpa_fetch(struct kg_op_device *d, const struct kg_sdpa_placed *placed, float *got);

#endif
