/* The operations of a forward pass, one header each: equation, shapes, layout, aliasing, statuses.
 *
 * Common to all of them:
 * - Every pointer of an args struct is in the memory of the back end that runs it. Matrices are row-major, rows dense.
 * - Activations (x, y, q, k, ...) are of the args' `activations` precision (f32 unless said otherwise), caches of `kv`;
 *   norm weights, biases, sinks, rope factors, router logits and experts' weights are always float32. A precision a
 * back end does not have is KG_ERR_UNSUPPORTED.
 * - kg_<op>_check is the contract about shapes as code, shared by all back ends: KG_ERR_USAGE naming the argument.
 *   Contents in back-end memory (ids) are the caller's to check.
 * - Zero rows are good and write nothing. An output may alias an input only where its header says so.
 * - A back end may return before the work is done; download and synchronize wait for it.
 * - kg_cpu_<op> is the reference: plain loops with double accumulation whose order depends on the shapes of one row
 *   only, so that a row's result is the same bits in any batch and with any number of threads. A NULL pool runs on the
 *   calling thread. */
#ifndef KIGO_OPS_OPS_H
#define KIGO_OPS_OPS_H

#include "ops/add.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/experts_combine.h"
#include "ops/experts_linear.h"
#include "ops/gelu.h"
#include "ops/kv_write.h"
#include "ops/layernorm.h"
#include "ops/linear.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/router.h"
#include "ops/sdpa.h"
#include "ops/softmax.h"
#include "ops/swiglu.h"

/* X(op) in the order a token meets them; then those that stand by themselves. */
#define KG_OP_LIST(X)                                                                                                  \
    X(embedding)                                                                                                       \
    X(rmsnorm)                                                                                                         \
    X(layernorm)                                                                                                       \
    X(linear)                                                                                                          \
    X(rope)                                                                                                            \
    X(kv_write)                                                                                                        \
    X(attention)                                                                                                       \
    X(softmax) X(add) X(swiglu) X(gelu) X(router) X(experts_linear) X(experts_combine) X(sdpa) X(sdpa_quantize)

#endif
