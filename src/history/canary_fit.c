#include "history/canary_fit.h"
#include "base/buffer.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include "measure/steps.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST_GAIN = 4.5; /* of n: three standard errors of a correlation, in sums of distances */
enum { FEWEST_RUNS = 8 };

/* The known values and where they are; how many there are. */
static size_t pack(const double *by_run, size_t n_runs, double *values, size_t *from) {
    size_t n = 0;
    for (size_t run = 0; run < n_runs; run++) {
        if (isnan(by_run[run])) continue;
        from[n] = run;
        values[n++] = by_run[run];
    }
    return n;
}

/* Levels of a row about its median, and what it does about them: 0 in runs without a value, which have the level of the
 * run before. */
static void split(const double *row, size_t n_runs, double least_change, double *levels, double *rests) {
    double *values = kg_xcalloc(n_runs, sizeof *values);
    size_t *from = kg_xcalloc(n_runs, sizeof *from);
    struct kg_step *steps = kg_xcalloc(n_runs, sizeof *steps);
    const size_t n = pack(row, n_runs, values, from), n_steps = kg_steps_find(values, n, least_change, steps);
    const double centre = n > 0 ? kg_median(values, n) : 0;
    for (size_t run = 0, step = 0; run < n_runs; run++) {
        while (step < n_steps && run >= from[steps[step].at]) step++;
        const double level = n_steps == 0 ? centre : step == 0 ? steps[0].before : steps[step - 1].after;
        levels[run] = level - centre;
        rests[run] = isnan(row[run]) ? 0 : row[run] - level;
    }
    free(steps);
    free(from);
    free(values);
}

/* The mean over the canaries of how far each lies from its median. */
static void mean_of(double *const *rows, size_t n_rows, size_t n_runs, double *mean) {
    for (size_t run = 0; run < n_runs; run++) {
        double sum = 0;
        size_t n = 0;
        for (size_t i = 0; i < n_rows; i++) {
            if (isnan(rows[i][run])) continue;
            sum += rows[i][run];
            n++;
        }
        mean[run] = n > 0 ? sum / (double)n : NAN;
    }
}

static void centre(double *row, size_t n_runs) {
    double *values = kg_xcalloc(n_runs, sizeof *values);
    size_t *from = kg_xcalloc(n_runs, sizeof *from);
    const size_t n = pack(row, n_runs, values, from);
    const double middle = n > 0 ? kg_median(values, n) : 0;
    for (size_t run = 0; run < n_runs; run++) row[run] -= middle;
    free(from);
    free(values);
}

void kg_canary_fit_open(struct kg_canary_fit *fit, const struct kg_series *canaries, size_t n_canaries,
                        const char *group, size_t n_runs, double least_change) {
    double **rows = kg_xcalloc(n_canaries + 1, sizeof *rows);
    size_t n = 0;
    *fit = (struct kg_canary_fit){ .n_runs = n_runs };
    for (size_t i = 0; i < n_canaries; i++) {
        if (strcmp(canaries[i].group, group) != 0) continue;
        rows[n] = kg_xcalloc(n_runs, sizeof **rows);
        memcpy(rows[n], canaries[i].by_run, n_runs * sizeof **rows);
        centre(rows[n++], n_runs);
    }
    if (n > 1) {
        rows[n] = kg_xcalloc(n_runs, sizeof **rows);
        mean_of(rows, n, n_runs, rows[n]);
        n++;
    }
    fit->levels = kg_xcalloc(n * n_runs, sizeof *fit->levels);
    fit->rests = kg_xcalloc(n * n_runs, sizeof *fit->rests);
    fit->n_rows = n;
    for (size_t i = 0; i < n; i++) {
        split(rows[i], n_runs, least_change, fit->levels + i * n_runs, fit->rests + i * n_runs);
        free(rows[i]);
    }
    free(rows);
}

struct line {
    double a, b, loss; /* sum |x - a - b z| */
};

/* x and z have n values, work room for as many. */
static struct line fit_line(const double *x, const double *z, size_t n, double *work) {
    struct line line = { 0 };
    memcpy(work, x, n * sizeof *work);
    line.a = kg_median(work, n);
    for (int round = 0; round < 4; round++) {
        double sum = 0, sum_x = 0, sum_z = 0, sum_xz = 0, sum_zz = 0;
        for (size_t i = 0; i < n; i++) work[i] = x[i] - line.a - line.b * z[i];
        const double most = 2 * kg_robust_sigma(work, n);
        for (size_t i = 0; i < n; i++) {
            const double weight = fabs(work[i]) > most ? most / fabs(work[i]) : 1;
            sum += weight;
            sum_x += weight * x[i];
            sum_z += weight * z[i];
            sum_xz += weight * x[i] * z[i];
            sum_zz += weight * z[i] * z[i];
        }
        if (sum <= 0) break;
        const double variance = sum_zz - sum_z * sum_z / sum;
        line.b = variance > 0 ? fmax(0, fmin(1, (sum_xz - sum_x * sum_z / sum) / variance)) : 0;
        line.a = (sum_x - line.b * sum_z) / sum;
    }
    for (size_t i = 0; i < n; i++) work[i] = x[i] - line.b * z[i];
    line.a = kg_median(work, n);
    for (size_t i = 0; i < n; i++) line.loss += fabs(x[i] - line.b * z[i] - line.a);
    return line;
}

/* Takes the row that explains most off x, which has the values of the runs `from`. */
static void take_off(const double *rows, size_t n_rows, size_t n_runs, const size_t *from, double *x, size_t n) {
    double *z = kg_xcalloc(n, sizeof *z), *work = kg_xcalloc(n, sizeof *work);
    const double *best_row = NULL;
    double least = fit_line(x, z, n, work).loss * (1 - LEAST_GAIN / (double)n), b = 0;
    for (const double *row = rows; row < rows + n_rows * n_runs; row += n_runs) {
        for (size_t i = 0; i < n; i++) z[i] = row[from[i]];
        const struct line line = fit_line(x, z, n, work);
        if (line.loss >= least) continue; /* b = 0, of a flat row for one, leaves all of the loss */
        least = line.loss;
        b = line.b;
        best_row = row;
    }
    for (size_t i = 0; best_row && i < n; i++) x[i] -= b * best_row[from[i]];
    free(work);
    free(z);
}

void kg_canary_fit_take_off(const struct kg_canary_fit *fit, double *by_run) {
    double *x = kg_xcalloc(fit->n_runs, sizeof *x);
    size_t *from = kg_xcalloc(fit->n_runs, sizeof *from);
    const size_t n = pack(by_run, fit->n_runs, x, from);
    if (n >= FEWEST_RUNS && fit->n_rows > 0) {
        take_off(fit->levels, fit->n_rows, fit->n_runs, from, x, n);
        take_off(fit->rests, fit->n_rows, fit->n_runs, from, x, n);
        for (size_t i = 0; i < n; i++) by_run[from[i]] = x[i];
    }
    free(from);
    free(x);
}

void kg_canary_fit_close(struct kg_canary_fit *fit) {
    free(fit->levels);
    free(fit->rests);
    *fit = (struct kg_canary_fit){ 0 };
}
