/* Limits, what is compared, memory and kernels: what a change of a case can hide, on made histories. */
#include "base/size.h"
#include "history/annotation.h"
#include "history/comparison_key.h"
#include "suites/harness/must.h"
#include "suites/support/asked_history.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_CASES = 12, N_BASELINE = 6, VICTIM = 3 };

static void limit_times_100(struct kg_made_case *c) {
    c->limit *= 100;
}
static void limit_is_gone(struct kg_made_case *c) {
    c->limit = 0;
}
static void mixed_limit_too(struct kg_made_case *c) {
    c->mixed_rel = 0.1;
}
static void one_value(struct kg_made_case *c) {
    c->n = 1;
}
static void max_rel_times_10(struct kg_made_case *c) {
    c->max_rel *= 10;
}
static void nmse_times_100(struct kg_made_case *c) {
    c->nmse *= 100;
}
static void a_gigabyte(struct kg_made_case *c) {
    c->more_memory = "scratch";
}
static void tenfold_error_of_other_seed(struct kg_made_case *c) {
    c->seed = 8;
    c->max_abs *= 10;
}

struct row {
    void (*change)(struct kg_made_case *c);
    int exit_code;
    enum kg_judged judged; /* of the victim's judgements; KG_JUDGED_COUNT: there is none */
    const char *subject;
};

static const struct row LIMIT_100 = { limit_times_100, KG_EXIT_FAILED, KG_JUDGED_LOOSER, "tolerance" };
static const struct row LIMIT_GONE = { limit_is_gone, KG_EXIT_FAILED, KG_JUDGED_LOOSER, "tolerance" };
static const struct row MIXED_TOO = { mixed_limit_too, KG_EXIT_OK, KG_JUDGED_COUNT, NULL };
static const struct row ONE_VALUE = { one_value, KG_EXIT_FAILED, KG_JUDGED_LOOSER, "tolerance" };
static const struct row MAX_REL = { max_rel_times_10, KG_EXIT_FAILED, KG_JUDGED_WORSE, "error" };
static const struct row NMSE = { nmse_times_100, KG_EXIT_FAILED, KG_JUDGED_WORSE, "error" };
static const struct row GIGABYTE = { a_gigabyte, KG_EXIT_FAILED, KG_JUDGED_WORSE, "memory" };
static const struct row OTHER_SEED_TENFOLD = { tenfold_error_of_other_seed, KG_EXIT_FAILED, KG_JUDGED_WORSE, "error" };

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    const struct row *row = arg;
    if (i == VICTIM && row) row->change(c);
}

/* Red in the run, and in those after it. */
static void one_case(struct kg_record *rec, const void *arg) {
    const struct row *row = arg;
    struct kg_history_lab lab;
    struct kg_regression r;
    const struct kg_made_run changed = { .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = (void *)(uintptr_t)row };
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, N_BASELINE, (struct kg_made_run){ .n_cases = N_CASES, .canary = 1 });
    for (size_t run = 0; run < 3; run++) {
        kg_history_lab_runs(&lab, N_BASELINE + run, 1, changed);
        kg_history_lab_regress(&lab, NULL, NULL, &r);
        size_t n = 0;
        for (size_t i = 0; i < r.n_judgements; i++) {
            if (strcmp(r.judgements[i].key, kg_made_case_key(VICTIM)) != 0) continue;
            ck_assert_int_eq(r.judgements[i].judged, row->judged);
            ck_assert_str_eq(r.judgements[i].subject, row->subject);
            n++;
        }
        ck_assert_int_eq(r.exit_code, row->exit_code);
        ck_assert(row->judged == KG_JUDGED_COUNT ? n == 0 : n > 0);
        kg_regression_free(&r);
        if (row == &OTHER_SEED_TENFOLD) break; /* its seed is one of the baseline's from here on */
    }
    kg_history_lab_close(&lab);
}

