#include "signoff/judge.h"
#include "base/buffer.h"
#include "bundle/export.h"
#include "history/annotation.h"
#include <stdlib.h>
#include <string.h>

bool kg_patterns_match(const json_t *patterns, const char *key) {
    if (json_is_string(patterns)) return kg_case_matches(json_string_value(patterns), key);
    for (size_t i = 0; i < json_array_size(patterns); i++)
        if (kg_case_matches(json_string_value(json_array_get(patterns, i)), key)) return true;
    return false;
}

static bool counts(const json_t *story, const struct kg_evidence_run *run) {
    const char *needs = kg_json_text(story, "needs");
    return !needs || strcmp(needs, "gpu") != 0 || run->has_gpu;
}

static const char *state_of(bool missed, bool met) {
    return missed ? "missed" : met ? "met" : "unproven";
}

static json_t *new_criterion(const json_t *story, const json_t *asked, const char *kind, json_t *wanted) {
    return json_pack("{s:O, s:O, s:s, s:O, s:o}", "spec", json_object_get(story, "spec"), "story",
                     json_object_get(story, "title"), "kind", kind, "what", json_object_get(asked, "what"), "wanted",
                     wanted);
}

/* Every case that the criterion speaks of, with its best and worst end over the runs. */
struct case_ends {
    json_t *passed, *red, *seen; /* objects with the keys as members */
    json_t *records;
};

static void look_at(const struct kg_case_records *c, const char *run_id, struct case_ends *ends) {
    const char *status = kg_case_status(c);
    const bool passed = strcmp(status, "pass") == 0;
    const bool red = !passed && strcmp(status, "skip") != 0 && strcmp(status, "norun") != 0;
    json_object_set_new(ends->seen, c->key, json_true());
    if (passed) json_object_set_new(ends->passed, c->key, json_true());
    if (red) json_object_set_new(ends->red, c->key, json_true());
    json_array_append_new(ends->records,
                          json_pack("{s:s, s:s, s:s}", "run", run_id, "record", c->key, "status", status));
}

static json_t *judge_cases(const json_t *story, const json_t *asked, const struct kg_evidence *evidence) {
    const size_t at_least = (size_t)kg_json_int(asked, "at_least", 1);
    const char *spec = kg_json_text(asked, "spec");
    struct case_ends ends = { json_object(), json_object(), json_object(), json_array() };
    for (size_t r = 0; r < evidence->n_runs; r++) {
        const struct kg_evidence_run *run = &evidence->runs[r];
        for (size_t i = 0; counts(story, run) && i < run->records.n_cases; i++) {
            const struct kg_case_records *c = &run->records.cases[i];
            const char *tag = kg_json_text(c->plan, "spec");
            if (!kg_patterns_match(json_object_get(asked, "match"), c->key)) continue;
            if (!spec || (tag && strcmp(tag, spec) == 0)) look_at(c, run->id, &ends);
        }
    }
    const size_t n_seen = json_object_size(ends.seen), n_passed = json_object_size(ends.passed);
    const size_t n_red = json_object_size(ends.red);
    const bool all = n_passed == n_seen && n_passed >= at_least;
    json_t *criterion = new_criterion(
        story, asked, "cases", json_sprintf("at least %zu case%s, all passed", at_least, at_least == 1 ? "" : "s"));
    json_object_set_new(criterion, "state", json_string(state_of(n_red > 0, all)));
    json_object_set_new(criterion, "found",
                        json_sprintf("%zu case%s: %zu passed, %zu failed, %zu neither", n_seen, n_seen == 1 ? "" : "s",
                                     n_passed, n_red, n_seen - n_passed > n_red ? n_seen - n_passed - n_red : 0));
    json_object_set_new(criterion, "records", ends.records);
    json_object_set_new(criterion, "notes", json_array());
    json_decref(ends.seen);
    json_decref(ends.passed);
    json_decref(ends.red);
    return criterion;
}

/* The record that says most against the figure; NULL if there is none. */
static json_t *worst_record(const json_t *records, const struct kg_figure_goal *goal) {
    json_t *record, *worst = NULL;
    size_t i;
    json_array_foreach(records, i, record) {
        const double value = kg_json_number(record, "value", 0), so_far = kg_json_number(worst, "value", 0);
        if (!worst || (goal->sense == KG_AT_LEAST ? value < so_far : value > so_far)) worst = record;
    }
    return worst;
}

