#include "history/noisy.h"
#include "base/buffer.h"
#include <math.h>
#include <stdlib.h>

/* A figure is worse only if no figure of any run of the baseline lay as far. */
static void hold_against_family(const struct kg_noisy_runs *runs, struct kg_noisy *out) {
    const double **by_run = kg_xcalloc(runs->n_figures, sizeof *by_run);
    for (size_t i = 0; i < runs->n_figures; i++) by_run[i] = out->by_run + i * runs->n_runs;
    kg_family_find(by_run, runs->n_figures, runs->n_runs, &out->family);
    for (size_t i = 0; i < runs->n_figures; i++) {
        struct kg_screen_figure *f = &out->figures[i];
        struct kg_family_since since;
        if (f->verdict == KG_SCREEN_WORSE && out->family.t[i] <= out->family.red)
            f->verdict = out->family.t[i] > out->family.suspect ? KG_SCREEN_SUSPECT : KG_SCREEN_SAME;
        if ((f->verdict != KG_SCREEN_SAME && f->verdict != KG_SCREEN_SUSPECT) ||
            !kg_family_stays_worse(&out->family, by_run[i], runs->n_runs, f->floor, &since))
            continue;
        f->verdict = KG_SCREEN_WORSE;
        f->change = f->value - since.centre;
        f->sigma = since.sigma;
        f->z = since.t;
        f->z_limit = since.t_limit;
        out->since[i] = since.n_runs;
    }
    free(by_run);
}

void kg_noisy_judge(const struct kg_noisy_runs *runs, struct kg_noisy *out) {
    *out = (struct kg_noisy){ .figures = kg_xcalloc(runs->n_figures, sizeof *out->figures),
                              .values = kg_xcalloc(runs->n_figures, sizeof *out->values),
                              .by_run = kg_xcalloc(runs->n_figures * runs->n_runs, sizeof *out->by_run),
                              .since = kg_xcalloc(runs->n_figures, sizeof *out->since) };
    kg_drift_find(runs->figures, runs->n_figures, runs->canaries, runs->n_canaries, runs->n_runs, runs->least_change,
                  &out->drifts, &out->n_drifts);
    for (size_t i = 0; i < runs->n_figures; i++) {
        const struct kg_series *s = &runs->figures[i];
        const struct kg_drift *drift = kg_drift_of(out->drifts, out->n_drifts, s->group);
        struct kg_screen_figure *f = &out->figures[i];
        double *by_run = out->by_run + i * runs->n_runs;
        for (size_t run = 0; run < runs->n_runs; run++) by_run[run] = s->by_run[run] - drift->by_run[run];
        *f = (struct kg_screen_figure){ .baseline = out->values[i], .value = by_run[0], .floor = runs->floors[i] };
        for (size_t run = 1; run < runs->n_runs; run++)
            if (!isnan(by_run[run])) out->values[i][f->n_baseline++] = by_run[run];
    }
    kg_screen(out->figures, runs->n_figures);
    hold_against_family(runs, out);
}

void kg_noisy_free(struct kg_noisy *noisy) {
    kg_drifts_free(noisy->drifts, noisy->n_drifts);
    kg_family_free(&noisy->family);
    free(noisy->figures);
    free(noisy->values);
    free(noisy->by_run);
    free(noisy->since);
    *noisy = (struct kg_noisy){ 0 };
}
