/* What a suite program says on its event descriptor (report_events.h), taken with distrust. */
#include "base/buffer.h"
#include "base/clock.h"
#include "run/failure_name.h"
#include "run/result_lists.h"
#include "run/run_state.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REASON_BYTES = 8192, MAX_ATTACHMENTS = 16, MAX_ATTACHMENT_TEXT_BYTES = 8 << 20 };

uint64_t kg_run_deadline(const struct kg_run *run, double seconds) {
    return kg_clock_monotonic_ns() + (uint64_t)(seconds * run->options->timeout_scale * 1e9);
}

static void break_off(struct kg_slot *slot, const char *fmt, ...) KG_PRINTF(2, 3);
static void break_off(struct kg_slot *slot, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(slot->broken, sizeof slot->broken, fmt, args);
    va_end(args);
    slot->end = KG_SLOT_BROKE_PROTOCOL;
    kg_child_kill(&slot->child);
}

/* Events about a case must be about the one in flight. */
static bool is_in_flight(struct kg_slot *slot, const json_t *event) {
    const char *key = json_string_value(json_object_get(event, "key"));
    if (key && slot->in_flight && strcmp(key, slot->in_flight->key) == 0) return true;
    break_off(slot, "event %zu is about '%.150s' while %.150s", slot->n_lines, key ? key : "no case",
              slot->in_flight ? slot->in_flight->key : "no case runs");
    return false;
}

static enum kg_status on_start(struct kg_run *run, struct kg_slot *slot, const json_t *event, struct kg_error *err) {
    const char *key = json_string_value(json_object_get(event, "key"));
    struct kg_planned_case *c = key ? kg_case_plan_find(slot->program, key) : NULL;
    if (slot->in_flight || slot->done || !c || c->state != KG_RUN_WAITING) {
        break_off(slot, "event %zu starts '%.150s', which is not a case it was asked for and has left", slot->n_lines,
                  key ? key : "(no key)");
        return KG_OK;
    }
    c->state = KG_RUN_RUNNING;
    slot->in_flight = c;
    slot->case_started_us = kg_clock_utc_us();
    const enum kg_status status = kg_run_case_start(run, c->line, err);
    slot->case_start_ns = kg_clock_monotonic_ns();
    slot->deadline_ns = kg_run_deadline(run, c->timeout_s);
    return status;
}

static enum kg_status on_transcript(struct kg_run *run, struct kg_slot *slot, const json_t *event,
                                    struct kg_error *err) {
    if (!is_in_flight(slot, event)) return KG_OK;
    json_t *line = json_object_get(event, "line");
    if (!json_is_object(line)) {
        break_off(slot, "event %zu: the transcript's line is no object", slot->n_lines);
        return KG_OK;
    }
    json_t *with_key = json_copy(line);
    json_object_set_new(with_key, "key", json_string(slot->in_flight->key));
    const char *layer = json_string_value(json_object_get(slot->in_flight->line, "layer"));
    const enum kg_status status = kg_bundle_transcript(run->bundle, layer, with_key, err);
    json_decref(with_key);
    return status;
}

static bool is_base64(const json_t *text) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *s = json_string_value(text);
    const size_t len = json_string_length(text);
    if (!s || len % 4 != 0) return false;
    const size_t n_digits = strspn(s, DIGITS);
    return n_digits == len || (len - n_digits <= 2 && strspn(s + n_digits, "=") == len - n_digits);
}

static enum kg_status on_attach(struct kg_run *run, struct kg_slot *slot, const json_t *event, struct kg_error *err) {
    (void)run;
    (void)err;
    if (!is_in_flight(slot, event)) return KG_OK;
    const char *file = json_string_value(json_object_get(event, "file"));
    json_t *data = json_object_get(event, "data");
    if (!file || !kg_attachment_name_ok(file) || !is_base64(data) ||
        json_string_length(data) > MAX_ATTACHMENT_TEXT_BYTES || json_object_size(slot->attachments) >= MAX_ATTACHMENTS)
        break_off(slot, "event %zu: '%.100s' is no attachment kigo takes (its name, size or base64)", slot->n_lines,
                  file ? file : "(no name)");
    else json_object_set(slot->attachments, file, data);
    return KG_OK;
}

/* The reason a program gave, cut at a character's boundary; some text in any case. malloc'ed. */
static char *copy_reason(const json_t *event) {
    const char *text = json_string_value(json_object_get(event, "reason"));
    if (!text || !*text) return kg_xstrdup("no reason given");
    size_t len = strlen(text);
    if (len > MAX_REASON_BYTES)
        for (len = MAX_REASON_BYTES; len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80;) len--;
    return kg_xstrndup(text, len);
}