/* One run of a commit, whose build has these kernels; what regress finds of the first of them. */
static struct kg_judgement run_with_kernels(struct kg_history_lab *lab, size_t commit, const char *kernels,
                                            int exit_code, char **id) {
    struct kg_regression r;
    struct kg_judgement first = { .judged = KG_JUDGED_COUNT };
    *id = kg_history_lab_run(lab,
                             (struct kg_made_run){ .n_cases = 1, .kernels = kernels, .commit = lab->commits[commit] });
    kg_history_lab_regress(lab, *id, NULL, &r);
    ck_assert_int_eq(r.exit_code, exit_code);
    for (size_t i = 0; i < r.n_judgements && first.judged == KG_JUDGED_COUNT; i++)
        if (strcmp(r.judgements[i].subject, "kernel") == 0) first = r.judgements[i];
    if (first.judged != KG_JUDGED_COUNT) {
        ck_assert_str_eq(first.key, "gemv");
        ck_assert_str_eq(first.figure, "spill_store_bytes");
    }
    kg_regression_free(&r);
    return first;
}

/* Spills are red until they are accepted, of a kernel that is known as of one with a new name; not once only. */
static void spills_stay_red(struct kg_record *rec, const void *arg) {
    static const char SPILLS[] = "[{\"name\":\"gemv\",\"arch\":\"sm_90a\",\"registers\":40,"
                                 "\"spill_store_bytes\":8}]";
    struct kg_history_lab lab;
    char *id;
    kg_history_lab_open(&lab, rec);
    const struct kg_made_run first = { .n_cases = 1, .kernels = arg };
    kg_history_lab_runs(&lab, 0, 1, first);
    for (size_t commit = 1; commit < 4; commit++) {
        const struct kg_judgement j = run_with_kernels(&lab, commit, SPILLS, KG_EXIT_FAILED, &id);
        ck_assert_int_eq(j.judged, KG_JUDGED_WORSE);
        ck_assert(j.before == 0 && j.after == 8);
        ck_assert_uint_eq(j.n_baseline, commit);
        if (commit < 3) free(id);
    }
    const struct kg_annotation accepted = {
        .kind = "accept", .bundle_id = id, .case_key = "gemv", .utc_us = 1, .author = "me", .text = "it must"
    };
    struct kg_error err;
    kg_must(kg_annotation_add(lab.root, &accepted, NULL, NULL, &err), &err);
    free(id);
    ck_assert_int_eq(run_with_kernels(&lab, 4, SPILLS, KG_EXIT_OK, &id).judged, KG_JUDGED_COUNT);
    free(id);
    kg_history_lab_close(&lab);
}

static const char KNOWN_KERNEL[] = "[{\"name\":\"gemv\",\"arch\":\"sm_90a\",\"registers\":40,\"spill_store_bytes\":0}]",
                  OTHER_KERNEL[] = "[{\"name\":\"gemv_1\",\"arch\":\"sm_90a\",\"registers\":40}]";

/* Nothing of a run is left out in silence: a catalogue from before it was indexed is an error. */
static void a_catalogue_from_before_the_run(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_history *history = NULL;
    struct kg_catalogue catalogue;
    struct kg_run_heads heads;
    struct kg_run run;
    struct kg_error err;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, 1, (struct kg_made_run){ .n_cases = 1 });
    kg_asked_open(lab.root, &history, NULL);
    kg_must(kg_catalogue_load(history, &catalogue, &err), &err);
    kg_history_close(history);
    kg_history_lab_runs(&lab, 1, 1, (struct kg_made_run){ .n_cases = 2 });
    kg_asked_open(lab.root, &history, NULL);
    kg_must(kg_run_heads_load(history, "ORDER BY started_us", NULL, 0, &heads, &err), &err);
    ck_assert_uint_eq(heads.n_items, 2);
    kg_must(kg_run_load(history, heads.items[0].bundle_no, &catalogue, &run, &err), &err);
    ck_assert_uint_eq(run.n_results, 1);
    kg_run_free(&run);
    kg_must_fail(kg_run_load(history, heads.items[1].bundle_no, &catalogue, &run, &err), KG_ERR_BUSY, &err, "ask again",
                 NULL);
    kg_run_heads_free(&heads);
    kg_catalogue_free(&catalogue);
    kg_history_close(history);
    kg_history_lab_close(&lab);
}

