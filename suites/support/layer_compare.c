#include "suites/support/layer_compare.h"
#include "suites/support/op_cases.h"
#include "suites/support/op_device.h"
#include "suites/support/plain_f16.h"
#include "base/buffer.h"
#include "base/size.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of computation; `of_some` are those that not every architecture has. */
static const struct {
    const char *name;
    bool of_some;
} LAYER_TAPS[] = {
    { "attn_norm", false },
    { "q", false },
    { "k", false },
    { "v", false },
    { "q_norm", true },
    { "k_norm", true },
    { "q_rope", true },
    { "k_rope", true },
    { "attn", false },
    { "attn_out", false },
    { "attn_post_norm", true },
    { "attn_residual", false },
    { "ffn_norm", false },
    { "router", true },
    { "expert_ids", true },
    { "expert_weights", true },
    { "ffn_gate", true },
    { "ffn_up", false },
    { "ffn_act", false },
    { "expert_out", true },
    { "ffn_out", false },
    { "ffn_post_norm", true },
    { "out", false },
};
static const char RETURNED_LOGITS[] = "returned_logits"; /* what eval returns, beside the tap `logits` */

/* Limits of a tap's rows: nmse of the row, max_abs in units of its root mean square. */
struct limit {
    double nmse, max_abs_rms;
};

/* f32: by row, transformers' float32 is up to 5.5e-11 NMSE from double sums in these models; 1e-9 leaves another engine
 * about twenty times that, and is an eightieth of what an epsilon of 1e-5 for 1e-6 does to logits. One element of a
 * long row hardly moves its NMSE, so each is held to 5e-4; in peaked rows (ffn_act) transformers' float32 reaches 7e-5.
 */
static const struct limit LIMIT_F32 = { 1e-9, 5e-4 };
static const char WHY_F32[] = "twenty times the distance of transformers' float32 from double sums, by row";

/* f16: measured, by running the model on plain FP16 implementations (plain_f16.h): twice the error that the worst of
 * them has in the worst row of the tap, so four times its NMSE. The worst row, because rounding is a draw: where one
 * score near a tie decides a row, its error is a single number that two right implementations draw far apart, and only
 * the largest of many rows says how far: of a golden of few rows, four times. At least what rounding a right row to
 * FP16 does: 2^-11 of each element. */
static const double TIMES_PLAIN = 2, TIMES_PLAIN_OF_FEW = 4;
enum { FEW_ROWS = 5 };
static const struct limit LEAST_F16 = { KG_ROUNDOFF_F16 * KG_ROUNDOFF_F16, 0 }; /* and 2^-11 of the largest element */
static const char WHY_F16[] =
    "twice (of few rows, four times) the error of a plain FP16 implementation in the tap's worst row, or one rounding";

struct capture {
    struct kg_layer_compare *result;
    const float **want; /* of each tap, (n_positions, n_cols) */
    bool **given;       /* of each tap and position */
    bool *wrong;        /* of each tap: a row of another width, or given twice */
    const int32_t *positions;
    size_t n_positions;
};

static void add_tap(struct capture *c, const struct kg_golden *golden, const char *golden_name, const char *name,
                    int layer) {
    size_t rows, cols;
    const size_t i = c->result->n_taps++;
    c->want[i] = kg_golden_f32(golden, golden_name, &rows, &cols);
    if (rows != c->n_positions)
        ck_abort_msg("%s: %s has %zu rows for %zu positions", kg_golden_path(golden), golden_name, rows,
                     c->n_positions);
    struct kg_layer_tap *tap = &c->result->taps[i];
    snprintf(tap->name, sizeof tap->name, "%s", name);
    tap->layer = layer;
    tap->n_rows = rows;
    tap->n_cols = cols;
    c->given[i] = kg_xcalloc(rows, sizeof **c->given);
    c->result->rows[i] = kg_xmalloc(rows * cols * sizeof(float));
    for (size_t e = 0; e < rows * cols; e++) c->result->rows[i][e] = NAN;
}

/* Every tap a model of n_layers has, in the order of computation; fails if the golden has another, or lacks one that
 * every architecture has. on_tap sees to the rest. */
