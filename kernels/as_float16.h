/* Bfloat16 weights that are kept as float16, in place: matrix products of float16 are faster, as they need no second
 * part of x, and more kernels have them.
 *
 *     w' = w rounded to float16
 *
 * That is exact but for |w| < 2^-17, which become multiples of 2^-24, off by at most 2^-25. A weight is left as it is
 * if its largest |w| is beyond float16's 65504 or not finite, or is less than 2^-7, where such an error says more. */
#ifndef KIGO_KERNELS_AS_FLOAT16_H
#define KIGO_KERNELS_AS_FLOAT16_H

#include "kernels/cuda_backend.h"

/* Makes a BF16 weight in device memory F16, and says so in weight->dtype; leaves others, and those that are not on 16
 * bytes or no whole vectors of 8. Synchronises with the device. */
enum kg_status kg_cuda_weight_as_float16(struct kg_cuda_backend *cuda, struct kg_weight *weight, struct kg_error *err);

#endif
