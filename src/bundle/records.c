#include "bundle/records.h"
#include "bundle/limits.h"
#include "bundle/stored.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/size.h"
#include "base/utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whatever a hostile file name or a value cut in its middle holds, every finding can be written as JSON. */
static char *as_utf8(const char *text) {
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_utf8_append(&out, text, strlen(text));
    return out.data ? out.data : kg_xstrdup("");
}

static void append_finding(struct kg_bundle_findings *findings, const char *what, const char *path,
                           const char *detail) {
    if ((findings->n_items & (findings->n_items + 1)) == 0) /* full at 2^n - 1 */
        findings->items = kg_xrealloc(findings->items, (findings->n_items + 1) * 2 * sizeof *findings->items);
    findings->items[findings->n_items++] =
        (struct kg_bundle_finding){ kg_xstrdup(what), as_utf8(path), as_utf8(detail), 0 };
}

/* The last finding stands for those that are not kept. */
static void count_more(struct kg_bundle_findings *findings) {
    if (findings->items[findings->n_items - 1].n_more == 0) append_finding(findings, "more", "", "");
    struct kg_bundle_finding *more = &findings->items[findings->n_items - 1];
    more->n_more++;
    free(more->detail);
    more->detail = kg_xasprintf("%zu more findings are not listed", more->n_more);
}

void kg_finding_add(struct kg_bundle_findings *findings, const char *what, const char *path, const char *fmt, ...) {
    enum { DETAIL_SIZE = 512 };
    char detail[DETAIL_SIZE];
    if (findings->n_items >= KG_MAX_FINDINGS) {
        count_more(findings);
        return;
    }
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    append_finding(findings, what, path, detail);
}

size_t kg_bundle_findings_count(const struct kg_bundle_findings *findings) {
    const size_t n = findings->n_items, n_more = n > 0 ? findings->items[n - 1].n_more : 0;
    return n_more > 0 ? n - 1 + n_more : n;
}

void kg_bundle_findings_free(struct kg_bundle_findings *findings) {
    for (size_t i = 0; i < findings->n_items; i++) {
        free(findings->items[i].what);
        free(findings->items[i].path);
        free(findings->items[i].detail);
    }
    free(findings->items);
    *findings = (struct kg_bundle_findings){ NULL, 0 };
}

void kg_ndjson_each(const char *text, size_t size_bytes,
                    void (*line)(void *arg, size_t number, const char *text, size_t size_bytes), void *arg,
                    size_t *torn_bytes) {
    size_t begin = 0, number = 1;
    while (begin < size_bytes) {
        const char *newline = memchr(text + begin, '\n', size_bytes - begin);
        if (!newline) break;
        const size_t len = (size_t)(newline - (text + begin));
        line(arg, number++, text + begin, len);
        begin += len + 1;
    }
    *torn_bytes = size_bytes - begin;
}

struct reading {
    struct kg_records *records;
    uint64_t *values_left; /* of all files together */
    struct kg_bundle_findings *findings;
    const char *file;
    void (*record)(struct reading *reading, size_t number, json_t *line);
    struct kg_json_room *room;
};

static struct kg_case_records *find_case(const struct kg_records *records, const char *key) {
    const json_t *place = json_object_get(records->index, key);
    return place ? &records->cases[json_integer_value(place)] : NULL;
}

static struct kg_case_records *add_case(struct kg_records *records, const char *key) {
    if (!records->cases || (records->n_cases & (records->n_cases + 1)) == 0) /* full at 2^n - 1 */
        records->cases = kg_xrealloc(records->cases, (records->n_cases + 1) * 2 * sizeof *records->cases);
    json_object_set_new(records->index, key, json_integer((json_int_t)records->n_cases));
    struct kg_case_records *c = &records->cases[records->n_cases++];
    *c = (struct kg_case_records){ .key = key };
    return c;
}

