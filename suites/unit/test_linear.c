/* The reference of linear and embedding at their edges, against loops of another form in long double; and that a row's
 * bits depend neither on the threads nor on the rows beside it. */
#include "ops/dot_rows.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "suites/unit/ops_shared.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct linear_shape {
    const char *name, *shape;
    enum kg_dtype dtype;
    uint32_t n_rows, n_out, n_in;
    bool bias;
};
static const struct linear_shape LINEARS[] = {
    { "one_element", "M=1 N=1 K=1", KG_DTYPE_F32, 1, 1, 1, false },
    { "partial_vector", "M=3 N=5 K=7", KG_DTYPE_F32, 3, 5, 7, true },
    { "one_vector", "M=2 N=3 K=8", KG_DTYPE_F32, 2, 3, 8, false },
    { "vector_and_one", "M=2 N=3 K=9", KG_DTYPE_F16, 2, 3, 9, true },
    { "one_below_a_piece", "M=2 N=7 K=1023", KG_DTYPE_F32, 2, 7, 1023, false },
    { "one_piece", "M=2 N=7 K=1024", KG_DTYPE_F16, 2, 7, 1024, true },
    { "one_above_a_piece", "M=2 N=7 K=1025", KG_DTYPE_BF16, 2, 7, 1025, true },
    { "one_below_a_row_block", "M=31 N=33 K=65", KG_DTYPE_F32, 31, 33, 65, true },
    { "one_row_block", "M=32 N=33 K=65", KG_DTYPE_F32, 32, 33, 65, true },
    { "one_above_a_row_block", "M=33 N=33 K=65", KG_DTYPE_F32, 33, 33, 65, true },
    { "three_row_blocks", "M=71 N=129 K=40", KG_DTYPE_F16, 71, 129, 40, false },
    { "q8_0_pieces", "M=5 N=9 K=2080", KG_DTYPE_Q8_0, 5, 9, 2080, true },
    { "mxfp4_one_block", "M=2 N=3 K=32", KG_DTYPE_MXFP4, 2, 3, 32, true },
    { "many_outputs", "M=1 N=3001 K=96", KG_DTYPE_F16, 1, 3001, 96, false },
};

struct linear_data {
    float *x, *bias;
    char *weight;
    struct kg_linear_args args; /* y is to be set */
};

static void linear_setup(const struct linear_shape *s, uint64_t seed, struct linear_data *d) {
    const struct kg_dtype_info *info = kg_dtype_info(s->dtype);
    struct kg_weight w = { .dtype = s->dtype, .n_rows = s->n_out, .n_cols = s->n_in };
    const size_t row_bytes = kg_weight_row_bytes(&w);
    float *values = kg_filled((size_t)s->n_out * s->n_in, seed);
    d->x = kg_filled((size_t)s->n_rows * s->n_in, seed + 1);
    d->bias = kg_filled(s->n_out, seed + 2);
    d->weight = kg_xmalloc(row_bytes * s->n_out);
    for (size_t o = 0; o < s->n_out; o++) info->encode(values + o * s->n_in, d->weight + o * row_bytes, s->n_in);
    free(values);
    w.data = d->weight;
    d->args = (struct kg_linear_args){ .x = d->x, .weight = w, .bias = s->bias ? d->bias : NULL, .n_rows = s->n_rows };
}

static void linear_teardown(struct linear_data *d) {
    free(d->weight);
    free(d->bias);
    free(d->x);
}

/* Column by column of the weight, all products of an output in one long double. */
static double *linear_naive(const struct linear_shape *s, const struct linear_data *d) {
    const struct kg_dtype_info *info = kg_dtype_info(s->dtype);
    const size_t row_bytes = kg_weight_row_bytes(&d->args.weight);
    double *want = kg_xcalloc((size_t)s->n_rows * s->n_out, sizeof *want);
    float *row = kg_xmalloc(s->n_in * sizeof *row);
    for (size_t o = 0; o < s->n_out; o++) {
        info->decode(d->weight + o * row_bytes, row, s->n_in);
        for (size_t r = 0; r < s->n_rows; r++) {
            long double sum = s->bias ? d->bias[o] : 0;
            for (size_t i = s->n_in; i-- > 0;) sum += (long double)row[i] * d->x[r * s->n_in + i];
            want[r * s->n_out + o] = (double)sum;
        }
    }
    free(row);
    return want;
}

