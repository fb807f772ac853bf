/* report.md: the run for a reader, every figure from the records. */
#include "bundle/export.h"
#include "base/clock.h"
#include "base/markdown.h"
#include "base/size.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_fact(struct kg_buffer *out, const char *name, const char *value) {
    if (value && *value) kg_markdown_row(out, (const char *const[]){ name, value }, 2);
}

bool kg_sample_text(const json_t *run, char text[KG_SAMPLE_TEXT_SIZE]) {
    const int64_t one_in = kg_json_int(run, "sample", 0);
    snprintf(text, KG_SAMPLE_TEXT_SIZE, "one case in %lld, chosen by its key: the verdict is of these alone",
             (long long)one_in);
    return one_in > 1;
}

static const char *text_of(const json_t *object, const char *name) {
    const char *text = kg_json_text(object, name);
    return text ? text : "";
}

void kg_export_result(const struct kg_export *from, struct kg_buffer *out) {
    static const struct {
        const char *count, *word;
        bool always;
    } ROWS[] = { { "n_fail", "failed", true },
                 { "n_crash", "crashed", false },
                 { "n_timeout", "timed out", false },
                 { "n_norun", "did not run", false },
                 { "n_skip", "skipped", false } };
    const json_t *summary = from->summary;
    const char *verdict = text_of(summary, "verdict"), *state = text_of(summary, "state");
    const char *word = strcmp(verdict, "pass") == 0 ? "passed" : strcmp(verdict, "fail") == 0 ? "failed" : verdict;
    kg_buffer_printf(out, "%s: %lld of %lld cases passed", word, (long long)kg_json_int(summary, "n_pass", 0),
                     (long long)kg_json_int(summary, "n_planned", 0));
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const long long n = kg_json_int(summary, ROWS[i].count, 0);
        if (n > 0 || ROWS[i].always) kg_buffer_printf(out, ", %lld %s", n, ROWS[i].word);
    }
    if (strcmp(state, "complete") != 0) kg_buffer_printf(out, " (%s: the run died)", state);
}

const char KG_SEALED_BEFORE[] = "this was written when the run was sealed";

void kg_export_goals(const struct kg_export *from, struct kg_buffer *out) {
    const char *sprint = text_of(json_object_get(from->env, "run"), "report");
    if (!*sprint) kg_buffer_puts(out, "none: the run was not made to measure any");
    else kg_buffer_printf(out, "of sprint %s, not judged here: kigo signoff --figures does", sprint);
}

/* As the page and `kigo show` have it, but for what only later runs can say. */
static void put_verdict(struct kg_buffer *out, const struct kg_export *from) {
    struct kg_buffer result = KG_BUFFER_INIT, before = KG_BUFFER_INIT, goals = KG_BUFFER_INIT;
    kg_export_result(from, &result);
    kg_buffer_printf(&before, "not compared: %s; kigo report and kigo show compare it", KG_SEALED_BEFORE);
    kg_export_goals(from, &goals);
    kg_markdown_head(out, "what|value");
    put_fact(out, "result", kg_buffer_text(&result));
    put_fact(out, "before", kg_buffer_text(&before));
    put_fact(out, "goals", kg_buffer_text(&goals));
    kg_buffer_puts(out, "\n");
    kg_buffer_free(&goals);
    kg_buffer_free(&before);
    kg_buffer_free(&result);
}

static void put_summary(struct kg_buffer *out, const struct kg_export *from) {
    static const char *const COUNTS[] = {
        "n_planned", "n_pass", "n_fail", "n_skip", "n_crash", "n_timeout", "n_norun"
    };
    const json_t *s = from->summary;
    char started[KG_UTC_TEXT_SIZE], sealed[KG_UTC_TEXT_SIZE];
    kg_clock_utc_text(kg_json_int(s, "started_us", 0), started);
    kg_clock_utc_text(kg_json_int(s, "sealed_us", 0), sealed);
    kg_buffer_puts(out, "# Run ");
    kg_markdown_put(out, text_of(s, "bundle_id"));
    kg_buffer_printf(out, "\n\n%s to %s, seed %s\n\n", started, sealed, text_of(s, "seed"));
    put_verdict(out, from);
    char sample[KG_SAMPLE_TEXT_SIZE];
    if (kg_sample_text(json_object_get(from->env, "run"), sample)) kg_buffer_printf(out, "A sample: %s.\n\n", sample);
    kg_markdown_head(out, "planned:|pass:|fail:|skip:|crash:|timeout:|norun:");
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++)
        kg_markdown_cellf(out, "%lld", (long long)kg_json_int(s, COUNTS[i], 0));
    kg_markdown_row_end(out);
}