static void read_plan(struct reading *reading, size_t number, json_t *line) {
    char why[KG_RECORD_WHY_SIZE];
    if (!kg_record_plan_ok(line, why)) {
        kg_finding_add(reading->findings, "format", reading->file, "line %zu: %s", number, why);
        return;
    }
    const char *key = kg_json_text(line, "key");
    if (find_case(reading->records, key))
        kg_finding_add(reading->findings, "duplicate", reading->file, "line %zu: '%s' is planned twice", number, key);
    else add_case(reading->records, key)->plan = line;
}

/* What the result leaves out, since its plan has it. */
static void take_from_plan(struct kg_records *records, const struct kg_case_records *c, json_t *record) {
    for (size_t i = 0; i < KG_N_RECORD_PLANNED; i++) {
        const char *name = KG_RECORD_PLANNED[i];
        if (kg_json_text(record, name)) continue;
        if (!records->left_out) records->left_out = name, records->left_out_by = c->key;
        if (c->plan) json_object_set(record, name, json_object_get(c->plan, name));
    }
}

static void read_result(struct reading *reading, size_t number, json_t *record) {
    char why[KG_RECORD_WHY_SIZE];
    if (!kg_record_result_ok(record, why)) {
        kg_finding_add(reading->findings, "format", reading->file, "line %zu: %s", number, why);
        return;
    }
    const char *key = kg_json_text(record, "key");
    struct kg_case_records *c = find_case(reading->records, key);
    if (!c) {
        kg_finding_add(reading->findings, "unplanned", reading->file, "line %zu: '%s' was not planned", number, key);
        c = add_case(reading->records, key);
    } else if (c->result) {
        kg_finding_add(reading->findings, "duplicate", reading->file, "line %zu: '%s' has a result already", number,
                       key);
        return;
    } else if (!kg_record_same_definition(c->plan, record, why)) {
        kg_finding_add(reading->findings, "definition", reading->file, "line %zu: '%s': %s", number, key, why);
    }
    take_from_plan(reading->records, c, record);
    c->result = record;
}

static void read_case_event(struct reading *reading, size_t number, const char *event, json_t *line) {
    const char *key = kg_json_text(line, "key");
    struct kg_case_records *c = key ? find_case(reading->records, key) : NULL;
    if (!key || (strcmp(event, "end") == 0 && !kg_json_text(line, "status")))
        kg_finding_add(reading->findings, "format", reading->file, "line %zu: %s without \"%s\"", number, event,
                       key ? "status" : "key");
    if (!c) {
        kg_finding_add(reading->findings, "unplanned", reading->file, "line %zu: %s of '%s', which was not planned",
                       number, event, key ? key : "");
    } else if (strcmp(event, "start") == 0) {
        if (c->started)
            kg_finding_add(reading->findings, "duplicate", reading->file, "line %zu: '%s' starts twice", number, key);
        c->started = true;
    } else {
        const char *status = kg_json_text(line, "status");
        if (c->ended)
            kg_finding_add(reading->findings, "duplicate", reading->file, "line %zu: '%s' ends twice", number, key);
        c->ended = status ? status : "";
    }
}

static void read_event(struct reading *reading, size_t number, json_t *line) {
    const char *event = kg_json_text(line, "event");
    if (!event || kg_json_int(line, "utc_us", -1) < 0)
        kg_finding_add(reading->findings, "format", reading->file, "line %zu: no \"event\", or no time \"utc_us\"",
                       number);
    else if (strcmp(event, "start") == 0 || strcmp(event, "end") == 0) read_case_event(reading, number, event, line);
    else if (strcmp(event, "planned") == 0) {
        reading->records->n_planned_event = kg_json_int(line, "n", -1);
        reading->records->plan_said = kg_json_text(line, "plan_sha256");
        if (reading->records->n_planned_event < 0)
            kg_finding_add(reading->findings, "format", reading->file, "line %zu: planned without \"n\"", number);
    }
    json_array_append(reading->records->events, line);
}

