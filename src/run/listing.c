#include "run/listing.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_put.h"
#include "base/threads.h"
#include "run/bounded_log.h"
#include "run/case_key.h"
#include "run/child.h"
#include "run/line_reader.h"
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_AT_ONCE = 64 };

static const char *text_of(const json_t *line, const char *field) {
    return json_string_value(json_object_get(line, field));
}

/* A text, or null where the case has none. */
static bool text_or_null(const json_t *line, const char *field) {
    const json_t *value = json_object_get(line, field);
    return json_is_string(value) || json_is_null(value);
}

static enum kg_status check_line(const json_t *line, uint64_t run_seed, struct kg_error *err) {
    static const char *const REQUIRED[] = { "key", "suite", "layer", "op", "name", "seed", "def_sha" };
    static const char *const OPTIONAL[] = { "backend", "dtype", "shape", "spec" };
    for (size_t i = 0; i < sizeof REQUIRED / sizeof *REQUIRED; i++)
        if (!text_of(line, REQUIRED[i])) return kg_fail(err, KG_ERR_FORMAT, "'%s' is no text", REQUIRED[i]);
    for (size_t i = 0; i < sizeof OPTIONAL / sizeof *OPTIONAL; i++)
        if (!text_or_null(line, OPTIONAL[i]))
            return kg_fail(err, KG_ERR_FORMAT, "'%s' is neither text nor null", OPTIONAL[i]);
    const json_t *timed = json_object_get(line, "timed");
    if (timed && !json_is_boolean(timed)) return kg_fail(err, KG_ERR_FORMAT, "'timed' is neither true nor false");
    const double timeout_s = json_number_value(json_object_get(line, "timeout_s"));
    if (!(timeout_s > 0 && timeout_s <= 86400)) return kg_fail(err, KG_ERR_FORMAT, "'timeout_s' is %g", timeout_s);
    const struct kg_case c = { .layer = text_of(line, "layer"),
                               .op = text_of(line, "op"),
                               .name = text_of(line, "name"),
                               .backend = text_of(line, "backend"),
                               .dtype = text_of(line, "dtype"),
                               .shape = text_of(line, "shape") };
    char key[KG_CASE_KEY_MAX], seed[32];
    const enum kg_status status = kg_case_key(&c, key, err);
    if (status != KG_OK) return status;
    snprintf(seed, sizeof seed, "%" PRIu64, kg_case_seed(run_seed, key));
    if (strcmp(key, text_of(line, "key")) != 0)
        return kg_fail(err, KG_ERR_FORMAT, "the key '%.200s' is not what its fields make: '%.200s'",
                       text_of(line, "key"), key);
    if (strcmp(seed, text_of(line, "seed")) != 0)
        return kg_fail(err, KG_ERR_FORMAT, "%s: the seed %.40s is not the run's (%s)", key, text_of(line, "seed"),
                       seed);
    const char *sha = text_of(line, "def_sha");
    if (strlen(sha) != KG_SHA256_HEX_SIZE - 1 || strspn(sha, "0123456789abcdef") != KG_SHA256_HEX_SIZE - 1)
        return kg_fail(err, KG_ERR_FORMAT, "%s: 'def_sha' is no SHA-256", key);
    return KG_OK;
}

/* The fields of plan.ndjson, and whether the case is timed. */
static json_t *copy_line(const json_t *line, const char *name) {
    static const char *const FIELDS[] = { "key",   "layer", "op",   "name",    "backend",   "dtype",
                                          "shape", "spec",  "seed", "def_sha", "timeout_s", "timed" };
    json_t *copy = json_object();
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        json_object_set(copy, FIELDS[i], json_object_get(line, FIELDS[i]));
    json_object_set_new(copy, "suite", kg_json_utf8(name));
    return copy;
}

/* A program that is listing its cases. */
struct listing {
    const struct kg_suite_program *program; /* NULL: the place is free */
    struct kg_listing *result;
    struct kg_child child;
    struct kg_line_reader reader;
    struct kg_bounded_log log;
    bool log_at_end;
    json_t *lines;
    size_t n_lines;
    uint64_t limit_ns;
};

