#include "suites/unit/simulation.h"
#include "base/buffer.h"
#include "history/noisy_again.h"
#include "suites/harness/must.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Fresh runs: those of the made times that are newer than the judged one. */
struct fresh {
    const struct kg_simulation *s;
    const struct kg_made_times *times;
    size_t newest, n_taken, n_measured;
};

static bool is_slow(const struct kg_simulation *s, size_t figure) {
    return figure < s->n_slow;
}

static enum kg_status run_once(void *context, int build, const size_t *open, size_t n_open, double *values,
                               double *machine, struct kg_error *err) {
    struct fresh *fresh = context;
    const size_t run = fresh->newest - 1 - fresh->n_taken++;
    double canaries = 0;
    (void)err;
    for (size_t i = 0; i < n_open; i++)
        values[i] = fresh->times->figures[open[i]].by_run[run] +
                    (build == 1 && is_slow(fresh->s, open[i]) ? fresh->s->change : 0);
    for (size_t i = 0; i < KG_MADE_CANARIES; i++) canaries += fresh->times->canaries[i].by_run[run];
    *machine = canaries / KG_MADE_CANARIES;
    fresh->n_measured += n_open;
    return KG_OK;
}

static bool has_time(void *context, size_t n_open) {
    (void)n_open;
    return ((struct fresh *)context)->n_taken + 2 <= 2 * KG_AGAIN_MOST_RUNS;
}

static void measure_again(const struct kg_simulation *s, const struct kg_noisy_runs *runs, struct fresh *fresh,
                          struct kg_noisy *noisy) {
    const struct kg_again_source source = { fresh, run_once, has_time };
    struct kg_noisy_again again;
    struct kg_error err;
    kg_noisy_suspects(runs, noisy, s->n_cases, &again);
    kg_must(kg_noisy_decide(runs, noisy, &again, &source, &err), &err);
    kg_noisy_again_free(&again);
}

static void change(const struct kg_simulation *s, struct kg_made_times *times, size_t judged, struct kg_rng *rng) {
    for (size_t i = 0; i < times->n_figures; i++)
        times->figures[i].by_run[judged] += s->machine + (is_slow(s, i) ? s->change : 0);
    for (size_t i = 0; i < KG_MADE_CANARIES; i++) {
        times->canaries[i].by_run[judged] += s->machine;
        for (size_t run = 0; run < times->n_runs; run++)
            times->canaries[i].by_run[run] += s->canary_sigma * kg_rng_normal(rng);
    }
}

static void count(const struct kg_simulation *s, const struct kg_noisy *noisy, struct kg_simulated *out) {
    bool red = false, doubtful = false;
    for (size_t i = 0; i < s->n_cases; i++) {
        const bool worse = noisy->figures[i].verdict == KG_SCREEN_WORSE;
        *(is_slow(s, i) ? &out->n_slow : &out->n_comparisons) += 1;
        *(is_slow(s, i) ? &out->n_found : &out->n_false) += worse;
        red = red || worse;
        doubtful = doubtful || noisy->figures[i].verdict == KG_SCREEN_TOO_FEW ||
                   noisy->figures[i].verdict == KG_SCREEN_SUSPECT;
    }
    for (size_t i = 0; i < noisy->n_drifts; i++) {
        doubtful = doubtful || noisy->drifts[i].unexplained || noisy->drifts[i].undecided;
        out->n_common += noisy->drifts[i].worse;
        red = red || noisy->drifts[i].worse;
    }
    out->n_trials++;
    out->n_red += red;
    out->n_doubtful += !red && doubtful;
}

/* The made times of a simulation, those of `n_fresh` runs before those of the judged one and its baseline. */
struct stage {
    struct kg_made_times times;
    struct kg_series *figures, canaries[KG_MADE_CANARIES];
    double *floors;
    size_t n_fresh;
};

static void stage_open(const struct kg_simulation *s, size_t n_fresh, struct stage *stage) {
    *stage = (struct stage){ .figures = kg_xcalloc(s->n_cases, sizeof *stage->figures),
                             .floors = kg_xcalloc(s->n_cases, sizeof *stage->floors),
                             .n_fresh = n_fresh };
    struct kg_made_times *times = &stage->times;
    kg_made_times_open(times, s->n_cases, n_fresh + 1 + s->n_baseline);
    for (size_t i = 0; i < s->n_cases; i++) {
        stage->floors[i] = log1p(0.03);
        stage->figures[i] = (struct kg_series){ times->figures[i].group, times->figures[i].by_run + n_fresh };
    }
    for (size_t i = 0; i < KG_MADE_CANARIES; i++)
        stage->canaries[i] = (struct kg_series){ times->canaries[i].group, times->canaries[i].by_run + n_fresh };
}

/* Fresh noise, and what regress says to it. */
static struct kg_noisy_runs stage_judge(const struct kg_simulation *s, uint64_t seed, uint64_t trial,
                                        struct stage *stage, struct kg_noisy *noisy) {
    struct kg_rng rng;
    kg_rng_init(&rng, seed, trial);
    kg_made_times_fill(&stage->times, s->kind, &rng);
    change(s, &stage->times, stage->n_fresh, &rng);
    const struct kg_noisy_runs runs = { .figures = stage->figures,
                                        .floors = stage->floors,
                                        .n_figures = s->n_cases,
                                        .canaries = stage->canaries,
                                        .n_canaries = KG_MADE_CANARIES,
                                        .n_runs = 1 + s->n_baseline,
                                        .least_change = log1p(0.03) };
    kg_noisy_judge(&runs, noisy);
    return runs;
}

