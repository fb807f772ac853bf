/* How the work of the history grows with runs and cases, counted where SQLite does it, so that a busy machine changes
 * nothing: a lost index or a statement that takes the square of the runs is red at a few dozen of them. Times, and the
 * size of the index, are in integration/test_history_limits.c; the full size in integration/full/test_full_size.c. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "cli/commands.h"
#include "suites/harness/must.h"
#include "suites/support/history_lab.h"
#include "suites/unit/statement_trace.h"
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* kigo's own is in main.c, which has another main. */
int kg_cli_error(const char *verb, const struct kg_error *err) {
    ck_abort_msg("kigo %s: %s", verb, err->message);
    return kg_status_exit_code(err->status);
}

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    (void)i;
    c->time_ns *= exp(0.01 * kg_rng_normal(arg));
}

static void make_lab(struct kg_history_lab *lab, const char *dir, size_t n_runs, size_t n_cases) {
    struct kg_rng rng;
    kg_rng_init(&rng, 1, 0);
    kg_history_lab_open_in(lab, dir, n_runs);
    kg_history_lab_runs(lab, 0, n_runs,
                        (struct kg_made_run){ .n_cases = n_cases, .canary = 1, .fill = fill, .arg = &rng });
}

/* The verbs under trace, each as `kigo` runs it. */

static void reindex(const struct kg_history_lab *lab) {
    size_t n_indexed = 0;
    struct kg_error err;
    kg_must(kg_history_reindex(lab->root, &n_indexed, NULL, &err), &err);
    ck_assert_uint_gt(n_indexed, 0);
}

static void regress(const struct kg_history_lab *lab) {
    struct kg_regression r;
    kg_history_lab_regress(lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.baseline.n_items, 20);
    kg_regression_free(&r);
}

/* Its table is not looked at here. */
static void run_verb(const char *const *words, int n_words, int (*verb)(int argc, char **argv)) {
    enum { MOST_WORDS = 8 };
    const int kept = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char *argv[MOST_WORDS];
    ck_assert_int_lt(n_words, MOST_WORDS);
    for (int i = 0; i < n_words; i++) argv[i] = (char *)(uintptr_t)words[i];
    argv[n_words] = NULL;
    fflush(stdout);
    ck_assert_int_eq(dup2(nowhere, STDOUT_FILENO), STDOUT_FILENO);
    const int exit_code = verb(n_words, argv);
    fflush(stdout);
    ck_assert_int_eq(dup2(kept, STDOUT_FILENO), STDOUT_FILENO);
    close(nowhere);
    close(kept);
    ck_assert_int_eq(exit_code, KG_EXIT_OK);
}

static void run_history(const struct kg_history_lab *lab, const char *figure) {
    const char *const words[] = { "history", kg_made_case_key(7), "--bundles", lab->root, "--figure", figure, NULL };
    run_verb(words, figure ? 6 : 4, kg_cmd_history);
}

/* Of one case. */
static void steps(const struct kg_history_lab *lab) {
    const char *const words[] = { "steps", kg_made_case_key(7), "--bundles", lab->root, "-n", "500", NULL };
    run_verb(words, 6, kg_cmd_steps);
}

static void history(const struct kg_history_lab *lab) {
    run_history(lab, NULL);
}

static void history_of_figures(const struct kg_history_lab *lab) {
    run_history(lab, "time.*");
}

/* By how much a verb's work may grow when the runs, or the cases of each, become twice as many. A search in a tree is
 * one step however deep the tree, so that work that grows in proportion, on top of a constant, becomes a little less
 * than twice as much (1.96 to 1.99 were seen); what does not depend on the number may cost a row more in a small table
 * (1.014). */
#define TWICE                                                                                                          \
    { 1.8, 2.02 }
/* Opening makes kigo's schema in memory to hold the file's against: a constant beside what 30 runs take. */
#define TWICE_AND_OPENING                                                                                              \
    { 1.6, 2.02 }
#define SAME                                                                                                           \
    { 1, 1.05 }
/* The table of cases is held against its indexes whole when the index is opened: 0.6 us a case. */
#define SAME_AND_CASES                                                                                                 \
    { 1, 1.1 }
static const struct verb {
    const char *name;
    void (*run)(const struct kg_history_lab *lab);
    struct {
        double least, most;
    } by_runs, by_cases;
} VERBS[] = {
    { "reindex", reindex, TWICE, TWICE },
    { "regress", regress, SAME, TWICE }, /* the baseline is the last 20 runs */
    { "history", history, TWICE_AND_OPENING, SAME_AND_CASES },
    { "history --figure", history_of_figures, TWICE_AND_OPENING, SAME_AND_CASES },
    /* the newest run and the table of cases are read whole, which a few runs do not outweigh */
    { "steps", steps, { 1.3, 2.02 }, { 1, 1.7 } },
};