static void linear_case(struct kg_record *rec, const void *arg) {
    const struct linear_shape *s = arg;
    const size_t n = (size_t)s->n_rows * s->n_out;
    struct linear_data d;
    struct kg_guarded y, again;
    struct kg_error err;
    linear_setup(s, kg_record_seed(rec), &d);
    kg_guarded_init(&y, n);
    d.args.y = y.data;
    kg_must(kg_cpu_linear(NULL, &d.args, &err), &err);
    kg_guarded_expect_written(&y, "y");
    double *want = linear_naive(s, &d);
    kg_expect_close_f64(rec, "y", y.data, want, n, &KG_ONE_ROUNDING);
    free(want);

    for (size_t i = 0; i < KG_COUNT_OF(KG_POOL_SIZES); i++) {
        struct kg_thread_pool *pool = kg_pool_of(KG_POOL_SIZES[i]);
        kg_guarded_init(&again, n);
        d.args.y = again.data;
        kg_must(kg_cpu_linear(pool, &d.args, &err), &err);
        kg_guarded_expect_written(&again, "y on threads");
        ck_assert_mem_eq(again.data, y.data, n * sizeof *y.data);
        kg_guarded_free(&again);
        kg_thread_pool_destroy(pool);
    }
    for (size_t r = 0; r < s->n_rows; r++) {
        kg_guarded_init(&again, s->n_out);
        struct kg_linear_args alone = d.args;
        alone.x = d.x + r * s->n_in;
        alone.y = again.data;
        alone.n_rows = 1;
        kg_must(kg_cpu_linear(NULL, &alone, &err), &err);
        kg_guarded_expect_written(&again, "a row alone");
        ck_assert_mem_eq(again.data, y.data + r * s->n_out, s->n_out * sizeof *y.data);
        kg_guarded_free(&again);
    }
    kg_guarded_free(&y);
    linear_teardown(&d);
}

/* Positions are added in pieces of 1024 columns: each from its own place, in blocks as in float32. */
static void positions_of_many_columns(struct kg_record *rec, const void *arg) {
    static const enum kg_dtype DTYPES[] = { KG_DTYPE_F32, KG_DTYPE_F16, KG_DTYPE_Q8_0 };
    enum { COLS = 2080, N_POSITIONS = 3, POSITION = 1, ROWS = 2 };
    const int32_t ids[ROWS] = { 0, 0 };
    float *zeros = kg_xcalloc(COLS, sizeof *zeros), *positions = kg_filled(N_POSITIONS * COLS, kg_record_seed(rec));
    float *want = kg_xmalloc(COLS * sizeof *want);
    (void)arg;
    for (size_t d = 0; d < KG_COUNT_OF(DTYPES); d++) {
        const struct kg_dtype_info *info = kg_dtype_info(DTYPES[d]);
        const size_t row_bytes = COLS / info->block_elems * info->block_bytes;
        char *stored = kg_xmalloc(N_POSITIONS * row_bytes);
        struct kg_guarded y;
        struct kg_error err;
        for (size_t r = 0; r < N_POSITIONS; r++) info->encode(positions + r * COLS, stored + r * row_bytes, COLS);
        kg_guarded_init(&y, ROWS * COLS);
        const struct kg_embedding_args args = { .weight = { zeros, KG_DTYPE_F32, 1, COLS },
                                                .positions = { stored, DTYPES[d], N_POSITIONS, COLS },
                                                .position = POSITION,
                                                .ids = ids,
                                                .n_rows = ROWS,
                                                .y = y.data };
        kg_must(kg_cpu_embedding(NULL, &args, &err), &err);
        kg_guarded_expect_written(&y, "y");
        for (size_t r = 0; r < ROWS; r++) {
            info->decode(stored + (POSITION + r) * row_bytes, want, COLS);
            ck_assert_mem_eq(y.data + r * COLS, want, COLS * sizeof *want);
        }
        kg_guarded_free(&y);
        free(stored);
    }
    free(want);
    free(positions);
    free(zeros);
}

static void embedding_rows(struct kg_record *rec, const void *arg) {
    (void)arg;
    enum { ROWS_OF_WEIGHT = 5, COLS = 7 };
    const int32_t ids[] = { 4, 0, 4, 2 };
    float *weight = kg_filled(ROWS_OF_WEIGHT * COLS, kg_record_seed(rec));
    struct kg_guarded y;
    struct kg_error err;
    kg_guarded_init(&y, 4 * COLS);
    struct kg_embedding_args args = {
        .weight = { weight, KG_DTYPE_F32, ROWS_OF_WEIGHT, COLS }, .ids = ids, .n_rows = 4, .y = y.data
    };
    kg_must(kg_cpu_embedding(NULL, &args, &err), &err);
    kg_guarded_expect_written(&y, "y");
    for (int r = 0; r < 4; r++) ck_assert_mem_eq(y.data + r * COLS, weight + ids[r] * COLS, COLS * sizeof(float));
    const int32_t bad[][2] = { { 0, 5 }, { -1, 0 }, { 2147483647, 1 } };
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) {
        args.ids = bad[i];
        args.n_rows = 2;
        ck_assert_int_eq(kg_cpu_embedding(NULL, &args, &err), KG_ERR_RANGE);
    }
    kg_guarded_free(&y);
    free(weight);
}