static void list_taps(struct capture *c, const struct kg_golden *golden, uint32_t n_layers, bool untapped) {
    const size_t n_max = 4 + KG_COUNT_OF(LAYER_TAPS) * n_layers;
    c->result->taps = kg_xcalloc(n_max, sizeof *c->result->taps);
    c->result->rows = kg_xcalloc(n_max, sizeof *c->result->rows);
    c->want = kg_xcalloc(n_max, sizeof *c->want);
    c->given = kg_xcalloc(n_max, sizeof *c->given);
    c->wrong = kg_xcalloc(n_max, sizeof *c->wrong);
    if (!untapped) {
        add_tap(c, golden, "embd", "embd", -1);
        for (uint32_t layer = 0; layer < n_layers; layer++)
            for (size_t t = 0; t < KG_COUNT_OF(LAYER_TAPS); t++) {
                char name[KG_LAYER_NAME_MAX];
                snprintf(name, sizeof name, "blk.%u.%s", layer, LAYER_TAPS[t].name);
                if (!LAYER_TAPS[t].of_some || kg_golden_has(golden, name)) add_tap(c, golden, name, name, (int)layer);
            }
        add_tap(c, golden, "output_norm", "output_norm", -1);
        add_tap(c, golden, "logits", "logits", -1);
        const size_t n_others = 2 + kg_golden_has(golden, "greedy_ids"); /* ids, positions */
        if (kg_golden_n_tensors(golden) != c->result->n_taps + n_others)
            ck_abort_msg("%s has %zu tensors, a model of %u layers %zu taps and %zu others", kg_golden_path(golden),
                         kg_golden_n_tensors(golden), n_layers, c->result->n_taps, n_others);
    }
    add_tap(c, golden, "logits", RETURNED_LOGITS, -1);
}

/* Keeps the rows of a tap that the golden has. */
static void keep_rows(struct capture *c, size_t tap, const float *data, size_t n_rows, size_t n_cols,
                      uint32_t first_position) {
    c->wrong[tap] |= n_cols != c->result->taps[tap].n_cols;
    if (c->wrong[tap]) return;
    for (size_t p = 0; p < c->n_positions; p++) {
        const uint32_t position = (uint32_t)c->positions[p];
        if (position < first_position || position - first_position >= n_rows) continue;
        c->wrong[tap] |= c->given[tap][p];
        c->given[tap][p] = true;
        memcpy(c->result->rows[tap] + p * n_cols, data + (size_t)(position - first_position) * n_cols,
               n_cols * sizeof *data);
    }
}

static void on_tap(void *user, const struct kg_tap *tap) {
    struct capture *c = user;
    size_t n_found = 0;
    for (size_t i = 0; i < c->result->n_taps; i++)
        if (strcmp(c->result->taps[i].name, tap->name) == 0) {
            keep_rows(c, i, tap->data, tap->n_rows, tap->n_cols, tap->first_position);
            n_found++;
        }
    if (n_found == 0) ck_abort_msg("the model has a tap %s, the golden has not", tap->name);
}

static double root_mean_square(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)n);
}

/* The row of a tap beside the golden's; one that is missing or of another width has no finite figure. */
static void compare_row(struct capture *c, size_t index, size_t p, struct kg_compare *compare) {
    const size_t n_cols = c->result->taps[index].n_cols;
    float *got = c->result->rows[index] + p * n_cols;
    if (c->wrong[index]) got[0] = NAN;
    kg_compare_f32(got, c->want[index] + p * n_cols, n_cols, compare);
}

static void judge_tap(struct capture *c, size_t index, const struct limit *limit, enum kg_precision precision) {
    struct kg_layer_tap *tap = &c->result->taps[index];
    const bool half = precision == KG_PRECISION_F16;
    tap->margin = -1;
    for (size_t p = 0; p < c->n_positions; p++) {
        const float *want = c->want[index] + p * tap->n_cols;
        const double largest_rounding = half ? KG_ROUNDOFF_F16 * kg_largest(want, tap->n_cols) : 0;
        const struct kg_tolerance tol = {
            .nmse = limit->nmse,
            .max_abs = fmax(limit->max_abs_rms * root_mean_square(want, tap->n_cols), largest_rounding),
            .why = half ? WHY_F16 : WHY_F32,
        };
        struct kg_compare compare;
        double margin;
        compare_row(c, index, p, &compare);
        (void)kg_within(&compare, &tol, &margin);
        if (!(margin > tap->margin)) continue;
        tap->margin = margin;
        tap->position = c->positions[p];
        tap->worst = compare;
        tap->tol = tol;
    }
}

