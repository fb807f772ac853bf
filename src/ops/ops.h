/* The operations of a forward pass, one header each: equation, shapes, layout, aliasing, statuses.
 *
 * Common to all of them:
 * - Pointers in an args struct are in the memory of the back end that runs the operation. Matrices are row-major and
 *   dense.
 * - Activations (x, y, q, k, ...) have the precision args->activations (f32 unless stated otherwise), caches args->kv.
 *   Norm weights, biases, sinks, rope factors, router logits and expert weights are always float32. A precision that
 *   the back end lacks is KG_ERR_UNSUPPORTED.
 * - kg_<op>_check validates the shapes for all back ends: KG_ERR_USAGE naming the argument. The caller must check
 *   contents in back-end memory (ids).
 * - Zero rows are valid and write nothing. An output may alias an input only where its header says so.
 * - A back end may return before the work is done; download and synchronize wait for it.
 * - kg_cpu_<op> is the reference: plain loops that accumulate in double. The order of additions depends only on the
 *   shape of one row, so a row has the same bits in any batch and with any number of threads. A NULL pool runs on the
 *   calling thread. */
#ifndef KIGO_OPS_OPS_H
#define KIGO_OPS_OPS_H

#include "ops/add.h"
#include "ops/attention.h"
#include "ops/attention_weights.h"
#include "ops/embedding.h"
#include "ops/experts_combine.h"
#include "ops/experts_linear.h"
#include "ops/gelu.h"
#include "ops/kv_write.h"
#include "ops/layernorm.h"
#include "ops/linear.h"
#include "ops/linear_add.h"
#include "ops/norm_qkv.h"
#include "ops/norm_swiglu.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/router.h"
#include "ops/sdpa.h"
#include "ops/softmax.h"
#include "ops/swiglu.h"

/* X(op) in the order of a forward pass; then the operations that no model uses; then those that are several nodes of a
 * plan in one. */
#define KG_OP_LIST(X)                                                                                                  \
    X(embedding)                                                                                                       \
    X(rmsnorm)                                                                                                         \
    X(layernorm)                                                                                                       \
    X(linear)                                                                                                          \
    X(rope)                                                                                                            \
    X(kv_write)                                                                                                        \
    X(attention)                                                                                                       \
    X(softmax)                                                                                                         \
    X(add)                                                                                                             \
    X(swiglu)                                                                                                          \
    X(gelu)                                                                                                            \
    X(router)                                                                                                          \
    X(experts_linear)                                                                                                  \
    X(experts_combine) X(sdpa) X(sdpa_quantize) X(attention_weights) X(norm_qkv) X(norm_swiglu) X(linear_add)

#endif
