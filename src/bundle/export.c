/* The formats other tools read: JUnit XML, TAP 13, CSV. */
#include "bundle/export.h"
#include "base/size.h"
#include "base/buffer.h"
#include "base/escape.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *kg_case_status(const struct kg_case_records *c) {
    return c->result ? kg_json_text(c->result, "status") : "norun";
}

const char *kg_case_reason(const struct kg_case_records *c) {
    const char *reason = c->result ? kg_json_text(c->result, "reason") : "no result was recorded";
    return reason ? reason : "";
}

double kg_case_seconds(const struct kg_case_records *c) {
    return c->result ? (double)kg_json_int(c->result, "duration_ns", 0) / 1e9 : 0;
}

double kg_case_worst_margin(const struct kg_case_records *c, const char **name) {
    const json_t *errors = c->result ? json_object_get(c->result, "errors") : NULL;
    double worst = NAN;
    *name = "";
    for (size_t i = 0; i < json_array_size(errors); i++) {
        const json_t *error = json_array_get(errors, i);
        if (!json_is_true(json_object_get(error, "judged"))) continue;
        const double margin = kg_json_number(error, "margin", INFINITY); /* null: not finite */
        if (isnan(worst) || margin > worst) {
            worst = margin;
            *name = kg_json_text(error, "name");
            if (!*name) *name = "";
        }
    }
    return worst;
}

static void put_attribute(struct kg_buffer *out, const char *name, const char *value) {
    kg_buffer_printf(out, " %s=\"", name);
    kg_xml_put(out, value);
    kg_buffer_puts(out, "\"");
}

static const char *plan_text(const struct kg_case_records *c, const char *name) {
    const char *text = c->plan ? kg_json_text(c->plan, name) : NULL;
    return text ? text : "";
}

static void put_testcase(struct kg_buffer *out, const struct kg_case_records *c) {
    static const struct {
        const char *status, *element;
    } ELEMENTS[] = {
        { "fail", "failure" }, { "crash", "error" },  { "timeout", "error" },
        { "norun", "error" },  { "skip", "skipped" },
    };
    const char *status = kg_case_status(c);
    struct kg_buffer classname = KG_BUFFER_INIT;
    kg_buffer_printf(&classname, "%s.%s", plan_text(c, "layer"), plan_text(c, "op"));
    kg_buffer_puts(out, "    <testcase");
    put_attribute(out, "classname", kg_buffer_text(&classname));
    put_attribute(out, "name", c->key);
    kg_buffer_printf(out, " time=\"%.6f\"", kg_case_seconds(c));
    kg_buffer_free(&classname);
    for (size_t i = 0; i < sizeof ELEMENTS / sizeof *ELEMENTS; i++) {
        if (strcmp(status, ELEMENTS[i].status) != 0) continue;
        kg_buffer_printf(out, ">\n      <%s", ELEMENTS[i].element);
        put_attribute(out, "message", kg_case_reason(c));
        if (strcmp(status, "skip") != 0) put_attribute(out, "type", status);
        kg_buffer_puts(out, "/>\n    </testcase>\n");
        return;
    }
    kg_buffer_puts(out, "/>\n");
}

struct suite_count {
    size_t n_tests, n_failures, n_errors, n_skipped;
    double seconds;
};

static void count_case(struct suite_count *count, const struct kg_case_records *c) {
    const char *status = kg_case_status(c);
    count->n_tests++;
    count->n_failures += strcmp(status, "fail") == 0;
    count->n_skipped += strcmp(status, "skip") == 0;
    count->n_errors += strcmp(status, "crash") == 0 || strcmp(status, "timeout") == 0 || strcmp(status, "norun") == 0;
    count->seconds += kg_case_seconds(c);
}

static void put_counts(struct kg_buffer *out, const struct suite_count *count) {
    kg_buffer_printf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.6f\">\n",
                     count->n_tests, count->n_failures, count->n_errors, count->n_skipped, count->seconds);
}

/* The cases of one suite, in the plan's order: the first, and `next` of each until the last. */
struct suite {
    const char *name;
    size_t first, last;
    struct suite_count count;
};

/* Suites in the order of their first cases; malloc'ed, and *next as well, a place for each case. Each case is looked at
 * once, however many suites a plan names. */
static struct suite *group_by_suite(const struct kg_records *records, size_t *n_suites, size_t **next) {
    struct suite *suites = kg_xcalloc(records->n_cases + 1, sizeof *suites);
    json_t *places = json_object();
    *next = kg_xcalloc(records->n_cases + 1, sizeof **next);
    *n_suites = 0;
    for (size_t i = 0; i < records->n_cases; i++) {
        const char *name = plan_text(&records->cases[i], "suite");
        const json_t *place = json_object_get(places, name);
        struct suite *suite = &suites[place ? (size_t)json_integer_value(place) : *n_suites];
        if (place) (*next)[suite->last] = i;
        else *suite = (struct suite){ .name = name, .first = i };
        if (!place) json_object_set_new(places, name, json_integer((json_int_t)(*n_suites)++));
        suite->last = i;
        count_case(&suite->count, &records->cases[i]);
    }
    json_decref(places);
    return suites;
}

