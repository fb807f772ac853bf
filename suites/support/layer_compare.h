/* Compares a model's activations with a golden file, layer by layer, and finds the first one outside its tolerance.
 *
 * The golden file (fixtures/README.md) holds every tap of kg_session_set_tap at some positions. It evaluates the
 * golden's ids, keeps those rows, and judges each (tap, position) row by itself, so that a position of large
 * activations hides no other. A row that was never given, was given twice or has another width counts as infinitely
 * wrong. The golden must hold every tap of the model and nothing else, so that none goes unseen.
 *
 * Limits of f32 activations are constants; those of f16 are measured in the same call: twice the error of plain FP16
 * implementations (plain_f16.h) of the same model and ids, tap by tap, and four times where a golden has few rows. */
#ifndef KIGO_SUITES_LAYER_COMPARE_H
#define KIGO_SUITES_LAYER_COMPARE_H

#include "backend/backend.h"
#include "suites/harness/compare.h"
#include "suites/support/golden.h"
#include <kigo/engine.h>

struct kg_layer_setup {
    const char *model_path;
    const char *right_path; /* the right model, where model_path is a changed one: f16 limits are measured on it */
    const char *backend;
    const struct kg_backend_ops *ops; /* a changed copy of the back end's table; NULL: its own */
    enum kg_precision activations, kv;
    uint32_t chunk; /* ids of one eval: 1 is stepping, 0 all at once */
    bool untapped;  /* no taps: only the logits that eval returns are judged */
};

enum { KG_LAYER_NAME_MAX = 64 };

/* One tap, judged at its worst position. */
struct kg_layer_tap {
    char name[KG_LAYER_NAME_MAX];
    int layer;        /* -1 for those of no layer */
    int32_t position; /* of the worst row */
    double margin;    /* the largest err/limit of its rows, infinite if a row is missing or not finite */
    struct kg_compare worst;
    struct kg_tolerance tol; /* of the worst row */
    size_t n_rows, n_cols;   /* rows judged, each of n_cols */
};

struct kg_layer_compare {
    struct kg_layer_tap *taps; /* in the order of computation; the last is `returned_logits` */
    size_t n_taps;
    float **rows; /* of each tap, (n_rows, n_cols) */
    size_t first; /* the first tap with a margin above 1; n_taps if none */
    size_t worst; /* the tap with the largest margin */
};

/* A logit that is not finite is no error here but an infinite margin. */
KG_WARN_UNUSED enum kg_status kg_layer_compare_run(const struct kg_layer_setup *setup, const struct kg_golden *golden,
                                                   struct kg_layer_compare *result, struct kg_error *err);
void kg_layer_compare_free(struct kg_layer_compare *result);

/* The tap of that name; fails the case if there is none. */
const struct kg_layer_tap *kg_layer_find(const struct kg_layer_compare *result, const char *name);

/* Records the worst tap of every layer and the number of rows looked at. */
void kg_layer_record(struct kg_record *rec, const struct kg_layer_compare *result);

/* Fails the case, saying which layer, tap and position, if any tap is outside its tolerance. */
void kg_layer_expect_within(struct kg_record *rec, const struct kg_layer_compare *result);

/* Compares an unchanged model, records and judges it; skips the case if the back end is not available. */
void kg_layer_expect_control(struct kg_record *rec, const struct kg_layer_setup *setup, const struct kg_golden *golden);

#endif
