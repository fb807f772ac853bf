/* How a run is named, in every verb that takes one. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/integration/verbs.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_RUNS = 4, N_COMMITS = 6, TAIL_CHARS = 8 };

/* Runs of the commits 0, 1, 1 and 5, which is the end of the branch "line". */
struct store {
    struct kg_history_lab lab;
    char *ids[N_RUNS];
};

static void open_store(struct store *s, const struct kg_record *rec) {
    static const size_t COMMITS[N_RUNS] = { 0, 1, 1, 5 };
    kg_history_lab_open_in(&s->lab, kg_scratch_dir(rec), N_COMMITS);
    for (size_t i = 0; i < N_RUNS; i++) {
        const struct kg_made_run run = { .n_cases = 2, .canary = 1, .commit = s->lab.commits[COMMITS[i]] };
        s->ids[i] = kg_history_lab_run(&s->lab, run);
    }
}

static void close_store(struct store *s) {
    for (size_t i = 0; i < N_RUNS; i++) free(s->ids[i]);
    kg_history_lab_close(&s->lab);
}

static const char *tail(const char *id) {
    return id + strlen(id) - TAIL_CHARS;
}

static void expect_run(const struct store *s, const char *name, size_t i) {
    json_t *run = kg_verb_json(s->lab.root, ARGS("show", name), KG_EXIT_OK);
    const char *id = json_string_value(json_object_get(run, "bundle_id"));
    ck_assert_msg(id && strcmp(id, s->ids[i]) == 0, "'%s' is %s, not %s", name, id, s->ids[i]);
    json_decref(run);
}

static void every_name_finds_its_run(struct kg_record *rec, const void *arg) {
    struct store s;
    (void)arg;
    open_store(&s, rec);
    char *short_commit = kg_xasprintf("%.7s", s.lab.commits[0]), *beginning = kg_xasprintf("%.20s", s.ids[3]);
    const struct {
        const char *name;
        size_t run;
    } NAMES[] = {
        { s.ids[1], 1 },   { tail(s.ids[2]), 2 }, { "latest", 3 },   { "latest~1", 2 },
        { "latest~3", 0 }, { short_commit, 0 },   { "line", 3 },     { s.lab.commits[0], 0 },
        { beginning, 3 },  { "line~5", 0 },       { "latest~0", 3 },
    };
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) expect_run(&s, NAMES[i].name, NAMES[i].run);
    free(beginning);
    free(short_commit);
    close_store(&s);
}

/* The message names each candidate, so that the next call needs no other verb. */
static void a_name_of_several_lists_them(struct kg_record *rec, const void *arg) {
    struct store s;
    (void)arg;
    open_store(&s, rec);
    const char *const names[] = { s.lab.commits[1], "line~4", "20" };
    for (size_t i = 0; i < KG_COUNT_OF(names); i++) {
        kg_verb_refuses(s.lab.root, ARGS("show", names[i]), KG_EXIT_USAGE, s.ids[1]);
        kg_verb_refuses(s.lab.root, ARGS("show", names[i]), KG_EXIT_USAGE, s.ids[2]);
    }
    static const char *const NOTHING[] = { "latest~4", "latest~", "latest~x", "line~2", "nowhere", "abcdef0" };
    for (size_t i = 0; i < KG_COUNT_OF(NOTHING); i++)
        kg_verb_refuses(s.lab.root, ARGS("show", NOTHING[i]), KG_EXIT_USAGE, NOTHING[i]);
    kg_verb_refuses(s.lab.root, ARGS("show", "latest~4"), KG_EXIT_USAGE, "only 4 runs");
    close_store(&s);
}

/* A verb that looks for the run says that there is none of a wrong name, and does not say so of a right one. */
static void every_verb_takes_every_name(struct kg_record *rec, const void *arg) {
    static const char WRONG[] = "latest~9", SAYS[] = "only 4 runs";
    struct store s;
    (void)arg;
    open_store(&s, rec);
    char *file = kg_xasprintf("%s/run.tar.zst", s.lab.repository);
    const char *const names[] = { WRONG, "latest~1", tail(s.ids[2]) };
    for (size_t k = 0; k < KG_COUNT_OF(names); k++) {
        const char *run = names[k];
        const char *const *const calls[] = {
            ARGS("show", run),
            ARGS("verify", run),
            ARGS("diff", run, run),
            ARGS("regress", run),
            ARGS("steps", "--run", run),
            ARGS("report", run, "--markdown"),
            ARGS("rerun", run, "no/such/case"),
            ARGS("sign", run, "--key", "/nowhere/key"),
            ARGS("selfcheck", run, run),
            ARGS("annotate", "note", run, "--why", "x"),
            ARGS("pin", run),
            ARGS("export", run, "-o", file),
            ARGS("confirm", run),
            ARGS("signoff", "fp16", run),
            ARGS("accept", "*", "--why", "x", "--run", run),
        };
        for (size_t i = 0; i < KG_COUNT_OF(calls); i++) {
            struct kg_process_result r;
            kg_verb_run(s.lab.root, calls[i], false, &r);
            const bool refused = strstr(r.err, SAYS) != NULL || strstr(r.err, "no run '") != NULL;
            ck_assert_msg(refused == (run == WRONG), "kigo %s %s: %.500s%.500s", calls[i][0], run, r.out, r.err);
            kg_process_result_free(&r);
        }
    }
    free(file);
    close_store(&s);
}

static const struct kg_case CASES[] = {
    { .layer = "integration", .op = "run_names", .name = "every_name_finds_its_run", .run = every_name_finds_its_run },
    { .layer = "integration",
      .op = "run_names",
      .name = "a_name_of_several_lists_them",
      .run = a_name_of_several_lists_them },
    { .layer = "integration",
      .op = "run_names",
      .name = "every_verb_takes_every_name",
      .run = every_verb_takes_every_name },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
