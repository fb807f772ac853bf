/* The report as a table for programs. */
#include "base/escape.h"
#include "base/size.h"
#include "report/report.h"
#include "report/sections.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUNDLE,
    MANIFEST,
    CASE,
    LAYER,
    STATUS,
    SECONDS,
    REASON,
    FIGURE,
    KIND,
    UNIT,
    VALUE,
    LIMIT,
    MARGIN,
    CI_LO,
    CI_HI,
    N,
    BASELINE,
    CHANGE,
    JUDGED,
    N_COLUMNS,
};
static const char *const HEADS[N_COLUMNS] = { "bundle_id", "manifest_sha256", "case",   "layer", "status",
                                              "seconds",   "reason",          "figure", "kind",  "unit",
                                              "value",     "limit",           "margin", "ci_lo", "ci_hi",
                                              "n",         "baseline",        "change", "judged" };

/* A line under way. */
struct line {
    const char *texts[N_COLUMNS]; /* NULL: the number, or nothing if that is NaN */
    double numbers[N_COLUMNS];
};

static void put(struct kg_buffer *out, const struct line *line) {
    for (int i = 0; i < N_COLUMNS; i++) {
        const char *end = i + 1 < N_COLUMNS ? "," : "\r\n";
        char number[40] = "";
        if (isfinite(line->numbers[i])) snprintf(number, sizeof number, "%.15g", line->numbers[i]);
        const char *text = line->texts[i] ? line->texts[i] : number;
        kg_csv_put(out, text, strlen(text), end);
    }
}

static void blank(struct line *line, int from) {
    for (int i = from; i < N_COLUMNS; i++) {
        line->texts[i] = NULL;
        line->numbers[i] = NAN;
    }
}

/* What regress says of the case ("") or of one of its figures. */
static void judge(struct line *line, const struct kg_regression *r, const char *key, const char *figure) {
    for (size_t i = 0; r && i < r->n_judgements; i++) {
        const struct kg_judgement *j = &r->judgements[i];
        if (strcmp(j->key, key) != 0 || strcmp(j->figure, figure) != 0) continue;
        line->texts[JUDGED] = j->waived ? "waived" : KG_JUDGED_NAMES[j->judged];
        if (*j->before_text) line->texts[BASELINE] = j->before_text;
        line->numbers[BASELINE] = j->before;
        line->numbers[CHANGE] = j->change;
        return;
    }
}

struct lines {
    struct kg_buffer *out;
    const struct kg_report *report;
    struct line line;
};

static void put_figure(struct lines *lines, const char *key, const char *figure, const char *kind, const char *unit) {
    lines->line.texts[FIGURE] = figure;
    lines->line.texts[KIND] = kind;
    lines->line.texts[UNIT] = unit;
    judge(&lines->line, lines->report->regression, key, figure);
    put(lines->out, &lines->line);
    blank(&lines->line, FIGURE);
}

static void put_errors(struct lines *lines, const struct kg_case_records *c) {
    size_t i;
    json_t *error, *limit;
    json_array_foreach(json_object_get(c->result, "errors"), i, error) {
        const char *rule;
        json_object_foreach(json_object_get(error, "tolerance"), rule, limit) {
            char *figure = kg_xasprintf("%s.%s", kg_report_text(error, "name"), rule);
            lines->line.numbers[VALUE] = kg_json_number(error, rule, NAN);
            lines->line.numbers[LIMIT] = json_number_value(limit);
            lines->line.numbers[MARGIN] = kg_json_number(error, "margin", NAN);
            lines->line.numbers[N] = kg_json_number(error, "n", NAN);
            put_figure(lines, c->key, figure, "error", "");
            free(figure);
        }
    }
}

static void put_timings(struct lines *lines, const struct kg_case_records *c) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(c->result, "timings"), i, t) {
        if (json_is_false(json_object_get(t, "valid"))) continue;
        char *figure =
            kg_xasprintf("%s.%s.%s", kg_report_text(t, "name"), kg_report_text(t, "kind"), kg_report_text(t, "state"));
        lines->line.numbers[VALUE] = kg_json_number(t, "median", NAN);
        lines->line.numbers[CI_LO] = kg_json_number(t, "ci_lo", NAN);
        lines->line.numbers[CI_HI] = kg_json_number(t, "ci_hi", NAN);
        lines->line.numbers[N] = kg_json_number(t, "n", NAN);
        put_figure(lines, c->key, figure, "timing", "ns");
        free(figure);
    }
}

static void put_others(struct lines *lines, const struct kg_case_records *c) {
    static const char *const ENDS[] = { "peak", "left" }, *const MEMBERS[] = { "peak_bytes", "left_bytes" };
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(c->result, "metrics"), i, item) {
        lines->line.numbers[VALUE] = kg_json_number(item, "value", NAN);
        put_figure(lines, c->key, kg_report_text(item, "name"), "metric", kg_report_text(item, "unit"));
    }
    json_array_foreach(json_object_get(c->result, "memory"), i, item) {
        for (size_t k = 0; k < KG_COUNT_OF(ENDS); k++) {
            char *figure = kg_xasprintf("%s.%s", kg_report_text(item, "tag"), ENDS[k]);
            lines->line.numbers[VALUE] = kg_json_number(item, MEMBERS[k], NAN);
            put_figure(lines, c->key, figure, "memory", "bytes");
            free(figure);
        }
    }
}

void kg_report_csv(const struct kg_report *report, struct kg_buffer *out) {
    struct lines lines = { .out = out, .report = report };
    for (int i = 0; i < N_COLUMNS; i++) kg_buffer_printf(out, "%s%s", HEADS[i], i + 1 < N_COLUMNS ? "," : "\r\n");
    blank(&lines.line, 0);
    lines.line.texts[BUNDLE] = kg_report_text(report->run->summary, "bundle_id");
    lines.line.texts[MANIFEST] = report->manifest_sha256;
    for (size_t i = 0; i < report->run->records->n_cases; i++) {
        const struct kg_case_records *c = &report->run->records->cases[i];
        lines.line.texts[CASE] = c->key;
        lines.line.texts[LAYER] = kg_report_text(c->plan, "layer");
        lines.line.texts[STATUS] = kg_case_status(c);
        lines.line.numbers[SECONDS] = kg_case_seconds(c);
        lines.line.texts[REASON] = kg_case_reason(c);
        put_figure(&lines, c->key, "", "case", "");
        put_errors(&lines, c);
        put_timings(&lines, c);
        put_others(&lines, c);
    }
}