static void parse_line(void *arg, size_t number, const char *text, size_t size_bytes) {
    struct reading *reading = arg;
    json_error_t error;
    const char *over = kg_limit_line(text, size_bytes, reading->values_left);
    if (over) {
        kg_finding_add(reading->findings, "limit", reading->file, "line %zu: %s", number, over);
        return;
    }
    json_t *line = kg_json_read(reading->room, text, size_bytes, &error);
    if (!json_is_object(line)) {
        kg_finding_add(reading->findings, "format", reading->file, "line %zu: %s", number,
                       line ? "is not a JSON object" : error.text);
        json_decref(line);
        return;
    }
    json_array_append_new(reading->records->lines, line);
    reading->record(reading, number, line);
}

/* A record file's text; a file that is missing, not regular, absurdly large or badly compressed is a finding and reads
 * as empty. */
static enum kg_status read_text(const char *dir, const char *relative, char **text, size_t *size_bytes,
                                struct kg_bundle_findings *findings, struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    const enum kg_status status = kg_stored_read(dir, relative, KG_MAX_RECORD_BYTES, text, size_bytes, err);
    if (status != KG_ERR_NOT_FOUND && status != KG_ERR_FORMAT) return status;
    kg_finding_add(findings, status == KG_ERR_FORMAT ? "format" : "missing", relative, "%s", err->message);
    return KG_OK;
}

/* The plan that the journal speaks of is this one; results need not say again what is in it. */
static void check_plan(const struct kg_records *records, struct kg_bundle_findings *findings) {
    if (records->plan_said && strcmp(records->plan_said, records->plan_sha256) != 0)
        kg_finding_add(findings, "definition", "data/plan.ndjson",
                       "its SHA-256 is %s, the journal says that %.80s was planned", records->plan_sha256,
                       records->plan_said);
    if (!records->plan_said && records->left_out)
        kg_finding_add(findings, "format", "data/results.ndjson",
                       "'%s': \"%s\" is missing, and the journal has no hash of the plan", records->left_out_by,
                       records->left_out);
}

static enum kg_status load_files(const char *dir, size_t n_files, struct kg_records *records,
                                 struct kg_bundle_findings *findings, struct kg_error *err) {
    static const struct {
        const char *file;
        void (*record)(struct reading *reading, size_t number, json_t *line);
    } FILES[] = {
        { "data/plan.ndjson", read_plan },
        { "data/results.ndjson", read_result },
        { "data/journal.ndjson", read_event },
    };
    *records = (struct kg_records){
        .index = json_object(), .events = json_array(), .lines = json_array(), .n_planned_event = -1
    };
    enum kg_status status = KG_OK;
    uint64_t values_left = KG_MAX_VALUES;
    struct kg_json_room room = { 0 };
    for (size_t i = 0; i < n_files && status == KG_OK; i++) {
        char *text;
        size_t size_bytes, torn;
        status = read_text(dir, FILES[i].file, &text, &size_bytes, findings, err);
        if (status != KG_OK) break;
        struct reading reading = { records, &values_left, findings, FILES[i].file, FILES[i].record, &room };
        kg_ndjson_each(text, size_bytes, parse_line, &reading, &torn);
        if (i == 0) kg_sha256_hex(text, size_bytes, records->plan_sha256);
        if (torn > 0) kg_finding_add(findings, "format", FILES[i].file, "ends in %zu bytes without a newline", torn);
        free(text);
    }
    kg_json_room_free(&room);
    if (status == KG_OK && n_files == KG_COUNT_OF(FILES)) check_plan(records, findings);
    if (status != KG_OK) kg_records_free(records);
    return status;
}

enum kg_status kg_records_load(const char *dir, struct kg_records *records, struct kg_bundle_findings *findings,
                               struct kg_error *err) {
    return load_files(dir, 3, records, findings, err);
}

enum kg_status kg_records_load_results(const char *dir, struct kg_records *records, struct kg_bundle_findings *findings,
                                       struct kg_error *err) {
    return load_files(dir, 2, records, findings, err);
}

