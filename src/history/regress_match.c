/* What the baseline runs have of each case of the judged run: looked up once, and asked for every figure. */
#include "history/regress_parts.h"
#include "base/buffer.h"
#include <string.h>

/* Results of both are sorted by what they are matched by. */
static void match_run(const struct kg_comparison *comparison, size_t baseline) {
    const struct kg_run *run = &comparison->run, *before = &comparison->baseline[baseline];
    size_t at = 0;
    for (size_t i = 0; i < run->n_results && at < before->n_results; i++) {
        const struct kg_run_result *r = &run->results[i];
        while (at < before->n_results && before->results[at].c->same < r->c->same) at++;
        if (at == before->n_results || before->results[at].c->same != r->c->same) continue;
        if (!kg_regress_counts(comparison, baseline, r->c->key)) continue;
        const struct kg_run_result *b = &before->results[at];
        struct kg_matched *matched = &comparison->matched[i];
        matched->results[baseline] = b;
        if (strcmp(b->seed, r->seed) == 0) matched->same_seed |= UINT32_C(1) << baseline;
    }
}

/* The first baseline run of the same commit; a run without one stands alone. */
static size_t commit_of(const struct kg_run_head *heads, size_t run) {
    for (size_t i = 0; i < run && heads[run].commit; i++)
        if (heads[i].commit && strcmp(heads[i].commit, heads[run].commit) == 0) return i;
    return run;
}

void kg_regress_match(struct kg_comparison *comparison) {
    comparison->matched = kg_xcalloc(comparison->run.n_results, sizeof *comparison->matched);
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        match_run(comparison, i);
        comparison->commits[i] = (int)commit_of(comparison->out->baseline.items, i);
    }
}

const struct kg_matched *kg_regress_matched(const struct kg_comparison *comparison, const struct kg_run_result *r) {
    return &comparison->matched[r - comparison->run.results];
}
