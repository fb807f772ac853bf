#include "history/step_runs.h"
#include "base/buffer.h"
#include "history/store.h"
#include <stdlib.h>
#include <string.h>

/* A run and the place of its commit in the line. */
struct on_line {
    struct kg_run_head head;
    size_t place;
};

static int oldest_first(const void *a, const void *b) {
    const struct on_line *x = a, *y = b;
    if (x->place != y->place) return x->place > y->place ? -1 : 1;
    if (x->head.started_us != y->head.started_us) return x->head.started_us < y->head.started_us ? -1 : 1;
    return strcmp(x->head.bundle_id, y->head.bundle_id);
}

/* Keeps the last n_most. */
static void keep_newest(struct kg_run_heads *heads, size_t n_most) {
    if (heads->n_items <= n_most) return;
    const size_t n_old = heads->n_items - n_most;
    for (size_t i = 0; i < n_old; i++) kg_run_head_free(&heads->items[i]);
    memmove(heads->items, heads->items + n_old, n_most * sizeof *heads->items);
    heads->n_items = n_most;
}

/* Takes the heads, which come by time, apart. */
static void divide(struct kg_run_heads *heads, const struct kg_commits *line, struct kg_step_runs *out) {
    struct on_line *sorted = kg_xcalloc(heads->n_items, sizeof *sorted);
    size_t n = 0;
    out->side.items = kg_xcalloc(heads->n_items, sizeof *out->side.items);
    for (size_t i = 0; i < heads->n_items; i++) {
        const struct kg_commit *commit = kg_commits_find(line, heads->items[i].commit);
        if (commit) sorted[n++] = (struct on_line){ heads->items[i], commit->place };
        else out->side.items[out->side.n_items++] = heads->items[i];
    }
    if (n > 1) qsort(sorted, n, sizeof *sorted, oldest_first);
    for (size_t i = 0; i < n; i++) heads->items[i] = sorted[i].head;
    heads->n_items = n;
    out->line = *heads;
    free(sorted);
}

static enum kg_status find_line(const char *commit, const char *const *repositories, struct kg_commits *line,
                                struct kg_step_runs *out, struct kg_error *err) {
    const char *dir = NULL;
    if (!commit) return kg_fail(err, KG_ERR_NOT_FOUND, "the run does not know its commit");
    enum kg_status status = kg_find_repository(repositories, commit, &dir, err);
    if (status == KG_OK) status = kg_commits_mainline(dir, commit, line, err);
    if (status == KG_OK) out->repository = kg_xstrdup(dir);
    return status;
}

enum kg_status kg_step_runs_choose(struct kg_history *history, const char *run, const char *const *repositories,
                                   size_t n_most, struct kg_step_runs *out, struct kg_error *err) {
#define UP_TO_IT                                                                                                       \
    "CROSS JOIN (SELECT comparison_key AS own_key, started_us AS own_us FROM bundle WHERE bundle_id = ?1) AS own "     \
    "WHERE"                                                                                                            \
    " comparison_key = own_key AND state = 'complete' AND started_us <= own_us AND"                                    \
    " (coalesce(git_dirty, 0) = 0 OR bundle_id = ?1) ORDER BY started_us, bundle_id = ?1, bundle_id"
    static const struct kg_sql WHERE = { UP_TO_IT, UP_TO_IT " COLLATE \"C\"" };
    struct kg_run_heads heads;
    struct kg_commits line = { NULL, 0 };
    struct kg_error why;
    const char *const args[] = { run };
    *out = (struct kg_step_runs){ 0 };
    const enum kg_status status = kg_run_heads_ask(history, &WHERE, args, 1, &heads, err);
    if (status != KG_OK) return status;
    if (heads.n_items == 0 || strcmp(heads.items[heads.n_items - 1].bundle_id, run) != 0) {
        kg_run_heads_free(&heads);
        return kg_fail(err, KG_ERR_NOT_FOUND, "the index holds no complete run '%s'", run);
    }
    if (find_line(heads.items[heads.n_items - 1].commit, repositories, &line, out, &why) == KG_OK) {
        divide(&heads, &line, out);
    } else {
        out->line = heads;
        out->why_by_time = kg_xstrdup(why.message);
    }
    kg_commits_free(&line);
    keep_newest(&out->line, n_most);
    keep_newest(&out->side, n_most);
    return KG_OK;
}

void kg_step_runs_free(struct kg_step_runs *runs) {
    kg_run_heads_free(&runs->line);
    kg_run_heads_free(&runs->side);
    free(runs->repository);
    free(runs->why_by_time);
    *runs = (struct kg_step_runs){ 0 };
}