/* The first line, if it is no case's. */
static bool take_built_from(struct listing *l, const json_t *line) {
    const char *built_from = l->n_lines == 1 ? text_of(line, "built_from") : NULL;
    if (!built_from) return false;
    snprintf(l->result->built_from, sizeof l->result->built_from, "%s", built_from);
    l->result->alone = json_is_true(json_object_get(line, "alone"));
    return true;
}

static enum kg_status take_lines(struct listing *l, const char *name, uint64_t seed, struct kg_error *err) {
    char *text;
    size_t len;
    while ((text = kg_line_reader_next(&l->reader, &len))) {
        l->n_lines++;
        json_t *line = json_loadb(text, len, 0, NULL);
        enum kg_status status = KG_OK;
        const bool is_case = !take_built_from(l, line);
        if (!json_is_object(line)) status = kg_fail(err, KG_ERR_FORMAT, "it is no JSON object");
        else if (is_case) status = check_line(line, seed, err);
        if (status == KG_OK && is_case) json_array_append_new(l->lines, copy_line(line, name));
        json_decref(line);
        if (status != KG_OK) return kg_error_context(err, status, "line %zu of its list", l->n_lines);
    }
    if (l->reader.too_long)
        return kg_fail(err, KG_ERR_FORMAT, "a line of its list is longer than %d bytes", KG_LINE_MAX_BYTES);
    return KG_OK;
}

static void drain_log(struct listing *l) {
    enum { MAX_CHUNKS = 128 }; /* a program that never stops printing cannot keep the runner here */
    char chunk[16384];
    ssize_t n = 1;
    for (int i = 0; i < MAX_CHUNKS && n > 0; i++)
        if ((n = read(l->child.log_fd, chunk, sizeof chunk)) > 0) kg_bounded_log_append(&l->log, chunk, (size_t)n);
    l->log_at_end = n == 0;
}

/* Of a program that has ended by itself. */
static enum kg_status judge_end(struct listing *l, int wait_status, struct kg_error *err) {
    if (wait_status != 0) {
        char end[128];
        kg_child_describe_end(wait_status, end, sizeof end);
        struct kg_buffer last = KG_BUFFER_INIT;
        kg_bounded_log_last(&l->log, 600, &last);
        const enum kg_status status = kg_fail(err, KG_ERR_INCOMPLETE, "listing its cases %s%s%s", end,
                                              last.len ? ": " : "", kg_buffer_text(&last));
        kg_buffer_free(&last);
        return status;
    }
    if (kg_line_reader_left(&l->reader) > 0) return kg_fail(err, KG_ERR_FORMAT, "the last line of its list is cut off");
    if (json_array_size(l->lines) == 0) return kg_fail(err, KG_ERR_INCOMPLETE, "it lists no case");
    return KG_OK;
}

static void close_listing(struct listing *l, enum kg_status status) {
    int wait_status;
    for (kg_child_kill(&l->child); l->child.pid > 0 && !kg_child_ended(&l->child, &wait_status);) poll(NULL, 0, 1);
    kg_child_close(&l->child);
    kg_line_reader_free(&l->reader);
    kg_bounded_log_free(&l->log);
    if (status == KG_OK) l->result->lines = l->lines;
    else json_decref(l->lines);
    *l = (struct listing){ 0 };
}

static void open_listing(struct listing *l, const struct kg_suite_program *program,
                         const struct kg_child_surroundings *around, struct kg_listing *result) {
    *l = (struct listing){ .program = program,
                           .result = result,
                           .child = KG_CHILD_NONE,
                           .lines = json_array(),
                           .limit_ns = kg_clock_monotonic_ns() + (uint64_t)KG_LISTING_LIMIT_S * 1000000000u };
    *result = (struct kg_listing){ 0 };
    const struct kg_child_spec spec = { .path = program->path, .surroundings = around };
    const enum kg_status status = kg_child_start(&spec, &l->child, &result->err);
    if (status != KG_OK) close_listing(l, status);
}