void kg_records_free(struct kg_records *records) {
    free(records->cases);
    json_decref(records->index);
    json_decref(records->events);
    json_decref(records->lines);
    *records = (struct kg_records){ 0 };
}

const json_t *kg_records_opening(const struct kg_records *records) {
    for (size_t i = 0; i < json_array_size(records->events); i++) {
        const json_t *event = json_array_get(records->events, i);
        const char *name = kg_json_text(event, "event");
        if (name && strcmp(name, "open") == 0) return event;
    }
    return NULL;
}

void kg_summary_count(struct kg_bundle_summary *summary, const char *status) {
    summary->n_planned++;
    summary->n_pass += strcmp(status, "pass") == 0;
    summary->n_fail += strcmp(status, "fail") == 0;
    summary->n_skip += strcmp(status, "skip") == 0;
    summary->n_crash += strcmp(status, "crash") == 0;
    summary->n_timeout += strcmp(status, "timeout") == 0;
    summary->n_norun += strcmp(status, "norun") == 0;
}

void kg_summary_conclude(struct kg_bundle_summary *summary, bool partial) {
    const size_t n_red = summary->n_fail + summary->n_crash + summary->n_timeout;
    const bool incomplete = partial || summary->n_norun > 0 || summary->n_pass + n_red == 0;
    summary->exit_code = incomplete ? KG_EXIT_INCOMPLETE : n_red > 0 ? KG_EXIT_FAILED : KG_EXIT_OK;
    snprintf(summary->verdict, sizeof summary->verdict, "%s", incomplete ? "incomplete" : n_red > 0 ? "fail" : "pass");
}

void kg_records_summary(const struct kg_records *records, bool partial, struct kg_bundle_summary *summary) {
    *summary = (struct kg_bundle_summary){ 0 };
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        if (c->plan) kg_summary_count(summary, c->result ? kg_json_text(c->result, "status") : "norun");
    }
    kg_summary_conclude(summary, partial);
}

enum kg_status kg_bundle_read_json(const char *dir, const char *relative, json_t **object, struct kg_error *err) {
    char *path = kg_path_join(dir, relative);
    char *text = NULL;
    size_t size_bytes = 0;
    json_error_t error;
    enum kg_status status = kg_stored_read(dir, relative, KG_MAX_DOCUMENT_BYTES, &text, &size_bytes, err);
    const char *over = status == KG_OK ? kg_limit_document(text, size_bytes) : NULL;
    if (over) status = kg_fail(err, KG_ERR_FORMAT, "%s %s", path, over);
    if (status == KG_OK) {
        struct kg_json_room room = { 0 };
        json_t *json = kg_json_read(&room, text, size_bytes, &error);
        kg_json_room_free(&room);
        if (!json) {
            status = kg_fail(err, KG_ERR_FORMAT, "%s, line %d: %s", path, error.line, error.text);
        } else if (!json_is_object(json)) {
            json_decref(json);
            status = kg_fail(err, KG_ERR_FORMAT, "%s is not a JSON object", path);
        } else {
            *object = json; /* only what is good: callers decref what they hold after an error, too */
        }
    }
    free(text);
    free(path);
    return status;
}

enum kg_status kg_json_read_named(const char *path, json_t **object, struct kg_error *err) {
    char *real = realpath(path, NULL), *slash = real ? strrchr(real, '/') : NULL;
    const bool is_gone = !real && (errno == ENOENT || errno == ENOTDIR);
    if (is_gone) return kg_fail(err, KG_ERR_NOT_FOUND, "%s: no such file", path);
    if (!slash) return kg_fail(err, KG_ERR_IO, "cannot find %s: %s", path, strerror(errno));
    char *dir = kg_xstrndup(real, slash == real ? 1 : (size_t)(slash - real));
    const enum kg_status status = kg_bundle_read_json(dir, slash + 1, object, err);
    free(dir);
    free(real);
    return status;
}
