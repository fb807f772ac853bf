/* A limit, and how many values it holds for, are part of what a case says. */
#include "history/regress_parts.h"
#include <math.h>
#include <string.h>

static bool has_limit(const struct kg_run_figure *f) {
    return f && !isnan(f->limit) && strcmp(f->info->unit, "ratio") != 0;
}

/* The lowest limit and the most values of any baseline run. */
struct tightest {
    double limit; /* INFINITY: none */
    int64_t n;
};

static struct tightest look_back(const struct kg_comparison *comparison, const struct kg_run_result *r,
                                 const struct kg_run_figure *own) {
    const struct kg_matched *matched = kg_regress_matched(comparison, r);
    struct tightest t = { INFINITY, 0 };
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        const struct kg_run_result *b = matched->results[i];
        const struct kg_run_figure *f = b ? kg_run_figure(&comparison->baseline[i], b, own) : NULL;
        if (!f) continue;
        if (has_limit(f)) t.limit = fmin(t.limit, f->limit);
        if (f->n > t.n) t.n = f->n;
    }
    return t;
}

static void add(struct kg_comparison *comparison, const struct kg_run_result *r, const struct kg_figure_info *info,
                double before, double after, const char *what) {
    struct kg_judgement *j = kg_regress_add(comparison, KG_JUDGED_LOOSER, "tolerance", r->c->key, info, "%s", what);
    j->before = before;
    j->after = after;
    j->change = isfinite(after) && before > 0 ? after / before - 1 : NAN;
}

void kg_regress_limits(struct kg_comparison *comparison, const struct kg_run_result *r) {
    const struct kg_run *run = &comparison->run;
    for (size_t k = 0; k < r->n_figures; k++) {
        const struct kg_run_figure *f = &run->figures[r->first_figure + k];
        const bool is_limit = f->info->kind.class == KG_FIGURE_LIMIT;
        if (!is_limit && strcmp(f->info->kind.subject, "error") != 0) continue;
        const struct tightest t = look_back(comparison, r, f);
        if (isfinite(t.limit) && !(f->limit <= t.limit))
            add(comparison, r, f->info, t.limit, f->limit,
                isnan(f->limit) ? "the limit is gone" : "a looser limit is no smaller error");
        /* Once a comparison: max_abs is in all of them. */
        const size_t len = strlen(f->info->name);
        if (f->n < t.n && len > 8 && strcmp(f->info->name + len - 8, ".max_abs") == 0)
            add(comparison, r, f->info, (double)t.n, (double)f->n, "fewer values are compared");
    }
}

bool kg_regress_same_limits(const struct kg_run *a, const struct kg_run_result *x, const struct kg_run *b,
                            const struct kg_run_result *y) {
    for (size_t k = 0; k < x->n_figures; k++) {
        const struct kg_run_figure *f = &a->figures[x->first_figure + k];
        if (!has_limit(f)) continue;
        const struct kg_run_figure *g = kg_run_figure(b, y, f);
        if (!has_limit(g) || g->limit != f->limit || g->n != f->n) return false;
    }
    return true;
}
