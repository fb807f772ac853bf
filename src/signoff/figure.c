/* A figure's values from the records of one run. */
#include "base/size.h"
#include "bundle/export.h"
#include "history/annotation.h"
#include "signoff/judge.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct value {
    bool known;
    bool is_rate; /* of a rate more is faster */
    bool slowed;  /* not known only because the GPU was slowed down while it was timed */
    double value, lo, hi;
};

struct chosen {
    const struct kg_case_records **cases;
    size_t n_cases;
};

static void note(json_t *notes, const struct kg_evidence_run *run, const char *key, const char *why) {
    json_array_append_new(notes, json_sprintf("%s: %s: %s", run->id, key, why));
}

static double metric_of(const struct kg_case_records *c, const char *name) {
    const json_t *metric, *metrics = json_object_get(c->result, "metrics");
    size_t i;
    json_array_foreach(metrics, i, metric) {
        const char *its = kg_json_text(metric, "name");
        if (its && strcmp(its, name) == 0) return kg_json_number(metric, "value", NAN);
    }
    return NAN;
}

/* Every metric named is within its range. */
static bool within(const struct kg_case_records *c, const json_t *where) {
    const char *name;
    json_t *range;
    if (!where) return true;
    json_object_foreach((json_t *)(uintptr_t)where, name, range) {
        const double value = metric_of(c, name);
        if (!(value >= json_number_value(json_array_get(range, 0)) &&
              value <= json_number_value(json_array_get(range, 1))))
            return false;
    }
    return true;
}

/* Leaves only the case of the least or most of a metric. */
static void apply_preference(struct chosen *chosen, const json_t *prefer) {
    const char *least = kg_json_text(prefer, "least"), *most = kg_json_text(prefer, "most");
    const char *name = least ? least : most;
    if (!name || chosen->n_cases == 0) return;
    size_t best = 0;
    for (size_t i = 1; i < chosen->n_cases; i++) {
        const double a = metric_of(chosen->cases[i], name), b = metric_of(chosen->cases[best], name);
        if (isnan(b) || (least ? a < b : a > b)) best = i;
    }
    chosen->cases[0] = chosen->cases[best];
    chosen->n_cases = 1;
}

/* malloc'ed list. */
static struct chosen choose(const json_t *selector, const struct kg_evidence_run *run) {
    struct chosen chosen = { kg_xcalloc(run->records.n_cases, sizeof *chosen.cases), 0 };
    for (size_t i = 0; i < run->records.n_cases; i++) {
        const struct kg_case_records *c = &run->records.cases[i];
        if (kg_patterns_match(json_object_get(selector, "match"), c->key) &&
            within(c, json_object_get(selector, "where")))
            chosen.cases[chosen.n_cases++] = c;
    }
    apply_preference(&chosen, json_object_get(selector, "prefer"));
    return chosen;
}

/* The item of a list whose full name matches; a timing's is <name>.<kind>.<state>, a memory's its tag. Of several that
 * with the largest `field`; where that is NULL, the first. */
static const json_t *find_item(const struct kg_case_records *c, const char *list, const char *pattern,
                               const char *field) {
    const json_t *item, *worst = NULL, *items = json_object_get(c->result, list);
    size_t i;
    json_array_foreach(items, i, item) {
        const char *name = kg_json_text(item, strcmp(list, "memory") == 0 ? "tag" : "name");
        const char *kind = kg_json_text(item, "kind"), *state = kg_json_text(item, "state");
        char *full =
            kind && state ? kg_xasprintf("%s.%s.%s", name ? name : "", kind, state) : kg_xstrdup(name ? name : "");
        const bool found = kg_case_matches(pattern, full);
        free(full);
        if (!found) continue;
        if (!field) return item;
        /* what is not finite is written as null, and is worse than any number */
        const double value = kg_json_number(item, field, INFINITY);
        if (!worst || value > kg_json_number(worst, field, INFINITY)) worst = item;
    }
    return worst;
}

static struct value value_of(double x) {
    return (struct value){ .known = isfinite(x), .value = x, .lo = x, .hi = x };
}

static struct value timing_value(const json_t *timing) {
    struct value v = value_of(kg_json_number(timing, "median", NAN));
    v.slowed = v.known && !json_is_true(json_object_get(timing, "valid"));
    v.known = v.known && !v.slowed;
    v.lo = kg_json_number(timing, "ci_lo", v.value);
    v.hi = kg_json_number(timing, "ci_hi", v.value);
    return v;
}