static void stage_close(struct stage *stage) {
    kg_made_times_close(&stage->times);
    free(stage->figures);
    free(stage->floors);
}

void kg_simulate(const struct kg_simulation *s, uint64_t seed, struct kg_simulated *out) {
    struct stage stage;
    *out = (struct kg_simulated){ 0 };
    stage_open(s, s->again ? 2 * KG_AGAIN_MOST_RUNS : 0, &stage);
    for (size_t trial = 0; trial < s->n_trials; trial++) {
        struct kg_noisy noisy;
        struct fresh fresh = { s, &stage.times, stage.n_fresh, 0, 0 };
        const struct kg_noisy_runs runs = stage_judge(s, seed, trial, &stage, &noisy);
        if (s->again) measure_again(s, &runs, &fresh, &noisy);
        out->n_measured += fresh.n_measured;
        count(s, &noisy, out);
        kg_noisy_free(&noisy);
    }
    stage_close(&stage);
}

struct flagged {
    size_t figure;
    double order;
};

static int first_in_order(const void *a, const void *b) {
    const double x = ((const struct flagged *)a)->order, y = ((const struct flagged *)b)->order;
    return (x < y) - (x > y);
}

static void choose_flagged(const struct kg_simulation *s, const struct kg_noisy *noisy, size_t *open) {
    struct flagged *flagged = kg_xcalloc(s->n_cases, sizeof *flagged);
    for (size_t i = 0; i < s->n_cases; i++)
        flagged[i] = (struct flagged){ i, is_slow(s, i) ? INFINITY : noisy->figures[i].z };
    qsort(flagged, s->n_cases, sizeof *flagged, first_in_order);
    for (size_t i = 0; i < KG_CONFIRM_FLAGGED; i++) open[i] = flagged[i].figure;
    free(flagged);
}

/* As cmd_confirm.c: which build the run is of. */
static size_t side_of(size_t run) {
    return (run + run / 2) % 2;
}

static void confirm(const struct kg_simulation *s, struct fresh *fresh, const struct kg_noisy *noisy,
                    struct kg_simulated_confirm *out) {
    enum { N_RUNS = 2 * KG_CONFIRM_ROUNDS };
    size_t open[KG_CONFIRM_FLAGGED];
    double values[KG_CONFIRM_FLAGGED][N_RUNS], machine[KG_MADE_CANARIES][N_RUNS];
    struct kg_series canaries[KG_MADE_CANARIES];
    struct kg_confirmation items[KG_CONFIRM_FLAGGED];
    struct kg_error err;
    bool red = false;
    choose_flagged(s, noisy, open);
    for (size_t run = 0; run < N_RUNS; run++) {
        double once[KG_CONFIRM_FLAGGED], mean;
        for (size_t i = 0; i < KG_MADE_CANARIES; i++)
            machine[i][run] = fresh->times->canaries[i].by_run[fresh->newest - 1 - fresh->n_taken];
        kg_must(run_once(fresh, (int)side_of(run), open, KG_CONFIRM_FLAGGED, once, &mean, &err), &err);
        for (size_t i = 0; i < KG_CONFIRM_FLAGGED; i++) values[i][run] = once[i];
    }
    for (size_t i = 0; i < KG_MADE_CANARIES; i++)
        canaries[i] = (struct kg_series){ fresh->times->canaries[i].group, machine[i] };
    for (size_t i = 0; i < KG_CONFIRM_FLAGGED; i++) {
        double x[2][KG_CONFIRM_ROUNDS];
        size_t n[2] = { 0, 0 };
        kg_confirm_take_off(canaries, KG_MADE_CANARIES, fresh->times->figures[open[i]].group, N_RUNS, values[i]);
        for (size_t run = 0; run < N_RUNS; run++) x[side_of(run)][n[side_of(run)]++] = values[i][run];
        items[i] = (struct kg_confirmation){ .worse = 1, .flagged = expm1(noisy->figures[open[i]].change) };
        kg_confirm_compare(x[0], n[0], x[1], n[1], &items[i]);
    }
    kg_confirm_decide(items, KG_CONFIRM_FLAGGED, 0.03);
    for (size_t i = 0; i < KG_CONFIRM_FLAGGED; i++) {
        const bool slow = is_slow(s, open[i]);
        *(slow ? &out->n_slow : &out->n_unchanged) += 1;
        (slow ? out->slow : out->unchanged)[items[i].verdict]++;
        red = red || items[i].verdict == KG_CONFIRMED;
    }
    out->n_trials++;
    out->n_red += red;
}

void kg_simulate_confirm(const struct kg_simulation *s, uint64_t seed, struct kg_simulated_confirm *out) {
    struct stage stage;
    *out = (struct kg_simulated_confirm){ 0 };
    stage_open(s, 2 * KG_CONFIRM_ROUNDS, &stage);
    for (size_t trial = 0; trial < s->n_trials; trial++) {
        struct kg_noisy noisy;
        struct fresh fresh = { s, &stage.times, stage.n_fresh, 0, 0 };
        stage_judge(s, seed, trial, &stage, &noisy);
        confirm(s, &fresh, &noisy, out);
        kg_noisy_free(&noisy);
    }
    stage_close(&stage);
}
