/* The verbs that ask the history, as a user meets them: what they choose, what they print, and their exit codes. */
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/integration/verbs.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_CASES = 6, VICTIM = 3, N_RUNS = 16, STEP_AT = 9 };

struct story {
    struct kg_rng rng;
    double victim;
    bool red;
};

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    struct story *story = arg;
    c->time_ns *= exp(0.005 * kg_rng_normal(&story->rng));
    if (i == VICTIM) c->time_ns *= story->victim;
    if (i == VICTIM && story->red) c->status = "fail";
}

/* 16 runs; from the tenth on a case takes 8% longer. */
static void write_history(struct kg_history_lab *lab, struct story *story) {
    kg_rng_init(&story->rng, 3, 0);
    for (size_t i = 0; i < N_RUNS; i++) {
        story->victim = i < STEP_AT ? 1 : 1.08;
        kg_history_lab_runs(lab, i, 1,
                            (struct kg_made_run){ .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = story });
    }
}

static const char *text(const json_t *object, const char *name) {
    const char *value = json_string_value(json_object_get(object, name));
    ck_assert_msg(value != NULL, "no text '%s'", name);
    return value;
}

static void steps_are_found(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct story story = { .victim = 1 };
    char commits[32];
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    json_t *rows = kg_verb_json(lab.root, ARGS("steps"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 1);
    const json_t *row = json_array_get(rows, 0);
    ck_assert_str_eq(text(row, "case"), kg_made_case_key(VICTIM));
    ck_assert_str_eq(text(row, "figure"), "time.graph.warm");
    snprintf(commits, sizeof commits, "%.12s..%.12s", lab.commits[STEP_AT - 1], lab.commits[STEP_AT]);
    ck_assert_str_eq(text(row, "commits"), commits);
    ck_assert_double_eq_tol(
        json_real_value(json_object_get(row, "after")) / json_real_value(json_object_get(row, "before")), 1.08, 0.01);
    json_decref(rows);
    rows = kg_verb_json(lab.root, ARGS("steps", "bench/linear/case_2[*"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 0);
    json_decref(rows);
    kg_history_lab_close(&lab);
}

static void history_of_a_case(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args[8];
        size_t n_rows;
    } CHOICES[] = {
        { { "history", "KEY" }, N_RUNS },
        { { "history", "KEY", "--limit", "3" }, 3 },
        { { "history", "bench/linear/case_*" }, N_RUNS * N_CASES },
        { { "history", "bench/linear/case_*", "--shape", "M=1 N=64" }, N_RUNS },
        { { "history", "bench/linear/case_*", "--op", "rope" }, 0 },
        { { "history", "KEY", "--machine", "made gpu" }, N_RUNS },
        { { "history", "KEY", "--machine", "other" }, 0 },
        { { "history", "KEY", "--commits", "line~29..line~24" }, 5 },
        { { "history", "KEY", "--figure", "y.*" }, N_RUNS * 5 },
        { { "history", "KEY", "--figure", "kv.peak" }, N_RUNS },
        { { "history", "no/such/case" }, 0 },
    };
    struct kg_history_lab lab;
    struct story story = { .victim = 1 };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    for (size_t i = 0; i < KG_COUNT_OF(CHOICES); i++) {
        const char *args[9] = { NULL };
        for (size_t k = 0; CHOICES[i].args[k]; k++)
            args[k] = strcmp(CHOICES[i].args[k], "KEY") == 0 ? kg_made_case_key(VICTIM) : CHOICES[i].args[k];
        if (CHOICES[i].n_rows == 0) {
            kg_verb_expect(lab.root, args, KG_EXIT_USAGE, NULL);
            continue;
        }
        json_t *rows = kg_verb_json(lab.root, args, KG_EXIT_OK);
        ck_assert_msg(json_array_size(rows) == CHOICES[i].n_rows, "choice %zu: %zu rows", i, json_array_size(rows));
        json_decref(rows);
    }
    kg_verb_refuses(lab.root, ARGS("history", "bench/linear/case_*", "--figure", "no.*"), KG_EXIT_USAGE,
                    "has a figure 'no.*' of a case 'bench/linear/case_*'");
    json_t *rows = kg_verb_json(lab.root, ARGS("history", kg_made_case_key(VICTIM)), KG_EXIT_OK);
    for (size_t i = 1; i < N_RUNS; i++)
        ck_assert_str_gt(text(json_array_get(rows, i - 1), "run"), text(json_array_get(rows, i), "run"));
    json_decref(rows);
    kg_history_lab_close(&lab);
}

/* Of three runs: case 1 is skipped in two and not run by the last, which died; 2 is skipped but in the first, 4 but in
 * the last. */
static void fill_skipped(void *arg, size_t i, struct kg_made_case *c) {
    const size_t run = *(const size_t *)arg;
    if (i == 1 || (i == 2 && run > 0) || (i == 4 && run < 2)) c->status = i == 1 && run == 2 ? "norun" : "skip";
}

static void cases_that_never_ran(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args[8];
        size_t cases[3], n;
    } ASKED[] = {
        { { "history", "*", "--never-ran" }, { 1 }, 1 },
        { { "history", "*case_3[*", "--never-ran" }, { 0 }, 0 },
        { { "history", "*case_?[*", "--never-ran", "--commits", "line~29..line~28" }, { 1, 2, 4 }, 3 },
        { { "history", "*case_?[*", "--never-ran", "--commits", "line~29..line~27" }, { 1, 2 }, 2 },
    };
    struct kg_history_lab lab;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    for (size_t run = 0; run < 3; run++)
        kg_history_lab_runs(&lab, run, 1,
                            (struct kg_made_run){ .n_cases = N_CASES, .canary = 1, .fill = fill_skipped, .arg = &run });
    for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++) {
        json_t *rows = kg_verb_json(lab.root, ASKED[i].args, ASKED[i].n > 0 ? KG_EXIT_FAILED : KG_EXIT_OK);
        char *dump = json_dumps(rows, JSON_INDENT(1));
        ck_assert_msg(json_array_size(rows) == ASKED[i].n, "question %zu: %s", i, dump);
        for (size_t k = 0; k < ASKED[i].n; k++)
            ck_assert_msg(strcmp(text(json_array_get(rows, k), "case_key"), kg_made_case_key(ASKED[i].cases[k])) == 0,
                          "question %zu: %s", i, dump);
        free(dump);
        json_decref(rows);
    }
    json_t *rows = kg_verb_json(lab.root, ASKED[0].args, KG_EXIT_FAILED), *row = json_array_get(rows, 0);
    ck_assert_int_eq(json_integer_value(json_object_get(row, "n_planned")), 3);
    ck_assert_str_eq(text(row, "status"), "norun");
    json_decref(rows);
    /* No such cases, or runs, are not cases that have run. */
    kg_verb_expect(lab.root, ARGS("history", "*case_[12]*", "--never-ran"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(lab.root, ARGS("history", "*", "--never-ran", "--machine", "another"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(lab.root, ARGS("history", "*", "--never-ran", "--figure", "y.*"), KG_EXIT_USAGE, NULL);
    kg_history_lab_close(&lab);
}

static void list_by_filters(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct story story = { .victim = 1 };
    char *out;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    kg_history_lab_runs(&lab, 20, 1, (struct kg_made_run){ .n_cases = 1, .gpu = "Small 'GPU'" });
    const struct {
        const char *args[5];
        size_t n_rows;
    } choices[] = {
        { { "list" }, N_RUNS + 1 },
        { { "list", "--machine", "small" }, 1 },
        { { "list", "--shape", "M=1 N=256" }, N_RUNS }, /* the small run has no such case */
        { { "list", "--dtype", "f32" }, 0 },
        { { "list", "--commits", lab.commits[1] }, 2 },
        { { "list", "--machine", "l 'gpu" }, 1 }, /* values are bound, never part of the SQL */
        { { "list", "--shape", "M=1 'N=256" }, 0 },
    };
    for (size_t i = 0; i < KG_COUNT_OF(choices); i++) {
        json_t *rows = kg_verb_json(lab.root, choices[i].args, KG_EXIT_OK);
        ck_assert_msg(json_array_size(rows) == choices[i].n_rows, "choice %zu: %zu rows", i, json_array_size(rows));
        json_decref(rows);
    }
    json_t *run = kg_verb_json(lab.root, ARGS("show", "latest", "--machine", "made gpu"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(json_object_get(run, "cases")), N_CASES + 1); /* and a canary */
    json_decref(run);
    kg_verb_expect(lab.root, ARGS("show", "latest", "--machine", "none"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(lab.root, ARGS("list", "--commits", "--all"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(lab.root, ARGS("list", "--csv", "--markdown"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(lab.root, ARGS("list", "--markdown", "--limit", "1"), KG_EXIT_OK, &out);
    ck_assert_msg(strncmp(out, "| run | verdict |", 17) == 0, "%s", out);
    free(out);
    kg_verb_expect(lab.root, ARGS("show", "latest", "--csv"), KG_EXIT_OK, &out);
    ck_assert_msg(strncmp(out, "case,status,seconds,", 20) == 0, "%s", out);
    free(out);
    kg_history_lab_close(&lab);
}

static void differences(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct story usual = { .victim = 1 }, odd = { .victim = 1.5, .red = true };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_rng_init(&usual.rng, 1, 0);
    odd.rng = usual.rng;
    char *a = kg_history_lab_run(
        &lab, (struct kg_made_run){ .commit = lab.commits[0], .n_cases = N_CASES, .fill = fill, .arg = &usual });
    char *b = kg_history_lab_run(
        &lab, (struct kg_made_run){ .commit = lab.commits[1], .n_cases = N_CASES + 1, .fill = fill, .arg = &odd });
    json_t *rows = kg_verb_json(lab.root, ARGS("diff", a, b), KG_EXIT_OK);
    size_t n_status = 0, n_new = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        n_new += strcmp(text(row, "what"), "new") == 0;
        if (strcmp(text(row, "what"), "status") != 0) continue;
        ck_assert_str_eq(text(row, "a"), "pass");
        ck_assert_str_eq(text(row, "b"), "fail");
        n_status++;
    }
    ck_assert_uint_eq(n_status, 1);
    ck_assert_uint_eq(n_new, 1);
    json_decref(rows);
    rows = kg_verb_json(lab.root, ARGS("diff", b, a, "--case", "bench/linear/case_6[*"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 1);
    ck_assert_str_eq(text(json_array_get(rows, 0), "what"), "missing");
    json_decref(rows);
    rows = kg_verb_json(lab.root, ARGS("diff", a, a, "--all"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 0);
    json_decref(rows);
    kg_verb_expect(lab.root, ARGS("diff", a), KG_EXIT_USAGE, NULL);
    kg_verb_expect(lab.root, ARGS("diff", a, "nothing"), KG_EXIT_USAGE, NULL);
    free(a);
    free(b);
    kg_history_lab_close(&lab);
}

static void fill_half_slower(void *arg, size_t i, struct kg_made_case *c) {
    if (i % 2 == 0 && *(const bool *)arg) c->time_ns *= 2;
}

/* 203 of 406 cases are slower than a single run before: 200 are measured again, and the user hears of the others first.
 */
static void confirm_says_what_it_leaves_out(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    bool slower = false;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    struct kg_made_run run = { .n_cases = 406, .canary = 1, .fill = fill_half_slower, .arg = &slower };
    kg_history_lab_runs(&lab, 0, 1, run);
    slower = true;
    kg_history_lab_runs(&lab, 1, 1, run);
    kg_verb_refuses(lab.root, ARGS("confirm", "latest", "--baseline", lab.commits[0], "--baseline-build", lab.root),
                    KG_EXIT_USAGE, "3 flagged figures of more than 200 cases are left out");
    kg_history_lab_close(&lab);
}

static void regress_by_exit_code(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct story story = { .victim = 1 };
    char *out;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story);
    /* The last run against its ancestors: half of them were faster, which is noise of a kind, and no step of this
     * commit. */
    kg_verb_expect(lab.root, ARGS("regress", "--baseline", lab.commits[N_RUNS - 2]), KG_EXIT_OK, NULL);
    story.red = true;
    kg_history_lab_runs(&lab, N_RUNS, 1,
                        (struct kg_made_run){ .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = &story });
    json_t *r = kg_verb_json(lab.root, ARGS("regress"), KG_EXIT_FAILED);
    ck_assert_str_eq(text(r, "verdict"), "regressed");
    ck_assert_uint_eq(json_array_size(json_object_get(r, "baseline")), N_RUNS);
    ck_assert_str_eq(text(json_array_get(json_object_get(r, "judgements"), 0), "case"), kg_made_case_key(VICTIM));
    json_decref(r);
    kg_verb_expect(lab.root, ARGS("show", "latest"), KG_EXIT_OK, &out);
    ck_assert_msg(strstr(out, "\nbefore   worse than 16 runs before: 1 worse"), "%s", out);
    free(out);
    kg_verb_expect(lab.root, ARGS("show", "latest", "--markdown"), KG_EXIT_OK, &out);
    ck_assert_msg(strstr(out, "\n| before | worse than 16 runs before: 1 worse"), "%s", out);
    free(out);
    kg_verb_expect(lab.root, ARGS("regress", "--markdown"), KG_EXIT_FAILED, &out);
    ck_assert_msg(strstr(out, "### kigo regress: regressed") && strstr(out, "| regression | status |"), "%s", out);
    free(out);
    kg_verb_expect(lab.root, ARGS("waive", "bench/linear/case_3*", "--until", "2999-01-01", "--why", "known"),
                   KG_EXIT_OK, NULL);
    kg_verb_expect(lab.root, ARGS("regress"), KG_EXIT_OK, &out);
    ck_assert_msg(strstr(out, "waived"), "%s", out);
    free(out);
    kg_verb_expect(lab.root, ARGS("regress", "--baseline", "no-such-thing"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(lab.root, ARGS("regress", "nothing"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(lab.root, ARGS("regress", "--repo", "/"), KG_EXIT_INCONCLUSIVE, NULL);
    kg_history_lab_close(&lab);
}

static void words_are_kept(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, 1, (struct kg_made_run){ .n_cases = 1 });
    const char *const *const refused[] = { ARGS("annotate", "break", "latest"),
                                           ARGS("annotate", "break", "--why", "x"),
                                           ARGS("annotate", "exclude", "nothing", "--why", "x"),
                                           ARGS("annotate", "shout", "latest", "--why", "x"),
                                           ARGS("annotate", "remove", "../../etc/passwd"),
                                           ARGS("waive", "x", "--why", "x"),
                                           ARGS("waive", "x", "--until", "2001-01-01", "--why", "x"),
                                           ARGS("waive", "x", "--until", "soon", "--why", "x"),
                                           ARGS("pin", "nothing"),
                                           ARGS("pin", "latest", "--remove") };
    for (size_t i = 0; i < KG_COUNT_OF(refused); i++) kg_verb_expect(lab.root, refused[i], KG_EXIT_USAGE, NULL);
    json_t *one = kg_verb_json(lab.root, ARGS("annotate", "note", "latest", "--why", "<b>|\"it's\"); --"), KG_EXIT_OK);
    char *said;
    kg_verb_expect(lab.root, ARGS("pin", "latest"), KG_EXIT_OK, &said);
    kg_verb_expect(lab.root, ARGS("reindex"), KG_EXIT_OK, NULL);
    json_t *rows = kg_verb_json(lab.root, ARGS("annotate", "list"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 2);
    said[strcspn(said, "\n")] = '\0';
    ck_assert_str_eq(said, text(json_array_get(rows, 1), "annotation_id"));
    free(said);
    ck_assert_str_eq(text(json_array_get(rows, 0), "text"), "<b>|\"it's\"); --");
    json_decref(rows);
    kg_verb_expect(lab.root, ARGS("annotate", "remove", text(one, "annotation_id")), KG_EXIT_OK, NULL);
    kg_verb_expect(lab.root, ARGS("pin", "latest", "--remove"), KG_EXIT_OK, NULL);
    rows = kg_verb_json(lab.root, ARGS("query", "SELECT * FROM annotation"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 0);
    json_decref(rows);
    json_decref(one);
    kg_history_lab_close(&lab);
}

/* A run of a commit that no repository at hand has is not compared, and the answer, which readers pass on, names no
 * folder of this machine. */
static void lost_commit_names_no_folder(struct kg_record *rec, const void *arg) {
    static const char LOST[] = "0123456789abcdef0123456789abcdef01234567";
    struct kg_history_lab lab;
    char *text;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, 2, (struct kg_made_run){ .n_cases = 2 });
    free(kg_history_lab_run(&lab, (struct kg_made_run){ .n_cases = 2, .commit = LOST }));
    kg_verb_expect(lab.root, ARGS("regress"), KG_EXIT_INCONCLUSIVE, &text);
    const char *why = strstr(text, "git knows no commit");
    ck_assert_msg(why && strstr(why, LOST), "%s", text);
    ck_assert_msg(memchr(why, '/', strcspn(why, "\n")) == NULL, "a folder is named: %s", why);
    free(text);
    kg_history_lab_close(&lab);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "history_cli", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(steps_are_found),      CASE(history_of_a_case), CASE(cases_that_never_ran),
    CASE(list_by_filters),      CASE(differences),       CASE(confirm_says_what_it_leaves_out),
    CASE(regress_by_exit_code), CASE(words_are_kept),    CASE(lost_commit_names_no_folder),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