static void put_origin(struct kg_buffer *out, const struct kg_export *from) {
    const json_t *git = json_object_get(from->source, "git");
    const json_t *cpu = json_object_get(from->env, "cpu");
    kg_buffer_puts(out, "\n## Source, build, machine\n\n");
    kg_markdown_head(out, "what|value");
    put_fact(out, "commit", kg_json_text(git, "commit"));
    if (json_is_true(json_object_get(git, "dirty"))) put_fact(out, "work tree", "changed, see dirty.diff");
    put_fact(out, "source content", kg_json_text(from->source, "content_sha256"));
    put_fact(out, "compiler", kg_json_text(from->build, "compiler"));
    put_fact(out, "CFLAGS", kg_json_text(from->build, "cflags"));
    put_fact(out, "sanitizers", kg_json_text(from->build, "sanitizers"));
    put_fact(out, "CUDA", kg_json_text(from->build, "cuda"));
    put_fact(out, "CPU", kg_json_text(cpu, "model"));
    put_fact(out, "OS", kg_json_text(from->env, "os"));
    put_fact(out, "kernel", kg_json_text(from->env, "kernel"));
}

static void put_status_section(struct kg_buffer *out, const struct kg_records *records, const char *status,
                               const char *title) {
    bool begun = false;
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        if (strcmp(kg_case_status(c), status) != 0) continue;
        if (!begun) {
            kg_buffer_printf(out, "\n## %s\n\n", title);
            kg_markdown_head(out, "case|reason");
        }
        begun = true;
        kg_markdown_row(out, (const char *const[]){ c->key, kg_case_reason(c) }, 2);
    }
}

struct ranked {
    const struct kg_case_records *c;
    double value;
    const char *label;
};

static int by_value_falling(const void *a, const void *b) {
    const double x = ((const struct ranked *)a)->value, y = ((const struct ranked *)b)->value;
    return x < y ? 1 : x > y ? -1 : strcmp(((const struct ranked *)a)->c->key, ((const struct ranked *)b)->c->key);
}

/* The cases with the largest values, at most SHOWN of them. */
static void put_ranking(struct kg_buffer *out, struct ranked *rows, size_t n_rows, const char *title,
                        const char *columns) {
    enum { SHOWN = 10 };
    if (n_rows == 0) return;
    qsort(rows, n_rows, sizeof *rows, by_value_falling);
    kg_buffer_printf(out, "\n## %s\n\n", title);
    kg_markdown_head(out, columns);
    for (size_t i = 0; i < n_rows && i < SHOWN; i++) {
        kg_markdown_cellf(out, "%s%s%s", rows[i].c->key, *rows[i].label ? " / " : "", rows[i].label);
        kg_markdown_cellf(out, "%.4g", rows[i].value);
        kg_markdown_row_end(out);
    }
}

void kg_export_report(const struct kg_export *from, struct kg_buffer *out) {
    static const char *const SECTIONS[][2] = {
        { "fail", "Failed" },       { "crash", "Crashed" }, { "timeout", "Timed out" },
        { "norun", "Did not run" }, { "skip", "Skipped" },
    };
    const struct kg_records *records = from->records;
    put_summary(out, from);
    for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++)
        put_status_section(out, records, SECTIONS[i][0], SECTIONS[i][1]);
    struct ranked *rows = kg_xcalloc(records->n_cases, sizeof *rows);
    size_t n_rows = 0;
    for (size_t i = 0; i < records->n_cases; i++) {
        struct ranked row = { .c = &records->cases[i] };
        row.value = kg_case_worst_margin(row.c, &row.label);
        if (!isnan(row.value)) rows[n_rows++] = row;
    }
    put_ranking(out, rows, n_rows, "Closest to their tolerance", "case|error / limit:");
    n_rows = 0;
    for (size_t i = 0; i < records->n_cases; i++)
        if (records->cases[i].result)
            rows[n_rows++] = (struct ranked){ &records->cases[i], kg_case_seconds(&records->cases[i]), "" };
    put_ranking(out, rows, n_rows, "Slowest", "case|seconds:");
    free(rows);
    put_origin(out, from);
}
