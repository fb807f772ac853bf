/* kigo confirm as the README prints it: in a repository, the bundles in a folder of it, the baseline's commit built
 * aside by `autoreconf`, `configure` and `make`, which here are scripts. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/integration/copied_tree.h"
#include "suites/integration/verbs.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The commit's build: a kigo in which nothing is slow, run by the copied one. With <dir>/hang it never ends, and
 * <dir>/building holds its process. */
static const char PREPARE[] =
    "mkdir \"$1/bin\" \"$1/tmp\"; printf '#!/bin/sh\\n' >\"$1/bin/autoreconf\"; cp \"$1/bin/autoreconf\" "
    "\"$2/configure\"\n"
    "chmod +x \"$1/bin/autoreconf\" \"$2/configure\"\n"
    "printf 'check:\\n\\tif [ -e %s/hang ]; then echo $$$$ >%s/building; sleep 300; fi\\n\\tcp kigo.sh kigo\\n' \"$1\" "
    "\"$1\" >\"$2/Makefile\"\n"
    "printf '#!/bin/sh\\nKIGO_PACE_SLOW=1 KIGO_SUITES=%s/suites exec %s/kigo \"$@\"\\n' \"$2\" \"$2\" >\"$2/kigo.sh\"\n"
    "chmod +x \"$2/kigo.sh\"\n";

/* Every call is by a user in the tree. */
#define IN_TREE                                                                                                        \
    "cd \"$2\"; export TMPDIR=\"$1/tmp\" PATH=\"$1/bin:$PATH\" KIGO_PACE_RUNS=\"$1/runs\"; unset KIGO_BUILT_FROM "     \
    "KIGO_SUITES KIGO_BUNDLES "                                                                                        \
    "MAKEFLAGS\n"

/* Two runs: of a commit, and of the next in which the victim is slower. False without git. */
static bool make_history(struct kg_copied_tree *c, struct kg_record *rec) {
    kg_copied_tree_open(c, rec, "bench", "bench_pace");
    const char *const words[] = { c->dir, c->tree, "" };
    kg_must_shell(PREPARE, words);
    if (!kg_copied_tree_commit(c, rec, "as it was")) return false;
    kg_must_shell(IN_TREE "./kigo bench --quick --quiet; echo change >note", words);
    kg_copied_tree_commit(c, rec, "slower");
    kg_must_shell(IN_TREE "sleep 1; KIGO_PACE_SLOW=1.10 ./kigo bench --quick --quiet", words);
    return true;
}

#define CONFIRM                                                                                                        \
    "first=$(ls proof-bundles | head -1); export KIGO_PACE_SLOW=1.10\n"                                                \
    "exec ./kigo confirm --rounds 6 --baseline \"$first\""

/* The bundles' folder is no repository, but lies in one; nothing is left in TMPDIR. */
static void as_in_the_readme(struct kg_record *rec, const void *arg) {
    struct kg_copied_tree c;
    char *said;
    (void)arg;
    if (make_history(&c, rec)) {
        const int exit_code = kg_shell(IN_TREE CONFIRM, (const char *const[]){ c.dir, c.tree, "" }, &said);
        ck_assert_msg(exit_code == KG_EXIT_FAILED && strstr(said, "bench/pace/victim"), "exit code %d: %s", exit_code,
                      said);
        free(said);
        kg_must_shell("[ -z \"$(ls -A \"$1/tmp\")\" ]", (const char *const[]){ c.dir, "", "" });
    }
    kg_copied_tree_close(&c);
}

/* Ended while the baseline is built, and while it is measured: no folder and no process is left. */
static void ended_by_a_signal(struct kg_record *rec, const void *arg) {
    static const char WHILE_BUILDING[] =
        IN_TREE "touch \"$1/hang\"; (" CONFIRM ") >\"$1/out\" 2>&1 & pid=$!\n"
                "until [ -s \"$1/building\" ]; do sleep 0.05; done; kill -TERM $pid\n"
                "code=0; wait $pid || code=$?; cat \"$1/out\"; rm \"$1/hang\"; echo \"left: $(ls -A \"$1/tmp\")\"\n"
                "! kill -0 \"$(cat \"$1/building\")\" 2>&1; exit $code";
    struct kg_copied_tree c;
    char *said;
    (void)arg;
    if (make_history(&c, rec)) {
        const int exit_code = kg_shell(WHILE_BUILDING, (const char *const[]){ c.dir, c.tree, "" }, &said);
        ck_assert_msg(exit_code == KG_EXIT_INCOMPLETE && strstr(said, "by a signal"), "exit code %d: %s", exit_code,
                      said);
        ck_assert_msg(strstr(said, "kigo confirm: building ") && strstr(said, " aside\n"), "%s", said);
        const char *left = strstr(said, "left: ");
        ck_assert_msg(left && left[strlen("left: ")] == '\n', "%s", said);
        free(said);
    }
    kg_copied_tree_close(&c);
}

/* .ci/judge: one baseline run is too little to judge a time by; with a budget it is measured again, and red. A budget
 * that is no time is refused. */
static void judged_with_a_budget(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *options;
        int exit_code;
        const char *says;
    } CALLS[] = {
        { "--strict", KG_EXIT_INCONCLUSIVE, "too little to judge by" },
        { "--budget 1m --strict", KG_EXIT_FAILED, "confirmed" },
        { "--budget soon", KG_EXIT_USAGE, "--budget: 'soon' is no time" },
    };
    struct kg_copied_tree c;
    (void)arg;
    for (size_t i = 0, made = make_history(&c, rec); made && i < KG_COUNT_OF(CALLS); i++) {
        char *said,
            *call =
                kg_xasprintf(IN_TREE "mkdir -p .ci; cp '%s' .ci; ls proof-bundles | grep '^2' | tail -1 >\"$1/list\"\n"
                                     "unset GITHUB_STEP_SUMMARY; export KIGO_PACE_SLOW=1.10 KIGO=./kigo\n"
                                     "exec .ci/judge %s \"$1/list\"",
                             kg_fixture_path("../.ci/judge"), CALLS[i].options);
        const int exit_code = kg_shell(call, (const char *const[]){ c.dir, c.tree, "" }, &said);
        ck_assert_msg(exit_code == CALLS[i].exit_code && strstr(said, CALLS[i].says), "%s: exit code %d: %s",
                      CALLS[i].options, exit_code, said);
        free(said);
        free(call);
    }
    kg_copied_tree_close(&c);
}

#define CASE(function)                                                                                                 \
    {                                                                                                                  \
        .layer = "integration", .op = "confirm", .name = #function, .source_tree = true, .run = function,              \
        .timeout_s = 120                                                                                               \
    }

static const struct kg_case CASES[] = {
    CASE(as_in_the_readme),
    CASE(ended_by_a_signal),
    CASE(judged_with_a_budget),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
