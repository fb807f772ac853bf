/* Which runs a run is judged against. */
#include "history/ancestry.h"
#include "history/comparison_key.h"
#include "history/regress_parts.h"
#include "history/shelf.h"
#include "history/store.h"
#include "base/buffer.h"
#include "bundle/standing.h"
#include <stdlib.h>
#include <string.h>

static enum kg_status load_run(struct kg_history *history, const char *bundle_id, struct kg_run_head *head,
                               struct kg_error *err) {
    struct kg_run_heads found;
    const char *const args[] = { bundle_id };
    const enum kg_status status = kg_run_heads_load(history, "WHERE bundle_id = ?1", args, 1, &found, err);
    if (status != KG_OK) return status;
    if (found.n_items == 0) return kg_fail(err, KG_ERR_NOT_FOUND, "the index holds no run '%s'", bundle_id);
    *head = found.items[0];
    free(found.items);
    return KG_OK;
}

/* An annotation that takes a whole run out of the baseline of the judged run. */
static bool taken_out(const struct kg_comparison *comparison, const struct kg_run_head *head) {
    for (size_t i = 0; i < comparison->annotations.n_items; i++) {
        const struct kg_annotation *a = &comparison->annotations.items[i];
        if (a->case_key || !a->bundle_id) continue;
        if (strcmp(a->kind, "exclude") == 0 && strcmp(a->bundle_id, head->bundle_id) == 0) return true;
        if (strcmp(a->kind, "break") == 0 && strcmp(head->bundle_id, a->bundle_id) < 0 &&
            strcmp(comparison->out->run.bundle_id, a->bundle_id) >= 0)
            return true;
    }
    return false;
}

struct sieve {
    size_t n_same_key, n_other_commit, n_own_commit, n_taken_out, n_not_counted;
    char why[256]; /* the newest of those that do not count */
};

/* Keeps, of runs that come newest first, the newest 20 that may be a baseline. */
static enum kg_status keep(struct kg_history *history, const struct kg_comparison *comparison,
                           struct kg_standing *standing, const struct kg_commits *commits, const char *commit,
                           struct kg_run_heads *runs, struct sieve *sieve, struct kg_error *err) {
    const struct kg_run_head *run = &comparison->out->run;
    enum kg_status status = KG_OK;
    size_t kept = 0;
    for (size_t i = 0; i < runs->n_items; i++) {
        struct kg_run_head *head = &runs->items[i];
        bool good = false;
        char why[256];
        sieve->n_same_key++;
        if (commit ? !head->commit || strcmp(head->commit, commit) != 0 : !kg_commits_hold(commits, head->commit))
            sieve->n_other_commit++;
        else if (!commit && !run->dirty && strcmp(head->commit, run->commit) == 0) sieve->n_own_commit++;
        else if (taken_out(comparison, head)) sieve->n_taken_out++;
        else if (kept < KG_BASELINE_RUNS && status == KG_OK) {
            const char *const id = head->bundle_id;
            status = kg_shelf_bring(history, &id, 1, err);
            good = status == KG_OK && kg_standing_counts(standing, KG_ROLE_BASELINE, id, why);
            if (status == KG_OK && !good && sieve->n_not_counted++ == 0) memcpy(sieve->why, why, sizeof why);
        }
        if (good) runs->items[kept++] = *head;
        else kg_run_head_free(head);
    }
    runs->n_items = kept;
    return status;
}

/* Runs of the line that the commit continues; of all its ancestors if that line has too few: a branch that was merged
 * is no measure of what it was merged into. */
static const struct kg_commits *line_or_all(const struct kg_run_heads *runs, const struct kg_commits *mainline,
                                            const struct kg_commits *ancestors) {
    size_t n = 0;
    for (size_t i = 0; i < runs->n_items; i++) n += kg_commits_hold(mainline, runs->items[i].commit);
    return n >= KG_SCREEN_FEWEST ? mainline : ancestors;
}

/* Of the newest runs with other keys, what the most similar one differs in; "" if there are none. malloc'ed. */
static char *nearest_difference(struct kg_history *history, const struct kg_regression *out, struct kg_error *err) {
    static const char WHERE[] =
        "WHERE comparison_key <> ?1 AND state = 'complete' AND verdict = 'pass' AND git_dirty = 0"
        " ORDER BY started_us DESC LIMIT 50";
    const char *const args[] = { out->run.comparison_key };
    struct kg_run_heads others;
    char *least = kg_xstrdup("");
    if (kg_run_heads_load(history, WHERE, args, 1, &others, err) != KG_OK) return least;
    for (size_t i = 0; i < others.n_items; i++) {
        char *difference = kg_comparison_difference(out->run.comparison_key, others.items[i].comparison_key);
        if (!*least || strlen(difference) < strlen(least)) {
            char *swap = least;
            least = difference;
            difference = swap;
        }
        free(difference);
    }
    kg_run_heads_free(&others);
    return least;
}