static void put_testsuite(struct kg_buffer *out, const struct kg_records *records, const struct suite *suite,
                          const size_t *next) {
    kg_buffer_puts(out, "  <testsuite");
    put_attribute(out, "name", suite->name);
    put_counts(out, &suite->count);
    for (size_t i = suite->first;; i = next[i]) {
        put_testcase(out, &records->cases[i]);
        if (i == suite->last) break;
    }
    kg_buffer_puts(out, "  </testsuite>\n");
}

void kg_export_junit(const struct kg_export *from, struct kg_buffer *out) {
    const struct kg_records *records = from->records;
    struct suite_count all = { 0 };
    size_t n_suites, *next;
    struct suite *suites = group_by_suite(records, &n_suites, &next);
    for (size_t i = 0; i < records->n_cases; i++) count_case(&all, &records->cases[i]);
    kg_buffer_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"kigo\"");
    put_counts(out, &all);
    for (size_t i = 0; i < n_suites; i++) put_testsuite(out, records, &suites[i], next);
    kg_buffer_puts(out, "</testsuites>\n");
    free(next);
    free(suites);
}

static void put_tap(struct kg_buffer *out, const char *text) {
    kg_escape(out, KG_MEDIUM_TAP, text, strlen(text));
}

void kg_export_tap(const struct kg_export *from, struct kg_buffer *out) {
    const struct kg_records *records = from->records;
    kg_buffer_printf(out, "TAP version 13\n1..%zu\n", records->n_cases);
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        const char *status = kg_case_status(c);
        const bool skipped = strcmp(status, "skip") == 0;
        kg_buffer_printf(out, "%sok %zu - ", skipped || strcmp(status, "pass") == 0 ? "" : "not ", i + 1);
        put_tap(out, c->key);
        if (skipped) kg_buffer_puts(out, " # SKIP ");
        if (skipped) put_tap(out, kg_case_reason(c));
        kg_buffer_puts(out, "\n");
        if (!skipped && *kg_case_reason(c)) {
            kg_buffer_printf(out, "# %s: ", status);
            put_tap(out, kg_case_reason(c));
            kg_buffer_puts(out, "\n");
        }
    }
}

static void put_csv(struct kg_buffer *out, const char *text) {
    kg_csv_put(out, text, strlen(text), ",");
}

/* Without the definition's hash and, in what is written now, the seed: a spreadsheet has no use for them, and most of
 * the file's compressed bytes would be they. */
static void put_csv_lines(const struct kg_export *from, bool seeds, struct kg_buffer *out) {
    static const char *const PLANNED[] = {
        "suite", "layer", "op", "name", "backend", "dtype", "shape", "spec", "seed"
    };
    const size_t n_planned = KG_COUNT_OF(PLANNED) - !seeds;
    kg_buffer_printf(out,
                     "key,suite,layer,op,name,backend,dtype,shape,spec,%sstatus,reason,started_us,duration_ns,"
                     "worst_comparison,worst_margin\r\n",
                     seeds ? "seed," : "");
    for (size_t i = 0; i < from->records->n_cases; i++) {
        const struct kg_case_records *c = &from->records->cases[i];
        put_csv(out, c->key);
        for (size_t k = 0; k < n_planned; k++) put_csv(out, plan_text(c, PLANNED[k]));
        put_csv(out, kg_case_status(c));
        put_csv(out, kg_case_reason(c));
        const int64_t started = c->result ? kg_json_int(c->result, "started_us", -1) : -1;
        const int64_t duration = c->result ? kg_json_int(c->result, "duration_ns", -1) : -1;
        if (started >= 0) kg_buffer_printf(out, "%lld", (long long)started);
        kg_buffer_puts(out, ",");
        if (duration >= 0) kg_buffer_printf(out, "%lld", (long long)duration);
        kg_buffer_puts(out, ",");
        const char *worst;
        const double margin = kg_case_worst_margin(c, &worst);
        put_csv(out, worst);
        if (!isnan(margin)) kg_buffer_printf(out, "%.9g", margin);
        kg_buffer_puts(out, "\r\n");
    }
}

void kg_export_csv(const struct kg_export *from, struct kg_buffer *out) {
    put_csv_lines(from, false, out);
}

void kg_export_csv_of_format_2(const struct kg_export *from, struct kg_buffer *out) {
    put_csv_lines(from, true, out);
}
