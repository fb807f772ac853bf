/* Kernels of the fused decode step beside those of the operations: products with F16, BF16 or F32 matrices (matrix.cu),
 * with those of block formats (blocks.cu) and with repacked MXFP4 (repacked.cu), the choice of experts (router.cu). All
 * are for sm_90. */
#ifndef KIGO_KERNELS_DECODE_LAUNCHES_H
#define KIGO_KERNELS_DECODE_LAUNCHES_H

#include "kernels/cuda_backend.h"
#include "kernels/block/precision.cuh"
#include "kernels/block/swiglu.cuh"

enum { KG_STEP_MATRICES = 3 };

/* The epilogue of a pair of weight rows. */
enum kg_step_form {
    KG_STEP_QKV,      /* a pair of dims of a head; of q and k rotated: q to y, k and v to the cache */
    KG_STEP_RESIDUAL, /* neighbouring outputs, added to y */
    KG_STEP_GATED,    /* gate and up of one output: y = swiglu(gate, up) */
    KG_STEP_GELU,     /* the same with gelu's gate */
    KG_STEP_PLAIN,    /* neighbouring outputs (quantised formats only) */
};

/* Rows not yet added to the residual stream, each times its weight: the sum over experts, which no launch has made. */
struct kg_step_pending {
    const void *rows;     /* (n_used, n_embd) of the residual's precision */
    const float *weights; /* (n_used) */
    uint32_t n_used;      /* 0 for none */
};

/* Destinations of q, k, v. */
struct kg_step_heads {
    void *k_cache, *v_cache; /* (n_kv_heads, n_ctx, head_dim) */
    const float2 *cos_sin;   /* (n_rot / 2): cosine, sine of the position */
    const struct kg_cuda_step *step;
    uint32_t n_heads, n_kv_heads, head_dim, n_ctx, n_rot;
    bool half; /* pairs (i, i + n_rot/2), else (2i, 2i + 1) */
    enum kg_precision kv;
};

struct kg_step_matrix {
    struct {
        const uint8_t *weight; /* on 16 bytes; rows of F16, BF16 and F32 too, and of whole vectors */
        const float *bias;     /* NULL for none */
        enum kg_dtype dtype;
    } matrix[KG_STEP_MATRICES];    /* QKV: q, k, v; GATED: gate, up. Of one dtype, but for a QKV of block formats */
    enum kg_precision activations; /* x is of these, unless it is normalised */
    enum kg_step_form form;
    uint32_t n_in, n_pairs; /* of rows */
    const void *x;          /* (n_in) */
    enum kg_precision x_precision;
    const float *norm_weight;       /* (n_in): x is normalised; NULL: it is not */
    float eps;                      /* where it is */
    struct kg_step_pending pending; /* of x where it is normalised, of y where y is added to */
    void *y;
    enum kg_precision y_precision;
    struct kg_step_heads heads; /* QKV */
    struct kg_swiglu_op gate;   /* GATED */
    struct kg_geglu_op gelu;    /* GELU */
};

/* Whether the kernel for F16, BF16 and F32 (matrix.cu) supports so many pairs of rows of so many elements. */
bool kg_step_rows_fit(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m);

/* Enqueues the product; it must fit. */
enum kg_status kg_step_multiply_rows(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m,
                                     struct kg_error *err);

/* The same for block formats (blocks.cu). x, or x times the norm's weight, becomes integers of 16 bits with a step for
 * 32 of them (digits.cuh); 1 / rms multiplies the sums. From |x| of 2^126 on the result is NaN. */
bool kg_step_has_blocks(enum kg_dtype dtype);
bool kg_step_blocks_fit(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m);
enum kg_status kg_step_multiply_blocks(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m,
                                       struct kg_error *err);

/* The same for repacked MXFP4 (mxfp4/mxfp4.h); each matrix has whole units of 16 pairs. Where a QKV's heads are rotated
 * by halves, kg_step_repacked_heads_fit(head_dim, n_rot), too. */
bool kg_step_repacked_fits(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m);
bool kg_step_repacked_heads_fit(uint32_t head_dim, uint32_t n_rot);
enum kg_status kg_step_multiply_repacked(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m,
                                         struct kg_error *err);
enum { KG_STEP_UNIT_PAIRS = 16 };

struct kg_step_router {
    const void *x; /* (n_in) */
    enum kg_precision x_precision;
    const float *norm_weight; /* (n_in) */
    float eps;
    void *y; /* (n_in): norm(x) */
    enum kg_precision y_precision;
    const void *weight; /* (n_experts, n_in) */
    enum kg_dtype weight_dtype;
    const float *bias;                /* (n_experts), NULL for none */
    int32_t *ids;                     /* (n_used) */
    float *weights;                   /* (n_used) */
    uint32_t n_in, n_experts, n_used; /* n_in a multiple of 8 */
};

/* Whether the kernel supports such a router. */
bool kg_step_router_fits(const struct kg_cuda_backend *cuda, const struct kg_weight *weight);

/* Enqueues norm and choice; the router must fit. */
enum kg_status kg_step_route(const struct kg_cuda_backend *cuda, const struct kg_step_router *r, struct kg_error *err);

/* q, k and v between their products and attention: heads of q and k normalised, rotated; k and v to the cache. */
struct kg_step_head_norms {
    void *q;                          /* (n_heads, head_dim), in place */
    const void *k, *v;                /* (n_kv_heads, head_dim) */
    const float *q_weight, *k_weight; /* (head_dim) */
    float eps;
    enum kg_precision activations;
    struct kg_step_heads heads;
};
bool kg_step_heads_fit(uint32_t head_dim);
enum kg_status kg_step_norm_heads(const struct kg_cuda_backend *cuda, const struct kg_step_head_norms *p,
                                  struct kg_error *err);

/* y += norm(x) */
struct kg_step_norm_add {
    const void *x;       /* (n) */
    void *y;             /* (n) */
    const float *weight; /* (n) */
    uint32_t n;
    float eps;
    enum kg_precision precision; /* of x and y */
};
bool kg_step_norm_add_fits(const struct kg_step_norm_add *p);
enum kg_status kg_step_add_norm(const struct kg_cuda_backend *cuda, const struct kg_step_norm_add *p,
                                struct kg_error *err);

#endif