/* Takes what the program has written; its place is free again once it has ended or failed. */
static void serve_listing(struct listing *l, uint64_t seed) {
    struct kg_error *err = &l->result->err;
    int wait_status = 0;
    const bool ended = kg_child_ended(&l->child, &wait_status); /* first: all it wrote can be read then */
    enum kg_status status = KG_OK;
    drain_log(l);
    for (bool more = true; more && status == KG_OK;) {
        more = kg_line_reader_fill(&l->reader, l->child.events_fd) && ended;
        status = take_lines(l, l->program->name, seed, err);
    }
    if (status == KG_OK && ended) status = kg_child_trouble(&l->child, l->program->path, err);
    if (status == KG_OK && ended) status = judge_end(l, wait_status, err);
    else if (status == KG_OK && kg_clock_monotonic_ns() > l->limit_ns)
        status = kg_fail(err, KG_ERR_INCOMPLETE, "it was not done listing its cases after %d s", KG_LISTING_LIMIT_S);
    if (ended || status != KG_OK) close_listing(l, status);
}

/* Until one of them has written something. A program whose descriptors are at their end is about to be reaped. */
static void wait_for_listings(const struct listing *listings, int n) {
    struct pollfd fds[2 * MAX_AT_ONCE];
    nfds_t n_fds = 0;
    int timeout_ms = 10;
    for (int i = 0; i < n; i++) {
        if (!listings[i].program) continue;
        if (!listings[i].reader.at_end)
            fds[n_fds++] = (struct pollfd){ .fd = listings[i].child.events_fd, .events = POLLIN };
        if (!listings[i].log_at_end) fds[n_fds++] = (struct pollfd){ .fd = listings[i].child.log_fd, .events = POLLIN };
        if (listings[i].reader.at_end && listings[i].log_at_end) timeout_ms = 1;
    }
    poll(fds, n_fds, timeout_ms);
}

void kg_listings_get(const struct kg_suite_program *programs, size_t n_programs,
                     const struct kg_child_surroundings *around, struct kg_listing *listings) {
    struct listing places[MAX_AT_ONCE] = { 0 };
    const int n_processors = kg_processors_allowed();
    const int n_places = n_processors < MAX_AT_ONCE ? n_processors : MAX_AT_ONCE;
    size_t next = 0;
    for (;;) {
        bool busy = false;
        for (int i = 0; i < n_places; i++) {
            if (places[i].program) serve_listing(&places[i], around->seed);
            while (!places[i].program && next < n_programs) {
                open_listing(&places[i], &programs[next], around, &listings[next]);
                next++;
            }
            busy = busy || places[i].program;
        }
        if (!busy) break;
        wait_for_listings(places, n_places);
    }
}

json_t *kg_listing_harness_line(const char *program, const char *case_name, uint64_t run_seed) {
    char *op = kg_xstrdup(program);
    for (char *p = op; *p; p++) {
        if (*p == '/') *p = '.';
        if (*p <= ' ' || *p > '~' || strchr("#[]", *p)) *p = '_'; /* a folder may be called anything, a key not */
    }
    const struct kg_case c = { .layer = "harness", .op = op, .name = case_name };
    char key[KG_CASE_KEY_MAX], sha[KG_SHA256_HEX_SIZE], seed[32];
    if (kg_case_key(&c, key, NULL) != KG_OK) snprintf(key, sizeof key, "harness/%.64s.../%s", op, case_name);
    kg_case_definition_sha(&c, sha);
    snprintf(seed, sizeof seed, "%" PRIu64, kg_case_seed(run_seed, key));
    json_t *line = json_pack("{s:s, s:o, s:s, s:s, s:s, s:n, s:n, s:n, s:n, s:s, s:s, s:f}", "key", key, "suite",
                             kg_json_utf8(program), "layer", c.layer, "op", op, "name", case_name, "backend", "dtype",
                             "shape", "spec", "seed", seed, "def_sha", sha, "timeout_s", (double)KG_LISTING_LIMIT_S);
    free(op);
    return line;
}