static void trace_verb(const struct verb *verb, const struct kg_history_lab *lab, struct kg_trace *trace) {
    kg_trace_begin();
    verb->run(lab);
    kg_trace_end(trace);
    ck_assert_msg(trace->n_steps > 0, "%s asked SQLite for nothing", verb->name);
}

static bool join_text(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_buffer *out = arg;
    (void)names;
    if (!cells) return true;
    const struct kg_cell *last = &cells[n_columns - 1];
    kg_buffer_append(out, last->text, last->size_bytes);
    kg_buffer_puts(out, "\n");
    return true;
}

/* Tables, by the names statements give them, that may be read from end to end: they have a row a run, a case, a
 * figure's name or a table. result_row and metric_row have one for each of these in each run. */
static bool is_small(const char *name, size_t len) {
    static const char *const SMALL[] = { "annotation", "b", "build",       "bundle",        "c",    "e",
                                         "env",        "f", "figure_name", "sqlite_schema", "tcase" };
    for (size_t i = 0; i < KG_COUNT_OF(SMALL); i++)
        if (strlen(SMALL[i]) == len && strncmp(SMALL[i], name, len) == 0) return true;
    return false;
}

/* The plan of a statement if it reads a large table from end to end, or makes an index of one for the occasion; NULL if
 * it does not. malloc'ed. */
static char *plan_that_scans(struct kg_history *index, const char *sql) {
    struct kg_buffer plan = KG_BUFFER_INIT;
    struct kg_error err;
    char *explain = kg_xasprintf("EXPLAIN QUERY PLAN %s", sql);
    kg_must(kg_history_query(index, explain, NULL, 0, join_text, &plan, &err), &err);
    free(explain);
    const char *text = kg_buffer_text(&plan);
    ck_assert_msg(*text, "no plan of %s", sql);
    bool scans = strstr(text, " AUTOMATIC ") != NULL;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        scans = scans || (strncmp(line, "SCAN ", 5) == 0 && !is_small(line + 5, strcspn(line + 5, " \n")));
    if (scans) return plan.data;
    kg_buffer_free(&plan);
    return NULL;
}

static void expect_no_scan(struct kg_history *index, const char *sql) {
    const char *plan = plan_that_scans(index, sql);
    ck_assert_msg(!plan, "%s\nhas the plan\n%s", sql, plan);
}

static struct kg_history *open_index(const struct kg_history_lab *lab) {
    struct kg_history *index = NULL;
    struct kg_error err;
    kg_must(kg_history_open(lab->root, &index, NULL, &err), &err);
    return index;
}

enum { SMALL_RUNS = 26, SMALL_CASES = 8 };

/* Every query of regress and history, as they ask it, and what users may ask with `kigo query`. */
static void no_large_table_is_scanned(struct kg_record *rec, const void *arg) {
    static const char *const ASKED[] = {
        "SELECT * FROM tcase c JOIN result_row r USING(case_id) WHERE c.case_key = ?1",
        "SELECT m.value FROM result r JOIN metric m USING(result_id) JOIN tcase c USING(case_id) WHERE c.case_key = ?1",
        "SELECT * FROM result r WHERE r.bundle_id = ?1",
    };
    struct kg_history_lab lab;
    (void)arg;
    make_lab(&lab, kg_scratch_dir(rec), SMALL_RUNS, SMALL_CASES);
    struct kg_history *index = open_index(&lab);
    for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++) expect_no_scan(index, ASKED[i]);
    for (size_t v = 0; v < KG_COUNT_OF(VERBS); v++) {
        struct kg_trace trace;
        size_t n_large = 0;
        if (VERBS[v].run == reindex) continue;
        trace_verb(&VERBS[v], &lab, &trace);
        for (size_t i = 0; i < trace.n_items; i++) {
            const char *sql = trace.items[i].sql;
            if (strncmp(sql, "SELECT", 6) != 0) continue;
            expect_no_scan(index, sql);
            n_large += strstr(sql, "_row ") != NULL;
        }
        ck_assert_msg(n_large > 0, "%s asked nothing of the large tables", VERBS[v].name);
        kg_trace_free(&trace);
    }
    kg_history_close(index);
    kg_history_lab_close(&lab);
}

static void run_sql(const struct kg_history_lab *lab, const char *sql) {
    char *path = kg_path_join(lab->root, "index.sqlite");
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    free(path);
}