static void more_of_the_same_name(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    if (i == VICTIM) c->more_memory = "kv";
}

static void expect_same_run(const struct kg_run *run, const struct kg_run *alone) {
    ck_assert_uint_eq(run->n_results, alone->n_results);
    ck_assert_uint_eq(run->n_figures, alone->n_figures);
    for (size_t i = 0; i < run->n_results; i++) {
        ck_assert_ptr_eq(run->results[i].c, alone->results[i].c);
        ck_assert_uint_eq(run->results[i].first_figure, alone->results[i].first_figure);
        ck_assert_uint_eq(run->results[i].n_figures, alone->results[i].n_figures);
    }
    for (size_t i = 0; i < run->n_figures; i++) {
        const struct kg_run_figure *f = &run->figures[i], *g = &alone->figures[i];
        ck_assert(f->info == g->info && f->value == g->value && f->occurrence == g->occurrence && f->place == g->place);
    }
}

/* Places and occurrences of a run's figures, counted; whether a name came twice in a case. */
static bool expect_occurrences(const struct kg_run *run) {
    bool twice = false;
    for (size_t i = 0; i < run->n_results; i++)
        for (size_t k = 0; k < run->results[i].n_figures; k++) {
            const struct kg_run_figure *figures = run->figures + run->results[i].first_figure;
            size_t n = 0;
            for (size_t before = 0; before < k; before++) n += figures[before].info == figures[k].info;
            ck_assert_uint_eq(figures[k].place, k);
            ck_assert_uint_eq(figures[k].occurrence, n);
            ck_assert_ptr_eq(kg_run_figure(run, &run->results[i], &figures[k]), &figures[k]);
            twice = twice || n > 0;
        }
    return twice;
}

/* However many threads read: the same runs, and the same error. */
static void runs_read_at_once(struct kg_record *rec, const void *arg) {
    enum { N_RUNS = 5, LACKS = 3 };
    static const int THREADS[] = { 1, 2, 4, 0 };
    struct kg_history_lab lab;
    struct kg_history *history = NULL;
    struct kg_catalogue catalogue;
    struct kg_run_heads heads;
    struct kg_run runs[N_RUNS], alone;
    int64_t numbers[N_RUNS];
    struct kg_error err;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i < N_RUNS; i++)
        kg_history_lab_runs(&lab, i, 1, (struct kg_made_run){ .n_cases = N_CASES + i, .fill = more_of_the_same_name });
    kg_must(kg_history_open(lab.root, &history, NULL, &err), &err);
    kg_must(kg_run_heads_load(history, "ORDER BY started_us", NULL, 0, &heads, &err), &err);
    for (size_t i = 0; i < N_RUNS; i++) numbers[i] = heads.items[i].bundle_no;
    for (size_t t = 0; t < KG_COUNT_OF(THREADS); t++) {
        kg_must(kg_catalogue_load(history, &catalogue, &err), &err);
        kg_must(kg_runs_load(history, numbers, N_RUNS, &catalogue, THREADS[t], runs, &err), &err);
        for (size_t i = 0; i < N_RUNS; i++) {
            kg_must(kg_run_load(history, numbers[i], &catalogue, &alone, &err), &err);
            expect_same_run(&runs[i], &alone);
            ck_assert_uint_eq(runs[i].n_results, N_CASES + i);
            ck_assert(expect_occurrences(&runs[i]));
            kg_run_free(&alone);
            kg_run_free(&runs[i]);
        }
        catalogue.n_cases -= LACKS; /* as if some cases had come since */
        kg_must_fail(kg_runs_load(history, numbers, N_RUNS, &catalogue, THREADS[t], runs, &err), KG_ERR_BUSY, &err,
                     "ask again", NULL);
        catalogue.n_cases += LACKS;
        kg_catalogue_free(&catalogue);
    }
    kg_run_heads_free(&heads);
    kg_history_close(history);
    kg_history_lab_close(&lab);
}