static void say_why_none(struct kg_history *history, struct kg_regression *out, const struct sieve *sieve,
                         const char *whose) {
    struct kg_error err;
    if (out->baseline.n_items > 0) return;
    char *difference = sieve->n_same_key == 0 ? nearest_difference(history, out, &err) : NULL;
    if (sieve->n_same_key == 0)
        kg_regress_reason(out,
                          "no baseline: no other complete, green, clean run here has this run's comparison key "
                          "(machine, build, and what was asked of the run)%s%s",
                          *difference ? "; the most similar one differs in " : "", difference);
    else
        kg_regress_reason(
            out,
            "no baseline: of %zu complete, green, clean runs with this run's comparison key, %zu are of other "
            "commits than %s, %zu of the run's own commit, %zu taken out by annotations, %zu do not count%s%s",
            sieve->n_same_key, sieve->n_other_commit, whose, sieve->n_own_commit, sieve->n_taken_out,
            sieve->n_not_counted, sieve->n_not_counted ? ": " : "", sieve->why);
    free(difference);
}

static enum kg_status choose_by_commit(struct kg_history *history, struct kg_comparison *comparison,
                                       struct kg_error *err) {
#define SAME_KEY                                                                                                       \
    "WHERE comparison_key = ?1 AND bundle_id <> ?2 AND state = 'complete' AND verdict = 'pass' AND git_dirty = 0"      \
    " ORDER BY started_us DESC, bundle_id"
    static const struct kg_sql WHERE = { SAME_KEY " DESC", SAME_KEY " COLLATE \"C\" DESC" };
    struct kg_regression *out = comparison->out;
    const struct kg_regress_options *o = comparison->options;
    const char *const args[] = { out->run.comparison_key, out->run.bundle_id };
    const char *revision = o->baseline_revision ? o->baseline_revision : out->run.commit, *dir = NULL;
    char commit[KG_COMMIT_SIZE];
    struct kg_commits ancestors = { NULL, 0 }, mainline = { NULL, 0 };
    struct kg_error why;
    if (!revision) {
        kg_regress_reason(out, "the run does not know its commit, so that it has no ancestors; name a baseline");
        return KG_OK;
    }
    enum kg_status status = kg_find_repository(o->repositories, revision, &dir, &why);
    if (status == KG_OK) status = kg_resolve_commit(dir, revision, commit, &why);
    if (status == KG_OK && !o->baseline_revision) status = kg_commits_list(dir, commit, &ancestors, &why);
    if (status == KG_OK && !o->baseline_revision) status = kg_commits_mainline(dir, commit, &mainline, &why);
    if (status != KG_OK && o->baseline_revision) return kg_fail(err, status, "%s", why.message);
    if (status != KG_OK) {
        kg_regress_reason(out, "the ancestors of the run's commit are not known: %s", why.message);
        return KG_OK;
    }
    status = kg_run_heads_ask(history, &WHERE, args, 2, &out->baseline, err);
    struct kg_standing *standing = NULL;
    if (status == KG_OK)
        status = kg_standing_open_by(o->root, o->policy_root ? o->policy_root : o->root, o->now_us, &standing, err);
    if (status == KG_OK) {
        struct sieve sieve = { 0 };
        status = keep(history, comparison, standing, line_or_all(&out->baseline, &mainline, &ancestors),
                      o->baseline_revision ? commit : NULL, &out->baseline, &sieve, err);
        if (status == KG_OK)
            say_why_none(history, out, &sieve, o->baseline_revision ? revision : "the commit's ancestors");
        out->n_not_counted = sieve.n_not_counted;
        memcpy(out->why_not_counted, sieve.why, sizeof sieve.why);
    }
    kg_standing_close(standing);
    kg_commits_free(&mainline);
    kg_commits_free(&ancestors);
    return status;
}

enum kg_status kg_regress_choose(struct kg_history *history, struct kg_comparison *comparison, struct kg_error *err) {
    const struct kg_regress_options *o = comparison->options;
    struct kg_regression *out = comparison->out;
    enum kg_status status = load_run(history, o->run, &out->run, err);
    if (status != KG_OK) return status;
    if (o->n_baseline_runs > KG_BASELINE_RUNS)
        return kg_fail(err, KG_ERR_RANGE, "%zu baseline runs, more than %d", o->n_baseline_runs, KG_BASELINE_RUNS);
    if (o->n_baseline_runs == 0) status = choose_by_commit(history, comparison, err);
    else out->baseline.items = kg_xcalloc(o->n_baseline_runs, sizeof *out->baseline.items);
    for (size_t i = 0; i < o->n_baseline_runs && status == KG_OK; i++) {
        status = load_run(history, o->baseline_runs[i], &out->baseline.items[i], err);
        out->baseline.n_items += status == KG_OK;
    }
    if (status != KG_OK) return status;
    out->other_key = out->baseline.n_items > 0
                         ? kg_comparison_difference(out->run.comparison_key, out->baseline.items[0].comparison_key)
                         : kg_xstrdup("");
    if (*out->other_key)
        kg_regress_reason(out, "the runs differ in %s: times and rates are not judged", out->other_key);
    return KG_OK;
}