/* What the selector reads of a case; `field` of an error record. *why says why it is not known. */
static struct value read_value(const json_t *selector, const char *field, const struct kg_case_records *c,
                               const char **why) {
    static const char *const LISTS[][2] = {
        { "timing", "timings" }, { "metric", "metrics" }, { "memory", "memory" }, { "error", "errors" }
    };
    const char *status = kg_case_status(c);
    struct value v = { 0 };
    *why = status;
    if (strcmp(status, "pass") != 0) return v;
    size_t l = 0;
    while (l + 1 < KG_COUNT_OF(LISTS) && !json_object_get(selector, LISTS[l][0])) l++;
    const bool is_error = l == 3;
    const json_t *item = find_item(c, LISTS[l][1], kg_json_text(selector, LISTS[l][0]), is_error ? field : NULL);
    *why = "its record has no such figure";
    if (!item) return v;
    if (l == 0) v = timing_value(item);
    else v = value_of(kg_json_number(item, l == 1 ? "value" : l == 2 ? "peak_bytes" : field, NAN));
    const char *unit = kg_json_text(item, "unit");
    v.is_rate = unit && strstr(unit, "/s");
    *why = v.slowed ? "timed on a GPU that was slowed down" : "not a finite number";
    return v;
}

/* What a unit's figure is in that of the records (ns, bytes, shares). */
static void scale(const char *unit, struct value *v) {
    static const struct {
        const char *unit;
        double of;
    } UNITS[] = { { "us", 1e-3 },
                  { "ms", 1e-6 },
                  { "s", 1e-9 },
                  { "%", 100 },
                  { "MiB", 1.0 / (1 << 20) },
                  { "GiB", 1.0 / (1 << 30) } };
    if (unit && strcmp(unit, "/s") == 0) {
        *v = (struct value){ v->known && v->value > 0, true, false, 1e9 / v->value, 1e9 / v->hi, 1e9 / v->lo };
        return;
    }
    for (size_t i = 0; unit && i < KG_COUNT_OF(UNITS); i++) {
        if (strcmp(UNITS[i].unit, unit) != 0) continue;
        v->value *= UNITS[i].of;
        v->lo *= UNITS[i].of;
        v->hi *= UNITS[i].of;
    }
}

/* a / b with the far ends of both. */
static struct value divide(const struct value *a, const struct value *b) {
    return (struct value){ a->known && b->known && b->value > 0 && b->lo > 0,
                           false,
                           false,
                           a->value / b->value,
                           a->lo / b->hi,
                           a->hi / b->lo };
}

static struct value combine(enum kg_goal_kind kind, const struct value *of, const struct value *over) {
    struct value v;
    switch (kind) {
    case KG_GOAL_SPEEDUP: return of->is_rate ? divide(of, over) : divide(over, of);
    case KG_GOAL_REDUCTION:
        v = divide(of, over);
        return (struct value){ v.known, false, false, 1 - v.value, 1 - v.hi, 1 - v.lo };
    case KG_GOAL_RATIO: return divide(of, over);
    default: return *of;
    }
}

static const char *text_or(const json_t *object, const char *name, const json_t *first) {
    const char *text = kg_json_text(first, name);
    if (!text) text = kg_json_text(object, name);
    return text ? text : "";
}

/* The case of the run with the same key but for the members that `same_but` names. */
static const struct kg_case_records *find_partner(const struct kg_evidence_run *run, const struct kg_case_records *of,
                                                  const json_t *same_but) {
    static const char *const PARTS[] = { "layer", "op", "name", "backend", "dtype", "shape" };
    for (size_t i = 0; i < run->records.n_cases; i++) {
        const struct kg_case_records *c = &run->records.cases[i];
        bool same = true;
        for (size_t p = 0; p < KG_COUNT_OF(PARTS) && same; p++)
            same = strcmp(text_or(c->plan, PARTS[p], NULL), text_or(of->plan, PARTS[p], same_but)) == 0;
        if (same) return c;
    }
    return NULL;
}

struct judging {
    const json_t *figure;
    const struct kg_evidence_run *run;
    struct kg_figure_goal goal;
    json_t *records, *notes;
    size_t n_slowed; /* cases without the figure for that reason alone */
};

/* The base of a case: its partner, or the only case that the base selects. */
static const struct kg_case_records *find_base(const struct judging *j, const struct kg_case_records *of) {
    const json_t *over = json_object_get(j->figure, "over"), *same_but = json_object_get(over, "same_but");
    if (same_but) {
        const struct kg_case_records *partner = find_partner(j->run, of, same_but);
        if (!partner) note(j->notes, j->run, of->key, "there is no case to hold it against");
        return partner;
    }
    struct chosen bases = choose(over, j->run);
    const struct kg_case_records *base = bases.n_cases == 1 ? bases.cases[0] : NULL;
    if (!base)
        note(j->notes, j->run, of->key,
             bases.n_cases ? "several cases to hold it against" : "no case to hold it against");
    free(bases.cases);
    return base;
}