/* How many of the statements that a verb asks scan once an index is gone. A verb itself refuses such a file. */
static size_t count_scans(struct kg_history *index, const struct verb *verb, const struct kg_history_lab *lab,
                          const char *drop) {
    struct kg_trace trace;
    size_t n = 0;
    trace_verb(verb, lab, &trace);
    run_sql(lab, drop);
    for (size_t i = 0; i < trace.n_items; i++) {
        char *plan = strncmp(trace.items[i].sql, "SELECT", 6) == 0 ? plan_that_scans(index, trace.items[i].sql) : NULL;
        n += plan != NULL;
        free(plan);
    }
    kg_trace_free(&trace);
    return n;
}

/* The mutant of the case above: an index that is gone is seen in the verbs that need it. */
static void lost_index_is_seen(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *drop;
        void (*seen_in)(const struct kg_history_lab *lab);
    } LOST[] = { { "DROP INDEX result_by_case", history },
                 { "DROP INDEX result_by_case", history_of_figures },
                 { "DROP INDEX result_by_bundle", regress } };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(LOST); i++) {
        struct kg_history_lab lab;
        char *dir = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), i);
        make_lab(&lab, dir, SMALL_RUNS, SMALL_CASES);
        struct kg_history *index = open_index(&lab);
        for (size_t v = 0; v < KG_COUNT_OF(VERBS); v++)
            if (VERBS[v].run == LOST[i].seen_in)
                ck_assert_msg(count_scans(index, &VERBS[v], &lab, LOST[i].drop) > 0, "%s: %s", LOST[i].drop,
                              VERBS[v].name);
        kg_history_close(index);
        kg_history_lab_close(&lab);
        free(dir);
    }
}

/* The statement whose work grew most, for the message. */
static const char *culprit(const struct kg_trace *before, const struct kg_trace *after) {
    const char *worst = "";
    uint64_t most = 0;
    for (size_t i = 0; i < after->n_items; i++) {
        uint64_t was = 0;
        for (size_t k = 0; k < before->n_items; k++)
            if (strcmp(before->items[k].sql, after->items[i].sql) == 0) was = before->items[k].n_steps;
        if (after->items[i].n_steps <= was + most) continue;
        most = after->items[i].n_steps - was;
        worst = after->items[i].sql;
    }
    return worst;
}

static void expect_growth(struct kg_record *rec, const struct verb *verb, const char *of, const struct kg_trace *before,
                          const struct kg_trace *after, double least, double most) {
    const double growth = (double)after->n_steps / (double)before->n_steps;
    char *name = kg_xasprintf("%s_by_%s", verb->name, of);
    for (char *c = name; *c; c++)
        if (*c == ' ' || *c == '-') *c = '_';
    kg_record_metric(rec, name, "ratio", growth);
    ck_assert_msg(growth >= least && growth <= most, "%s: twice as many %s take %.3f times the work, not %g to %g: %s",
                  verb->name, of, growth, least, most, culprit(before, after));
    free(name);
}

static void work_grows_as_it_must(struct kg_record *rec, const void *arg) {
    enum { N_RUNS = 30, N_CASES = 40 };
    static const struct {
        size_t n_runs, n_cases;
    } SIZES[] = { { N_RUNS, N_CASES }, { 2 * N_RUNS, N_CASES }, { N_RUNS, 2 * N_CASES } };
    struct kg_trace traces[KG_COUNT_OF(SIZES)][KG_COUNT_OF(VERBS)];
    (void)arg;
    for (size_t s = 0; s < KG_COUNT_OF(SIZES); s++) {
        struct kg_history_lab lab;
        char *dir = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), s);
        make_lab(&lab, dir, SIZES[s].n_runs, SIZES[s].n_cases);
        for (size_t v = 0; v < KG_COUNT_OF(VERBS); v++) {
            /* What is verified once is no work of the next call; nothing is kept of files younger than 0.1 s. */
            if (VERBS[v].run != reindex) VERBS[v].run(&lab);
            else usleep(200 * 1000);
            trace_verb(&VERBS[v], &lab, &traces[s][v]);
            if (VERBS[v].run == reindex) usleep(200 * 1000);
        }
        kg_history_lab_close(&lab);
        free(dir);
    }
    for (size_t v = 0; v < KG_COUNT_OF(VERBS); v++) {
        const struct verb *verb = &VERBS[v];
        expect_growth(rec, verb, "runs", &traces[0][v], &traces[1][v], verb->by_runs.least, verb->by_runs.most);
        expect_growth(rec, verb, "cases", &traces[0][v], &traces[2][v], verb->by_cases.least, verb->by_cases.most);
        for (size_t s = 0; s < KG_COUNT_OF(SIZES); s++) kg_trace_free(&traces[s][v]);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "history", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(no_large_table_is_scanned),
    CASE(lost_index_is_seen),
    CASE(work_grows_as_it_must),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
