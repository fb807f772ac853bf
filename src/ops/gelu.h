/* gelu: y = x Phi(x) in one of two forms; Phi is the cumulative distribution function of the normal distribution. y may
 * be x.
 *
 *     erf:  y = x / 2 * (1 + erf(x / sqrt(2)))
 *     tanh: y = x / 2 * (1 + tanh(u)) = x / (1 + exp(-2 u)),  u = sqrt(2 / pi) * (x + 0.044715 x^3)
 *
 * The forms differ by up to 4.73e-4 (at x = -2.7 and 2.7), so a model needs the one it was trained with. In
 * transformers' configurations `gelu_new` (GPT-2) and `gelu_pytorch_tanh` are tanh, `gelu` is erf. Neither form is
 * computed as a difference from 1, so small results for negative x keep their digits. (Hendrycks, Gimpel, Gaussian
 * Error Linear Units, 2016.) */
#ifndef KIGO_OPS_GELU_H
#define KIGO_OPS_GELU_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdint.h>

/* 0 is not a form: an uninitialised value is an error. */
enum kg_gelu_form { KG_GELU_TANH = 1, KG_GELU_ERF };

struct kg_gelu_args {
    enum kg_precision activations;
    const void *x; /* (n_rows, n_cols) */
    void *y;       /* (n_rows, n_cols) */
    uint32_t n_rows, n_cols;
    enum kg_gelu_form form;
};

KG_WARN_UNUSED enum kg_status kg_gelu_check(const struct kg_gelu_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_gelu(struct kg_thread_pool *pool, const struct kg_gelu_args *args,
                                          struct kg_error *err);

#endif
