/* Made histories of times, one kind of noise each: what run-to-run noise looks like on machines as they are. */
#ifndef KIGO_SUITES_NOISE_KINDS_H
#define KIGO_SUITES_NOISE_KINDS_H

#include "base/rng.h"
#include "history/drift.h"

enum { KG_MADE_CANARIES = 2 };

/* Logarithms of times, more is slower. by_run[0] is the newest run. */
struct kg_made_times {
    struct kg_series *figures, canaries[KG_MADE_CANARIES];
    double *values; /* what the series point into */
    double *usual;  /* of each figure, without noise */
    size_t n_figures, n_runs;
};

struct kg_noise_kind {
    const char *name;
    void (*fill)(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng);
    double sigma, a, b; /* of the cases; what the kind is made of */
};

enum kg_noise {
    KG_NOISE_NORMAL,
    KG_NOISE_NORMAL_2,
    KG_NOISE_AR_5,
    KG_NOISE_AR_95,
    KG_NOISE_DRIFT,
    KG_NOISE_T5,
    KG_NOISE_T3,
    KG_NOISE_T2,
    KG_NOISE_EXPONENTIAL,
    KG_NOISE_OUTLIERS,
    KG_NOISE_RARE_OUTLIERS,
    KG_NOISE_MODE_15,
    KG_NOISE_MODE_50,
    KG_NOISE_UNEVEN,
    KG_NOISE_LOUD_RUNS,
    KG_NOISE_CLOCK,
    KG_NOISE_KINDS,
};
extern const struct kg_noise_kind KG_NOISE[KG_NOISE_KINDS];

/* Room for the times of so many cases and runs. */
void kg_made_times_open(struct kg_made_times *times, size_t n_figures, size_t n_runs);
void kg_made_times_close(struct kg_made_times *times);

/* Fresh noise of that kind on every case, and of 1% on the canaries. */
void kg_made_times_fill(struct kg_made_times *times, const struct kg_noise_kind *kind, struct kg_rng *rng);

#endif
