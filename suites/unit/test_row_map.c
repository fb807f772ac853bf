/* Where the fused decode step finds the rows of a pair (kernels/decode/row_map.cuh), on the host: every row of every
 * pair against where a plain reader of the form finds it. A mistake in what the map is made from must show. */
#include "suites/support/row_map_host.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTS                                                                                                        \
    { 0x100000000, 0x7000000010, 0x300000000 } /* the second far behind the first, the third between */

static const struct rows {
    const char *name;
    struct kg_rows_problem problem;
} ROWS[] = {
    { "neighbours", { KG_ROWS_NEIGHBOURS, .n_pairs = 100544, .weights = WEIGHTS, .row_bytes = { 3060 } } },
    { "one_pair", { KG_ROWS_NEIGHBOURS, .n_pairs = 1, .weights = WEIGHTS, .row_bytes = { 18 } } },
    { "of_two", { KG_ROWS_OF_TWO, .n_pairs = 28672, .weights = WEIGHTS, .row_bytes = { 2304 } } },
    { "of_two_the_first_behind",
      { KG_ROWS_OF_TWO, .n_pairs = 4864, .weights = { 0x7000000000, 0x1000 }, .row_bytes = { 952 } } },
#define HEADS(q, kv, dim, apart)                                                                                       \
    {                                                                                                                  \
        KG_ROWS_OF_HEADS, .n_pairs = ((q) + 2 * (kv)) * (dim) / 2, .n_heads = q, .n_kv_heads = kv, .head_dim = dim,    \
                          .n_apart = apart, .weights = WEIGHTS, .row_bytes = {                                         \
                              2304,                                                                                    \
                              2304,                                                                                    \
                              3360                                                                                     \
                          }                                                                                            \
    }
    { "heads_of_64_halves", HEADS(14, 2, 64, 32) },
    { "heads_of_128_halves", HEADS(128, 16, 128, 64) },
    { "heads_of_96_halves", HEADS(32, 32, 96, 48) },
    { "heads_of_80_partly_rotated", HEADS(12, 4, 80, 16) },
    { "heads_of_256_halves", HEADS(4, 1, 256, 128) },
    { "heads_of_128_neighbours", HEADS(32, 8, 128, 0) },
    { "heads_of_2", HEADS(4096, 1024, 2, 0) },
    { "heads_of_6", HEADS(7, 3, 6, 2) },
};

static struct kg_row_place plain_place(const struct kg_rows_problem *p, uint32_t pair, uint32_t which) {
    if (p->form == KG_ROWS_NEIGHBOURS)
        return (struct kg_row_place){ p->weights[0] + (2 * (uint64_t)pair + which) * p->row_bytes[0], 0 };
    if (p->form == KG_ROWS_OF_TWO)
        return (struct kg_row_place){ p->weights[which] + (uint64_t)pair * p->row_bytes[0], 0 };
    const uint32_t head_pairs = p->head_dim / 2, head = pair / head_pairs, i = pair % head_pairs,
                   matrix = head < p->n_heads                   ? 0
                            : head < p->n_heads + p->n_kv_heads ? 1
                                                                : 2,
                   first = matrix == 0 ? 0 : p->n_heads + (matrix == 2 ? p->n_kv_heads : 0),
                   dim = i < p->n_apart ? i + which * p->n_apart : 2 * i + which;
    const uint64_t row = (uint64_t)(head - first) * p->head_dim + dim;
    return (struct kg_row_place){ p->weights[matrix] + row * p->row_bytes[matrix], matrix };
}

/* Rows that are elsewhere than a plain reader of `right` finds them. */
static uint32_t count_elsewhere(const struct kg_rows_problem *right, const struct kg_rows_problem *map) {
    uint32_t n = 0;
    for (uint32_t pair = 0; pair < right->n_pairs; pair++)
        for (uint32_t which = 0; which < 2; which++) {
            const struct kg_row_place got = kg_row_map_place(map, pair, which), want = plain_place(right, pair, which);
            n += got.at != want.at || got.source != want.source;
        }
    return n;
}

static bool is_there(struct kg_record *rec) {
    if (kg_row_map_missing) kg_record_skip(rec, "%s", kg_row_map_missing);
    return !kg_row_map_missing;
}

static void rows_of_all_pairs(struct kg_record *rec, const void *arg) {
    const struct rows *c = arg;
    if (is_there(rec)) ck_assert_uint_eq(count_elsewhere(&c->problem, &c->problem), 0);
}

static void one_row_longer(struct kg_rows_problem *p) {
    p->row_bytes[0]++;
}
static void matrices_exchanged(struct kg_rows_problem *p) {
    const uint64_t first = p->weights[0];
    p->weights[0] = p->weights[1], p->weights[1] = first;
}
static void halves_as_neighbours(struct kg_rows_problem *p) {
    p->n_apart = 0;
}
static void one_dim_fewer_apart(struct kg_rows_problem *p) {
    p->n_apart--;
}
static void one_head_more(struct kg_rows_problem *p) {
    p->n_heads++;
}
static void heads_of_two_dims_more(struct kg_rows_problem *p) {
    p->head_dim += 2;
}

static const struct mistake {
    const char *name, *rows;
    void (*make)(struct kg_rows_problem *p);
} MISTAKES[] = {
    { "mistake_one_row_longer", "neighbours", one_row_longer },
    { "mistake_matrices_exchanged", "of_two", matrices_exchanged },
    { "mistake_halves_as_neighbours", "heads_of_64_halves", halves_as_neighbours },
    { "mistake_one_dim_fewer_apart", "heads_of_80_partly_rotated", one_dim_fewer_apart },
    { "mistake_one_head_more", "heads_of_96_halves", one_head_more },
    { "mistake_heads_of_two_dims_more", "heads_of_128_neighbours", heads_of_two_dims_more },
};

static void mistake_shows(struct kg_record *rec, const void *arg) {
    const struct mistake *m = arg;
    const struct rows *rows = ROWS;
    if (!is_there(rec)) return;
    while (strcmp(rows->name, m->rows) != 0) rows++;
    struct kg_rows_problem wrong = rows->problem;
    m->make(&wrong);
    const uint32_t n = count_elsewhere(&rows->problem, &wrong);
    ck_assert_uint_gt(n, 0);
    kg_record_metric(rec, "rows_elsewhere", "count", n);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *shape = kg_xasprintf("pairs=%u", ROWS[i].problem.n_pairs);
        kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                                   .op = "row_map",
                                                   .name = ROWS[i].name,
                                                   .shape = shape,
                                                   .run = rows_of_all_pairs,
                                                   .arg = &ROWS[i] });
        free(shape);
    }
    for (size_t i = 0; i < KG_COUNT_OF(MISTAKES); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                                   .op = "row_map",
                                                   .name = MISTAKES[i].name,
                                                   .run = mistake_shows,
                                                   .arg = &MISTAKES[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