static void judge(struct capture *c, const struct limit *limits, enum kg_precision precision) {
    struct kg_layer_compare *result = c->result;
    result->first = result->n_taps;
    for (size_t i = 0; i < result->n_taps; i++) {
        judge_tap(c, i, &limits[i], precision);
        if (result->taps[i].margin > 1 && result->first == result->n_taps) result->first = i;
        if (result->taps[i].margin > result->taps[result->worst].margin) result->worst = i;
    }
}

static enum kg_status eval_all(struct capture *c, struct kg_session *session, const int32_t *ids, size_t n,
                               uint32_t chunk, struct kg_error *err) {
    const size_t step = chunk ? chunk : n, returned = c->result->n_taps - 1;
    for (size_t at = 0; at < n; at += step) {
        const size_t n_now = n - at < step ? n - at : step;
        const float *logits;
        const enum kg_status status = kg_session_eval(session, ids + at, n_now, KG_LOGITS_ALL, &logits, err);
        if (status == KG_ERR_NUMERIC) return KG_OK; /* the rows left are missing, the taps so far are there */
        if (status != KG_OK) return status;
        keep_rows(c, returned, logits, n_now, c->result->taps[returned].n_cols, (uint32_t)at);
    }
    return KG_OK;
}

static void capture_free(struct capture *c) {
    for (size_t i = 0; c->given && i < c->result->n_taps; i++) free(c->given[i]);
    free(c->given);
    free(c->want);
    free(c->wrong);
}

/* Runs the model and keeps the rows, unjudged; *c is freed and *result empty unless KG_OK. */
static enum kg_status collect(const struct kg_layer_setup *setup, const struct kg_golden *golden,
                              struct kg_layer_compare *result, struct capture *c, struct kg_error *err) {
    *result = (struct kg_layer_compare){ 0 };
    *c = (struct capture){ .result = result };
    struct kg_backend *backend = NULL;
    struct kg_model *model = NULL;
    struct kg_session *session = NULL;
    size_t n_ids;
    const int32_t *ids = kg_golden_i32(golden, "ids", &n_ids);
    c->positions = kg_golden_i32(golden, "positions", &c->n_positions);
    const struct kg_session_options options = { (uint32_t)n_ids, setup->activations, setup->kv };

    enum kg_status status = setup->ops ? kg_backend_open_ops(setup->ops, 0, &backend, err)
                                       : kg_backend_open(setup->backend, 0, &backend, err);
    if (status != KG_OK) goto cleanup;
    status = kg_model_load(setup->model_path, backend, NULL, &model, err);
    if (status != KG_OK) goto cleanup;
    status = kg_session_create(model, &options, &session, err);
    if (status != KG_OK) goto cleanup;
    list_taps(c, golden, kg_model_config(model)->n_layers, setup->untapped);
    if (!setup->untapped) kg_session_set_tap(session, on_tap, c);
    status = eval_all(c, session, ids, n_ids, setup->chunk, err);
cleanup:
    kg_session_free(session);
    kg_model_free(model);
    kg_backend_close(backend);
    if (status != KG_OK) {
        capture_free(c);
        kg_layer_compare_free(result);
    }
    return status;
}

/* Raises each limit to a plain implementation's worst row of that tap. */
static enum kg_status raise_limits(const struct kg_layer_setup *setup, const struct kg_golden *golden,
                                   const struct kg_backend_ops *plain, struct limit *limits, struct kg_error *err) {
    const struct kg_layer_setup right = {
        .model_path = setup->right_path ? setup->right_path : setup->model_path,
        .backend = plain->name,
        .ops = plain,
        .activations = KG_PRECISION_F16,
        .kv = KG_PRECISION_F16,
        .untapped = setup->untapped,
    };
    struct kg_layer_compare result;
    struct capture c;
    const enum kg_status status = collect(&right, golden, &result, &c, err);
    if (status != KG_OK) return status;
    const double times = c.n_positions < FEW_ROWS ? TIMES_PLAIN_OF_FEW : TIMES_PLAIN;
    for (size_t i = 0; i < result.n_taps; i++)
        for (size_t p = 0; p < c.n_positions; p++) {
            const double rms = root_mean_square(c.want[i] + p * result.taps[i].n_cols, result.taps[i].n_cols);
            struct kg_compare compare;
            compare_row(&c, i, p, &compare);
            if (compare.n_nonfinite > 0) ck_abort_msg("%s: %s is not finite", plain->name, result.taps[i].name);
            limits[i].nmse = fmax(limits[i].nmse, times * times * compare.nmse);
            limits[i].max_abs_rms = fmax(limits[i].max_abs_rms, times * compare.max_abs / rms);
        }
    capture_free(&c);
    kg_layer_compare_free(&result);
    return KG_OK;
}

