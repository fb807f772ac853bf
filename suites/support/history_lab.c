#include "suites/support/history_lab.h"
#include "base/buffer.h"
#include "base/file.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/support/asked_history.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *last_id;

/* Runs git in the lab's repository; its output, malloc'ed. */
static char *git(const struct kg_history_lab *lab, const char *input, const char *const *args) {
    const char *argv[12] = { "/usr/bin/git", "-C", lab->repository };
    size_t n = 3;
    for (size_t i = 0; args[i]; i++) argv[n++] = args[i];
    const struct kg_process process = { .argv = argv, .input = input, .input_len = input ? strlen(input) : 0 };
    struct kg_process_result result;
    struct kg_error err;
    kg_must(kg_process_run(&process, &result, &err), &err);
    ck_assert_msg(result.exit_code == 0, "git %s: %s", args[0], result.err);
    char *out = kg_xstrdup(result.out);
    kg_process_result_free(&result);
    return out;
}

static void put_commit(struct kg_buffer *stream, const char *branch, int mark, const char *from) {
    kg_buffer_printf(stream, "commit refs/heads/%s\nmark :%d\ncommitter lab <lab@lab> %d +0000\ndata 4\nwork\n%s\n",
                     branch, mark, 1700000000 + mark, from);
}

void kg_history_lab_open(struct kg_history_lab *lab, const struct kg_record *rec) {
    kg_history_lab_open_in(lab, kg_scratch_dir(rec), KG_LAB_COMMITS);
}

void kg_history_lab_open_in(struct kg_history_lab *lab, const char *dir, size_t n_commits) {
    struct kg_buffer stream = KG_BUFFER_INIT;
    struct kg_error err;
    *lab = (struct kg_history_lab){ .clock_us = INT64_C(1790000000000000) };
    lab->repository = kg_xstrdup(dir);
    lab->root = kg_path_join(lab->repository, "bundles");
    kg_must(kg_dir_make(lab->root, &err), &err);
    free(git(lab, NULL, (const char *const[]){ "init", "-q", NULL }));
    for (size_t i = 0; i < n_commits; i++) put_commit(&stream, "line", (int)i + 1, "");
    put_commit(&stream, "side", (int)n_commits + 1, "from :6\n");
    char *of_late = kg_xasprintf("from :%zu\n", n_commits + 1);
    put_commit(&stream, "late", (int)n_commits + 2, of_late);
    free(of_late);
    char *parents = kg_xasprintf("from :%zu\nmerge :%zu\n", n_commits, n_commits + 2);
    put_commit(&stream, "merge", (int)n_commits + 3, parents);
    free(parents);
    free(git(lab, kg_buffer_text(&stream), (const char *const[]){ "fast-import", "--quiet", NULL }));
    kg_buffer_free(&stream);
    char *line = git(lab, NULL, (const char *const[]){ "rev-list", "--reverse", "line", NULL });
    lab->commits = kg_xcalloc(n_commits, sizeof *lab->commits);
    for (size_t i = 0; i < n_commits; i++) snprintf(lab->commits[i], 41, "%.40s", line + 41 * i);
    free(line);
    char *side = git(lab, NULL, (const char *const[]){ "rev-parse", "side", "late", "merge", NULL });
    snprintf(lab->side, sizeof lab->side, "%.40s", side);
    snprintf(lab->late, sizeof lab->late, "%.40s", side + 41);
    snprintf(lab->merge, sizeof lab->merge, "%.40s", side + 82);
    free(side);
}

void kg_history_lab_close(struct kg_history_lab *lab) {
    free(lab->commits);
    free(lab->root);
    free(lab->repository);
}

char *kg_history_lab_run(struct kg_history_lab *lab, struct kg_made_run run) {
    char *id = NULL;
    struct kg_error err;
    if (run.started_us == 0) run.started_us = lab->clock_us;
    lab->clock_us += INT64_C(3600000000);
    kg_must(kg_made_run_write(lab->root, &run, &id, &err), &err);
    free(last_id);
    last_id = kg_xstrdup(id);
    return id;
}

void kg_history_lab_runs(struct kg_history_lab *lab, size_t first, size_t n, struct kg_made_run like) {
    for (size_t i = first; i < first + n; i++) {
        like.commit = lab->commits[i];
        free(kg_history_lab_run(lab, like));
    }
}

void kg_history_lab_regress(const struct kg_history_lab *lab, const char *run, const char *baseline_run,
                            struct kg_regression *result) {
    kg_history_lab_regress_again(lab, run, baseline_run, NULL, result);
}

void kg_history_lab_regress_again(const struct kg_history_lab *lab, const char *run, const char *baseline_run,
                                  const struct kg_regress_again *again, struct kg_regression *result) {
    const char *const repositories[] = { lab->root, NULL }, *root;
    struct kg_history *history;
    kg_asked_open(lab->root, &history, &root);
    const struct kg_regress_options options = { .root = root,
                                                .run = run ? run : last_id,
                                                .baseline_runs = &baseline_run,
                                                .n_baseline_runs = baseline_run != NULL,
                                                .policy_root = lab->root,
                                                .repositories = repositories,
                                                .least_change = 0.03,
                                                .now_us = lab->clock_us,
                                                .again = again };
    struct kg_error err;
    kg_must(kg_regress(history, &options, result, &err), &err);
    kg_history_close(history);
}
