/* What the benches of sdpa and of its peers share: the shapes, what one call of each counts, and the rows a result is
 * held against float64 at. */
#ifndef KIGO_SUITES_SDPA_WORK_H
#define KIGO_SUITES_SDPA_WORK_H

#include "suites/support/sdpa_problem.h"
#include <kigo/engine.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_sdpa_shape {
    uint32_t n_batch, n_heads, n_kv_heads, n_queries, n_keys, head_dim;
    bool causal; /* aligned at the end: ops/sdpa.h */
    bool quick;  /* small: for the reference back end and `kigo bench --quick` */
};

extern const struct kg_sdpa_shape KG_SDPA_SHAPES[];
extern const size_t KG_N_SDPA_SHAPES;

/* "B=1 H=8/8 S=512 D=64 full", "B=1 H=14/2 Sq=1 Sk=8192 D=64 causal": as in case keys. */
void kg_sdpa_shape_text(const struct kg_sdpa_shape *s, char text[KG_SDPA_PROBLEM_TEXT]);

/* Elements of q (and of y), and of k or v. */
uint64_t kg_sdpa_query_elems(const struct kg_sdpa_shape *s);
uint64_t kg_sdpa_key_elems(const struct kg_sdpa_shape *s);

/* Of one call: 4 head_dim operations for each pair of a query and a key it sees (two products, a multiply-add counts
 * two); each input and the output once. */
double kg_sdpa_flops(const struct kg_sdpa_shape *s);
double kg_sdpa_bytes(const struct kg_sdpa_shape *s, enum kg_precision inputs, enum kg_precision output);

float kg_sdpa_softmax_scale(const struct kg_sdpa_shape *s); /* 1 / sqrt(head_dim) */

/* A query: of batch entry b, head h, row i. */
struct kg_sdpa_row {
    uint32_t b, h, i;
};
/* Corners and edges of tiles, and rows drawn from the seed: those that are looked at, as float64 costs a row of keys
 * each. */
enum { KG_SDPA_SPOTS = 16 };
void kg_sdpa_spots(const struct kg_sdpa_shape *s, uint64_t seed, struct kg_sdpa_row rows[KG_SDPA_SPOTS]);

/* y (head_dim) of query row i of one head: q (head_dim), k and v (n_keys, head_dim) as they are after dequantising. */
void kg_sdpa_float64(const struct kg_sdpa_shape *s, uint32_t i, const float *q, const float *k, const float *v,
                     double *y);

#endif