/* The row of a position is that of first + r, in its own format; the sum is of the decoded rows. */
static void embedding_with_positions(struct kg_record *rec, const void *arg) {
    (void)arg;
    enum { TOKENS = 5, POSITIONS = 6, COLS = 40, ROWS = 3, FIRST = 2 };
    const int32_t ids[ROWS] = { 4, 0, 4 };
    float *weight = kg_filled(TOKENS * COLS, kg_record_seed(rec)), *positions = kg_filled(POSITIONS * COLS, 5),
          y[ROWS * COLS];
    uint16_t halves[POSITIONS * COLS];
    struct kg_error err;
    for (size_t i = 0; i < POSITIONS * COLS; i++) halves[i] = kg_f32_to_f16(positions[i]);
    struct kg_embedding_args args = { .weight = { weight, KG_DTYPE_F32, TOKENS, COLS },
                                      .ids = ids,
                                      .n_rows = ROWS,
                                      .y = y,
                                      .positions = { halves, KG_DTYPE_F16, POSITIONS, COLS },
                                      .position = FIRST };
    kg_must(kg_cpu_embedding(NULL, &args, &err), &err);
    for (size_t i = 0; i < ROWS * COLS; i++)
        ck_assert_float_eq(y[i],
                           weight[(size_t)ids[i / COLS] * COLS + i % COLS] + kg_f16_to_f32(halves[FIRST * COLS + i]));
    args.position = POSITIONS - ROWS;
    kg_must(kg_cpu_embedding(NULL, &args, &err), &err);
    args.position = POSITIONS - ROWS + 1;
    ck_assert_int_eq(kg_cpu_embedding(NULL, &args, &err), KG_ERR_USAGE);
    args.position = UINT32_MAX;
    ck_assert_int_eq(kg_cpu_embedding(NULL, &args, &err), KG_ERR_USAGE);
    args.position = 0, args.positions.n_cols = COLS - 1;
    ck_assert_int_eq(kg_cpu_embedding(NULL, &args, &err), KG_ERR_USAGE);
    free(positions);
    free(weight);
}

/* Whichever a processor has: lanes that hold something already, an x that lies anywhere, the fewest lanes and a piece.
 */
static void each_way_adds_alike(struct kg_record *rec, const void *arg) {
    static const size_t LENGTHS[] = { KG_DOT_LANES, 5 * KG_DOT_LANES, KG_DOT_PIECE };
    float(*weights)[KG_DOT_PIECE] = kg_xmalloc(KG_DOT_WEIGHT_ROWS * sizeof *weights);
    float *x = kg_filled(KG_DOT_PIECE + 1, kg_record_seed(rec));
    size_t n_ways = 0;
    (void)arg;
    for (size_t row = 0; row < KG_DOT_WEIGHT_ROWS; row++) {
        float *filled = kg_filled(KG_DOT_PIECE, kg_record_seed(rec) + 1 + row);
        memcpy(weights[row], filled, sizeof weights[row]);
        free(filled);
    }
    for (kg_dot_rows_fn *way; (way = kg_dot_rows_way(n_ways)) != NULL; n_ways++)
        for (size_t i = 0; i < KG_COUNT_OF(LENGTHS); i++) {
            double got[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES], want[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES];
            for (size_t row = 0; row < KG_DOT_WEIGHT_ROWS; row++)
                for (size_t lane = 0; lane < KG_DOT_LANES; lane++)
                    got[row][lane] = want[row][lane] = 0.1 * (double)(1 + row) - 0.7 * (double)lane;
            way(got, (const float(*)[KG_DOT_PIECE])weights, x + 1, LENGTHS[i]);
            for (size_t row = 0; row < KG_DOT_WEIGHT_ROWS; row++)
                kg_dot_accumulate(want[row], weights[row], x + 1, LENGTHS[i]);
            ck_assert_mem_eq(got, want, sizeof got);
        }
    ck_assert_uint_ge(n_ways, 1);
    kg_record_metric(rec, "ways", "count", (double)n_ways);
    free(x);
    free(weights);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(LINEARS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "linear",
                                                  .spec = "FT-051",
                                                  .name = LINEARS[i].name,
                                                  .backend = "cpu",
                                                  .dtype = "f32",
                                                  .shape = LINEARS[i].shape,
                                                  .definition = "against long double; 1, 2, 3, 7 threads; rows alone",
                                                  .run = linear_case,
                                                  .arg = &LINEARS[i] });
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "dot_rows",
                                              .name = "each_way_adds_alike",
                                              .backend = "cpu",
                                              .run = each_way_adds_alike });
    kg_case_list_add(
        list,
        &(struct kg_case){
            .layer = "unit", .op = "embedding", .name = "rows_in_any_order", .backend = "cpu", .run = embedding_rows });
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "embedding",
                                              .name = "with_positions",
                                              .backend = "cpu",
                                              .run = embedding_with_positions });
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "embedding",
                                              .name = "positions_of_many_columns",
                                              .backend = "cpu",
                                              .run = positions_of_many_columns });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
