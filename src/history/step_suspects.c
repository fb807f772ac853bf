#include "history/step_suspects.h"
#include "base/buffer.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kg_merge {
    const struct kg_run_head *last_before, *first_after;
    char newest[KG_COMMIT_SIZE]; /* the newest merge between the two; "" without one */
    struct kg_commits between;   /* all commits that came with the step, if there is a merge */
};

static enum kg_status ask(const struct kg_step_runs *runs, struct kg_merge *merge, struct kg_error *err) {
    const char *before = merge->last_before->commit, *after = merge->first_after->commit;
    struct kg_commits merges = { NULL, 0 };
    if (!runs->repository || !before || !after || strcmp(before, after) == 0) return KG_OK;
    char *range = kg_xasprintf("%s..%s", before, after);
    enum kg_status status = kg_commits_merges(runs->repository, range, &merges, err);
    if (status == KG_OK && merges.n_items > 0) status = kg_commits_list(runs->repository, range, &merge->between, err);
    for (size_t i = 0; i < merges.n_items; i++)
        if (merges.items[i].place == 0) snprintf(merge->newest, sizeof merge->newest, "%s", merges.items[i].id);
    kg_commits_free(&merges);
    free(range);
    return status;
}

static enum kg_status merge_of(const struct kg_step_runs *runs, struct kg_merges *merges,
                               const struct kg_found_step *step, const struct kg_merge **merge, struct kg_error *err) {
    for (size_t i = 0; i < merges->n; i++) {
        *merge = &merges->items[i];
        if ((*merge)->last_before == step->last_before && (*merge)->first_after == step->first_after) return KG_OK;
    }
    merges->items = kg_xrealloc(merges->items, (merges->n + 1) * sizeof *merges->items);
    struct kg_merge *one = &merges->items[merges->n++];
    *one = (struct kg_merge){ .last_before = step->last_before, .first_after = step->first_after };
    *merge = one;
    return ask(runs, one, err);
}

struct side_run {
    const struct kg_commit *commit;
    double value;
};

static int oldest_first(const void *a, const void *b) {
    const struct side_run *x = a, *y = b;
    return (x->commit->place < y->commit->place) - (x->commit->place > y->commit->place);
}

enum kg_status kg_step_suspects_find(const struct kg_step_runs *runs, struct kg_merges *merges, const double *by_run,
                                     struct kg_found_step *step, struct kg_error *err) {
    const struct kg_merge *merge;
    const enum kg_status status = merge_of(runs, merges, step, &merge, err);
    if (status != KG_OK || !*merge->newest) return status;
    const int worse = step->figure->kind.worse;
    struct side_run *sides = kg_xcalloc(runs->side.n_items, sizeof *sides);
    double *values = kg_xcalloc(runs->side.n_items, sizeof *values);
    size_t n = 0;
    memcpy(step->merge, merge->newest, sizeof step->merge);
    for (size_t i = 0; i < runs->side.n_items; i++) {
        const struct side_run side = { kg_commits_find(&merge->between, runs->side.items[i].commit),
                                       by_run[runs->line.n_items + i] };
        if (side.commit && !isnan(side.value)) sides[n++] = side;
    }
    if (n > 1) qsort(sides, n, sizeof *sides, oldest_first);
    step->suspects = kg_xcalloc(n, sizeof *step->suspects);
    for (size_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && sides[end].commit == sides[begin].commit; end++)
            values[end - begin] = sides[end].value;
        struct kg_step_suspect *suspect = &step->suspects[step->n_suspects++];
        suspect->n_runs = end - begin;
        suspect->change = exp(worse * kg_median(values, end - begin)) / step->before - 1;
        memcpy(suspect->commit, sides[begin].commit->id, sizeof suspect->commit);
    }
    free(values);
    free(sides);
    return KG_OK;
}

void kg_merges_free(struct kg_merges *merges) {
    for (size_t i = 0; i < merges->n; i++) kg_commits_free(&merges->items[i].between);
    free(merges->items);
    *merges = (struct kg_merges){ NULL, 0 };
}
