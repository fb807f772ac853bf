/* What MXFP4 cases compute in float64, in plain loops: rows of products, their variance, softmax, a choice of experts.
 */
#ifndef KIGO_SUITES_MXFP4_FLOAT64_H
#define KIGO_SUITES_MXFP4_FLOAT64_H

#include <stddef.h>
#include <stdint.h>

/* y (n_out) = w (n_out, n_in) x + bias, bias NULL: none. n_in is a multiple of 4. */
void kg_f64_product(const double *x, const double *w, const float *bias, uint32_t n_out, uint32_t n_in, double *y);

/* variance (n_out) of w x, whose elements vary independently by of_x; left as it is where nothing varies. */
void kg_f64_product_variance(const double *of_x, const double *w, uint32_t n_out, uint32_t n_in, double *variance);

void kg_f64_softmax(const double *x, double *y, size_t n); /* y may be x */

/* The n_used largest logits in order, ids and logits of them; the gap to the next one, infinite if there is none. */
double kg_f64_choose(const double *logits, uint32_t n_experts, uint32_t n_used, int32_t *ids, double *weights);

#endif