/* What keeps two runs from being compared is named. */
static void the_field_that_differs(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, 2, (struct kg_made_run){ .n_cases = 2, .gpu = "Other GPU", .cflags = "-O1" });
    kg_history_lab_runs(&lab, 2, 2, (struct kg_made_run){ .n_cases = 2, .gpu = "Other GPU" });
    kg_history_lab_runs(&lab, 4, 1, (struct kg_made_run){ .n_cases = 2 });
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_INCONCLUSIVE);
    ck_assert_uint_eq(r.n_reasons, 1);
    ck_assert_msg(strstr(r.reasons[0], "the most similar one differs in gpu") != NULL, "%s", r.reasons[0]);
    ck_assert_ptr_null(strstr(r.reasons[0], "cflags"));
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

/* The host, its clocks and how many cases run at once are parts of the key, with a GPU as without one. */
static void what_the_key_holds(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *cpu, *governor;
        bool ecc;
        int n_usable, sm_mhz, memory_mhz, jobs;
        const char *differs;
    } ROWS[] = {
        { "A", "performance", true, 8, 1980, 3201, 4, "" },
        { "B", "performance", true, 8, 1980, 3201, 4, "cpu" },
        { "A", "performance", false, 8, 1980, 3201, 4, "ecc" },
        { "A", "powersave", true, 8, 1980, 3201, 4, "governor" },
        { "A", "performance", true, 2, 1980, 3201, 4, "n_cpus" },
        { "A", "performance", true, 8, 1200, 3201, 4, "max_sm_mhz" },
        { "A", "performance", true, 8, 1980, 2600, 4, "max_memory_mhz" },
        { "A", "performance", true, 8, 1980, 3201, 1, "jobs" },
    };
    char *keys[KG_COUNT_OF(ROWS)];
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        json_t *env =
            json_pack("{s:{s:s, s:i, s:s}, s:[{s:s, s:b, s:i, s:i}], s:{s:i}}", "cpu", "model", ROWS[i].cpu, "n_usable",
                      ROWS[i].n_usable, "governor", ROWS[i].governor, "gpus", "name", "G", "ecc", ROWS[i].ecc,
                      "max_sm_mhz", ROWS[i].sm_mhz, "max_memory_mhz", ROWS[i].memory_mhz, "run", "jobs", ROWS[i].jobs);
        ck_assert_ptr_nonnull(env);
        keys[i] = kg_comparison_key(env, NULL);
        json_decref(env);
        char *differs = kg_comparison_difference(keys[0], keys[i]);
        ck_assert_str_eq(differs, ROWS[i].differs);
        ck_assert_int_eq(kg_comparison_same_machine(keys[0], keys[i]), i == 0 || strcmp(ROWS[i].differs, "jobs") == 0);
        free(differs);
    }
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) free(keys[i]);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "regress_limits", .name = #function, .run = function }
#define SPILL(name_, kernels_)                                                                                         \
    { .layer = "unit", .op = "regress_limits", .name = name_, .run = spills_stay_red, .arg = kernels_ }
#define ROW(name_, row_)                                                                                               \
    { .layer = "unit", .op = "regress_limits", .name = name_, .run = one_case, .arg = &row_ }

static const struct kg_case CASES[] = {
    ROW("limits_times_100", LIMIT_100),
    ROW("limit_is_gone", LIMIT_GONE),
    ROW("one_more_limit", MIXED_TOO),
    ROW("one_value_of_4096", ONE_VALUE),
    ROW("max_rel_times_10", MAX_REL),
    ROW("nmse_times_100", NMSE),
    ROW("one_more_gigabyte", GIGABYTE),
    ROW("tenfold_error_of_another_seed", OTHER_SEED_TENFOLD),
    CASE(the_field_that_differs),
    CASE(what_the_key_holds),
    CASE(a_catalogue_from_before_the_run),
    CASE(runs_read_at_once),
    SPILL("spills_of_a_kernel", KNOWN_KERNEL),
    SPILL("spills_of_a_renamed_kernel", OTHER_KERNEL),
};

KG_ASKED_SUITE(regress_limits, CASES)
