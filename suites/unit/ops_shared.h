/* What the suites of the reference operations share: inputs, pools of several sizes, and the tolerance. */
#ifndef KIGO_SUITES_OPS_SHARED_H
#define KIGO_SUITES_OPS_SHARED_H

#include "base/buffer.h"
#include "base/size.h"
#include "base/threads.h"
#include "suites/harness/case.h"
#include "suites/harness/compare.h"
#include <check.h>

/* Sums in double, one rounding to float32 at the end: half a unit in the last place, and a little where they cancel. */
static const struct kg_tolerance KG_ONE_ROUNDING = { .mixed_abs = 1e-7,
                                                     .mixed_rel = 0x1p-24 + 1e-9,
                                                     .why = "double sums rounded once to float32",
                                                     .far = "a small case may round to the very number" };

/* n distinct numbers, malloc'ed. */
static inline float *kg_filled(size_t n, uint64_t seed) {
    float *x = kg_xmalloc((n + 1) * sizeof *x);
    kg_fill_normal(x, n, seed, 0.1, 1);
    return x;
}

static inline void kg_must(enum kg_status status, const struct kg_error *err) {
    if (status) ck_abort_msg("%s", err->message);
}

/* 0 is no pool: the calling thread. */
static const int KG_POOL_SIZES[] = { 0, 1, 2, 3, 7 };

static inline struct kg_thread_pool *kg_pool_of(int pool_size) {
    struct kg_thread_pool *pool = NULL;
    struct kg_error err;
    if (pool_size > 0) kg_must(kg_thread_pool_create(pool_size, &pool, &err), &err);
    return pool;
}

#endif