static enum kg_status on_end(struct kg_run *run, struct kg_slot *slot, const json_t *event, struct kg_error *err) {
    if (!is_in_flight(slot, event)) return KG_OK;
    const char *said = json_string_value(json_object_get(event, "status"));
    const json_t *duration = json_object_get(event, "duration_ns");
    struct kg_error why;
    json_t *lists;
    if (!said || (strcmp(said, "pass") != 0 && strcmp(said, "fail") != 0 && strcmp(said, "skip") != 0) ||
        !json_is_integer(duration) || json_integer_value(duration) < 0) {
        break_off(slot, "event %zu: an end without a status kigo knows, or without its duration", slot->n_lines);
        return KG_OK;
    }
    if (kg_result_lists_read(event, &lists, &why) != KG_OK) {
        break_off(slot, "event %zu: %.300s", slot->n_lines, why.message);
        return KG_OK;
    }
    /* No case can have taken longer than its program has been alive. */
    const uint64_t alive_ns = kg_clock_monotonic_ns() - slot->program_start_ns;
    const uint64_t said_ns = (uint64_t)json_integer_value(duration);
    const bool passed = strcmp(said, "pass") == 0;
    char *reason = passed ? NULL : copy_reason(event);
    const struct kg_case_finish finish = { .plan_line = slot->in_flight->line,
                                           .status = said,
                                           .reason = reason,
                                           .lists = lists,
                                           .attachments = slot->attachments,
                                           .log = &slot->log,
                                           .started_us = slot->case_started_us,
                                           .duration_ns = said_ns < alive_ns ? said_ns : alive_ns };
    const enum kg_status status = kg_run_case_finish(run, &finish, err);
    free(reason);
    json_object_clear(slot->attachments);
    slot->in_flight->state = KG_RUN_ENDED;
    slot->in_flight = NULL;
    slot->n_ended++;
    slot->any_failed = slot->any_failed || strcmp(said, "fail") == 0;
    slot->deadline_ns = kg_run_deadline(run, KG_BETWEEN_CASES_LIMIT_S);
    return status;
}

static enum kg_status on_done(struct kg_run *run, struct kg_slot *slot, const json_t *event, struct kg_error *err) {
    (void)event;
    (void)err;
    if (slot->in_flight || slot->done) break_off(slot, "event %zu: done too early or twice", slot->n_lines);
    slot->done = true;
    slot->deadline_ns = kg_run_deadline(run, KG_AFTER_DONE_LIMIT_S);
    return KG_OK;
}

static const struct event_row {
    const char *name;
    enum kg_status (*take)(struct kg_run *run, struct kg_slot *slot, const json_t *event, struct kg_error *err);
} EVENTS[] = {
    { "start", on_start },   { "end", on_end },   { "transcript", on_transcript },
    { "attach", on_attach }, { "done", on_done },
};

static enum kg_status take_line(struct kg_run *run, struct kg_slot *slot, const char *text, size_t len,
                                struct kg_error *err) {
    slot->n_lines++;
    json_error_t why;
    json_t *event = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    const char *name = json_string_value(json_object_get(event, "event"));
    enum kg_status status = KG_OK;
    const struct event_row *row = NULL;
    for (size_t i = 0; name && i < sizeof EVENTS / sizeof *EVENTS; i++)
        if (strcmp(name, EVENTS[i].name) == 0) row = &EVENTS[i];
    if (row) status = row->take(run, slot, event, err);
    else if (event) break_off(slot, "event %zu is of no kind kigo knows", slot->n_lines);
    else break_off(slot, "event %zu is no JSON: %.150s", slot->n_lines, why.text);
    json_decref(event);
    return status;
}

enum kg_status kg_run_take_events(struct kg_run *run, struct kg_slot *slot, struct kg_error *err) {
    enum kg_status status = KG_OK;
    char *text;
    size_t len;
    while (status == KG_OK && !run->stops && slot->end == KG_SLOT_BY_ITSELF &&
           (text = kg_line_reader_next(&slot->events, &len)))
        status = take_line(run, slot, text, len, err);
    if (slot->events.too_long && slot->end == KG_SLOT_BY_ITSELF)
        break_off(slot, "event %zu is longer than %d bytes", slot->n_lines + 1, KG_LINE_MAX_BYTES);
    return status;
}
