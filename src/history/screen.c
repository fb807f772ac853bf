#include "history/screen.h"
#include "base/buffer.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdlib.h>

static const double ONE_OF_2000 = 3.2905;      /* what a normal value exceeds so rarely */
static const double CENTRE_EFFICIENCY = 0.955; /* of the Hodges-Lehmann centre */
static const double LEAST_SIGMA = 1e-4;        /* equal values: a hundredth of a percent */
enum { ENOUGH_TO_SHARE = 10 };                 /* figures whose sigmas say something about each other's */

static int is_scaled(const struct kg_screen_figure *f) {
    return f->n_baseline >= KG_SCREEN_FEWEST;
}

/* How the figures' own sigmas lie: the median of their logarithms, and how much these scatter beyond what measuring
 * them by few values explains. False if there are too few figures to say. */
static int shared_scale(const struct kg_screen_figure *figures, size_t n_figures, double *middle, double *spread2) {
    double *logs = kg_xcalloc(n_figures, sizeof *logs);
    double explained = 0;
    size_t n = 0;
    for (size_t i = 0; i < n_figures; i++) {
        if (!is_scaled(&figures[i])) continue;
        logs[n++] = log(figures[i].sigma);
        explained += kg_robust_sigma_log_variance(figures[i].n_baseline);
    }
    const int enough = n >= ENOUGH_TO_SHARE;
    if (enough) {
        const double sigma = kg_robust_sigma(logs, n);
        *middle = kg_median(logs, n);
        *spread2 = fmax(0, sigma * sigma - explained / (double)n);
    }
    free(logs);
    return enough;
}

static void judge(struct kg_screen_figure *f) {
    f->z = f->change / (f->sigma * sqrt(1 + 1 / (CENTRE_EFFICIENCY * (double)f->n_baseline)));
    if (fabs(f->change) > f->floor && fabs(f->z) > f->z_limit)
        f->verdict = f->change > 0 ? KG_SCREEN_WORSE : KG_SCREEN_BETTER;
}

void kg_screen(struct kg_screen_figure *figures, size_t n_figures) {
    for (size_t i = 0; i < n_figures; i++) {
        struct kg_screen_figure *f = &figures[i];
        f->centre = f->n_baseline > 0 ? kg_hodges_lehmann(f->baseline, f->n_baseline) : NAN;
        f->change = f->value - f->centre;
        f->sigma = is_scaled(f) ? fmax(kg_robust_sigma(f->baseline, f->n_baseline), LEAST_SIGMA) : NAN;
        f->z = f->z_limit = NAN;
        f->verdict = is_scaled(f) || fabs(f->change) <= f->floor ? KG_SCREEN_SAME : KG_SCREEN_TOO_FEW;
    }
    double middle = 0, spread2 = 0;
    const int shared = shared_scale(figures, n_figures, &middle, &spread2);
    for (size_t i = 0; i < n_figures; i++) {
        struct kg_screen_figure *f = &figures[i];
        if (!is_scaled(f)) continue;
        const double own2 = kg_robust_sigma_log_variance(f->n_baseline);
        const double trust = shared ? spread2 / (spread2 + own2) : 1; /* in the figure's own sigma */
        if (shared) f->sigma = exp(middle + trust * (log(f->sigma) - middle));
        f->z_limit = kg_student_limit(ONE_OF_2000, 1 / (2 * trust * own2));
        judge(f);
    }
}