/* The line that sums a figure up. */
static json_t *found_text(const json_t *worst, size_t n_records, const char *unit) {
    if (!worst) return json_string("no record");
    const double lo = kg_json_number(worst, "lo", 0), hi = kg_json_number(worst, "hi", 0);
    char *interval = lo == hi ? kg_xstrdup("") : kg_xasprintf(" (%.4g to %.4g)", lo, hi);
    const double mean_of = kg_json_number(worst, "mean_of", 0), cases = kg_json_number(worst, "cases", 0);
    char *left_out = mean_of < cases ? kg_xasprintf(", the mean of %g of %g cases", mean_of, cases) : kg_xstrdup("");
    json_t *text = json_sprintf("%.4g%s%s%s%s%s", kg_json_number(worst, "value", 0), unit ? " " : "", unit ? unit : "",
                                interval, left_out, n_records > 1 ? ", the worst of several" : "");
    free(left_out);
    free(interval);
    return text;
}

enum { REACHED, MISSED, STRADDLES };

/* By the whole interval: a limit inside it is neither reached nor missed. An exact value has no interval. */
static int reach_of(const struct kg_figure_goal *goal, const json_t *record) {
    const double value = kg_json_number(record, "value", 0), lo = kg_json_number(record, "lo", value),
                 hi = kg_json_number(record, "hi", value);
    if (goal->sense == KG_EQUAL || lo == hi) return kg_figure_met(goal, value) ? REACHED : MISSED;
    const bool at_lo = kg_figure_met(goal, lo), at_hi = kg_figure_met(goal, hi);
    return at_lo && at_hi ? REACHED : at_lo || at_hi ? STRADDLES : MISSED;
}

static void add_straddle(const json_t *record, const struct kg_evidence_run *run, json_t *notes) {
    const char *key = kg_json_text(record, "record");
    json_array_append_new(
        notes, json_sprintf("%s: %s: its interval holds the limit: more samples would tell", run->id, key ? key : ""));
}

static json_t *judge_figure(const json_t *story, const json_t *asked, const struct kg_evidence *evidence) {
    struct kg_figure_goal goal;
    const char *figure = kg_json_text(asked, "figure"), *unit = kg_json_text(asked, "unit");
    json_t *all_records = json_array(), *all_notes = json_array();
    bool missed = false, met = false;
    if (!kg_figure_parse(figure, &goal)) return NULL; /* the sprint is valid */
    for (size_t r = 0; r < evidence->n_runs; r++) {
        json_t *records = json_array(), *notes = json_array(), *record;
        size_t i;
        bool holds = counts(story, &evidence->runs[r]) && kg_figure_judge(asked, &evidence->runs[r], records, notes);
        json_array_foreach(records, i, record) {
            const int reached = reach_of(&goal, record);
            json_object_set_new(record, "met", reached == STRADDLES ? json_null() : json_boolean(reached == REACHED));
            missed = missed || reached == MISSED;
            holds = holds && reached == REACHED;
            if (reached == STRADDLES) add_straddle(record, &evidence->runs[r], notes);
        }
        met = met || holds;
        json_array_extend(all_records, records);
        json_array_extend(all_notes, notes);
        json_decref(notes);
        json_decref(records);
    }
    json_t *criterion =
        new_criterion(story, asked, "figure", json_sprintf("%s%s%s", figure, unit ? " " : "", unit ? unit : ""));
    json_object_set_new(criterion, "state", json_string(state_of(missed, met)));
    json_t *worst = worst_record(all_records, &goal);
    json_object_set_new(criterion, "found", found_text(worst, json_array_size(all_records), unit));
    json_object_set(criterion, "record", json_object_get(worst, "record"));
    json_object_set_new(criterion, "records", all_records);
    json_object_set_new(criterion, "notes", all_notes);
    return criterion;
}

static void judge_list(const json_t *story, const char *list, const struct kg_evidence *evidence, json_t *criteria,
                       json_t *(*judge)(const json_t *story, const json_t *asked, const struct kg_evidence *evidence)) {
    const json_t *asked, *all = json_object_get(story, list);
    size_t i;
    json_array_foreach(all, i, asked) json_array_append_new(criteria, judge(story, asked, evidence));
}

json_t *kg_signoff_judge(const struct kg_sprint *sprint, const struct kg_evidence *evidence) {
    static const char *const STATES[] = { "met", "missed", "unproven" };
    json_int_t n[] = { 0, 0, 0 };
    json_t *criteria = json_array();
    const json_t *story, *criterion;
    size_t i;
    json_array_foreach(sprint->stories, i, story) {
        judge_list(story, "cases", evidence, criteria, judge_cases);
        judge_list(story, "figures", evidence, criteria, judge_figure);
    }
    json_array_foreach(criteria, i, criterion) {
        const char *state = kg_json_text(criterion, "state");
        for (size_t s = 0; s < 3; s++) n[s] += strcmp(STATES[s], state) == 0;
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "sprint", sprint->name, "title", sprint->title,
                     "sprint_sha256", sprint->sha256, "verdict", state_of(n[1] > 0, n[2] == 0), "n_met", n[0],
                     "n_missed", n[1], "n_unproven", n[2], "criteria", criteria);
}