/* Notes why a case has no figure. */
static bool cannot(struct judging *j, const char *key, const char *why, const struct value *v) {
    note(j->notes, j->run, key, why);
    j->n_slowed += v->slowed;
    return false;
}

/* The figure of one case; false, with a note, if it cannot be had. */
static bool judge_one(struct judging *j, const struct kg_case_records *of, struct value *v,
                      const struct kg_case_records **base) {
    const json_t *over = json_object_get(j->figure, "over");
    const char *why;
    struct value base_value = { 0 };
    *base = NULL;
    struct value value = read_value(json_object_get(j->figure, "of"), j->goal.name, of, &why);
    if (!value.known) return cannot(j, of->key, why, &value);
    if (over) {
        *base = find_base(j, of);
        if (!*base) return false;
        base_value = read_value(over, j->goal.name, *base, &why);
        if (!base_value.known) return cannot(j, (*base)->key, why, &base_value);
    }
    *v = combine(j->goal.kind, &value, &base_value);
    scale(kg_json_text(j->figure, "unit"), v);
    if (!v->known) note(j->notes, j->run, of->key, "the figure is not a finite number");
    return v->known;
}

static json_t *new_record(const struct judging *j, const char *key, const char *base, const struct value *v) {
    return json_pack("{s:s, s:s, s:s?, s:f, s:f, s:f}", "run", j->run->id, "record", key, "over", base, "value",
                     v->value, "lo", v->lo, "hi", v->hi);
}

/* The sums of logarithms behind a geometric mean, and the case of the least figure, by whose record it is shown. */
struct mean {
    struct value sum, least;
    const char *least_key, *least_base;
    size_t n;
};

static void add_to_mean(struct mean *mean, const struct value *v, const char *key, const char *base) {
    mean->sum.value += log(v->value);
    mean->sum.lo += log(v->lo);
    mean->sum.hi += log(v->hi);
    if (mean->n++ > 0 && v->value >= mean->least.value) return;
    mean->least = *v;
    mean->least_key = key;
    mean->least_base = base;
}

/* True if the record was put: the mean is a finite number. */
static bool put_mean(const struct judging *j, const struct mean *mean, size_t n_cases) {
    const double n = (double)mean->n;
    const struct value v = {
        .known = true, .value = exp(mean->sum.value / n), .lo = exp(mean->sum.lo / n), .hi = exp(mean->sum.hi / n)
    };
    if (!isfinite(v.value)) return note(j->notes, j->run, mean->least_key, "the mean is not a finite number"), false;
    json_t *record = new_record(j, mean->least_key, mean->least_base, &v);
    json_object_set_new(record, "mean_of", json_integer((json_int_t)mean->n));
    json_object_set_new(record, "cases", json_integer((json_int_t)n_cases));
    json_array_append_new(j->records, record);
    return true;
}

bool kg_figure_judge(const json_t *figure, const struct kg_evidence_run *run, json_t *records, json_t *notes) {
    struct judging j = { .figure = figure, .run = run, .records = records, .notes = notes };
    const char *take = kg_json_text(figure, "take");
    const bool is_mean = take && strcmp(take, "geometric_mean") == 0;
    if (!kg_figure_parse(kg_json_text(figure, "figure"), &j.goal)) return false;
    struct chosen chosen = choose(json_object_get(figure, "of"), run);
    struct mean mean = { .least_key = "" };
    for (size_t i = 0; i < chosen.n_cases; i++) {
        const struct kg_case_records *base;
        struct value v;
        if (!judge_one(&j, chosen.cases[i], &v, &base)) continue;
        const char *key = chosen.cases[i]->key, *base_key = base ? base->key : NULL;
        if (is_mean) add_to_mean(&mean, &v, key, base_key);
        else json_array_append_new(records, new_record(&j, key, base_key, &v));
    }
    /* without at_least the mean is of all: only what was slowed down may be left out, never what failed or has no
     * partner */
    const size_t at_least = (size_t)kg_json_int(figure, "at_least", (int64_t)chosen.n_cases);
    bool complete = json_array_size(notes) == (is_mean ? j.n_slowed : 0) && (!is_mean || mean.n >= at_least);
    if (mean.n > 0) complete = put_mean(&j, &mean, chosen.n_cases) && complete;
    free(chosen.cases);
    return complete && json_array_size(records) > 0;
}