enum kg_status kg_layer_compare_run(const struct kg_layer_setup *setup, const struct kg_golden *golden,
                                    struct kg_layer_compare *result, struct kg_error *err) {
    struct capture c;
    const bool half = setup->activations == KG_PRECISION_F16;
    enum kg_status status = collect(setup, golden, result, &c, err);
    if (status != KG_OK) return status;
    struct limit *limits = kg_xcalloc(result->n_taps, sizeof *limits);
    for (size_t i = 0; i < result->n_taps; i++) limits[i] = half ? LEAST_F16 : LIMIT_F32;
    for (size_t i = 0; half && i < KG_PLAIN_F16_LIMITS && status == KG_OK; i++)
        status = raise_limits(setup, golden, kg_plain_f16(i), limits, err);
    if (status == KG_OK) judge(&c, limits, setup->activations);
    free(limits);
    capture_free(&c);
    if (status != KG_OK) kg_layer_compare_free(result);
    return status;
}

void kg_layer_compare_free(struct kg_layer_compare *result) {
    for (size_t i = 0; i < result->n_taps; i++) free(result->rows[i]);
    free(result->rows);
    free(result->taps);
    *result = (struct kg_layer_compare){ 0 };
}

const struct kg_layer_tap *kg_layer_find(const struct kg_layer_compare *result, const char *name) {
    for (size_t i = 0; i < result->n_taps; i++)
        if (strcmp(result->taps[i].name, name) == 0) return &result->taps[i];
    ck_abort_msg("the model has no tap %s", name);
    return NULL;
}

static void record_tap(struct kg_record *rec, const struct kg_layer_tap *tap) {
    char name[KG_LAYER_NAME_MAX + 24];
    snprintf(name, sizeof name, "%s@%d", tap->name, (int)tap->position);
    kg_record_judged(rec, name, &tap->worst, &tap->tol);
}

void kg_layer_record(struct kg_record *rec, const struct kg_layer_compare *result) {
    double n_rows = 0, n_elems = 0;
    for (size_t i = 0, worst = 0; i < result->n_taps; i++) {
        const struct kg_layer_tap *tap = &result->taps[i];
        n_rows += (double)tap->n_rows;
        n_elems += (double)tap->n_rows * (double)tap->n_cols;
        const bool first_of_layer = tap->layer < 0 || i == 0 || result->taps[i - 1].layer != tap->layer;
        const bool last_of_layer = tap->layer < 0 || result->taps[i + 1].layer != tap->layer; /* logits come last */
        if (first_of_layer || tap->margin > result->taps[worst].margin) worst = i;
        if (last_of_layer) record_tap(rec, &result->taps[worst]);
    }
    kg_record_metric(rec, "rows_compared", "count", n_rows);
    kg_record_metric(rec, "elements_compared", "count", n_elems);
}

void kg_layer_expect_within(struct kg_record *rec, const struct kg_layer_compare *result) {
    if (result->first == result->n_taps) return;
    const struct kg_layer_tap *tap = &result->taps[result->first];
    record_tap(rec, tap);
    ck_abort_msg("first divergence at %s, position %d: outside its tolerance by a factor of %.4g (%s); nmse %.3g, at "
                 "[%zu] of %zu got %.9g, want %.9g; %zu not finite",
                 tap->name, (int)tap->position, tap->margin, tap->tol.why, tap->worst.nmse, tap->worst.worst_index,
                 tap->worst.n, tap->worst.worst_got, tap->worst.worst_want, tap->worst.n_nonfinite);
}

void kg_layer_expect_control(struct kg_record *rec, const struct kg_layer_setup *setup,
                             const struct kg_golden *golden) {
    struct kg_layer_compare result;
    struct kg_error err;
    if (!kg_backend_or_skip(rec, setup->backend)) return;
    const enum kg_status status = kg_layer_compare_run(setup, golden, &result, &err);
    if (status != KG_OK) ck_abort_msg("%s: %s", kg_status_text(status), err.message);
    kg_layer_record(rec, &result);
    kg_layer_expect_within(rec, &result);
    kg_layer_compare_free(&result);
}
