#include "run/run_slot.h"
#include "base/clock.h"
#include "run/failure_name.h"
#include "run/result_lists.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t count_waiting(const struct kg_planned_program *program) {
    size_t n = 0;
    for (size_t i = 0; i < program->n_cases; i++) n += program->cases[i].state == KG_RUN_WAITING;
    return n;
}

/* A case that the runner itself ends: a crash, a timeout, or one of the harness's own cases. */
static enum kg_status record_case(struct kg_run *run, const struct kg_slot *slot, const json_t *line,
                                  const char *status_name, const char *reason, uint64_t start_ns, int64_t started_us,
                                  struct kg_error *err) {
    const struct kg_case_finish finish = { .plan_line = line,
                                           .status = status_name,
                                           .reason = reason,
                                           .lists = kg_result_lists_empty(),
                                           .attachments = slot ? slot->attachments : NULL,
                                           .log = slot ? &slot->log : NULL,
                                           .started_us = started_us,
                                           .duration_ns = kg_clock_monotonic_ns() - start_ns };
    return kg_run_case_finish(run, &finish, err);
}

/* Starts and ends a case at once. */
static enum kg_status record_now(struct kg_run *run, const struct kg_slot *slot, const json_t *line,
                                 const char *status_name, const char *reason, struct kg_error *err) {
    const uint64_t now_ns = kg_clock_monotonic_ns();
    const int64_t now_us = kg_clock_utc_us();
    const enum kg_status status = kg_run_case_start(run, line, err);
    if (status != KG_OK) return status;
    return record_case(run, slot, line, status_name, reason, now_ns, now_us, err);
}

static enum kg_status start_process(struct kg_run *run, struct kg_slot *slot, struct kg_error *err) {
    struct kg_buffer keys = KG_BUFFER_INIT;
    for (size_t i = 0; i < slot->program->n_cases; i++)
        if (slot->program->cases[i].state == KG_RUN_WAITING)
            kg_buffer_printf(&keys, "%s\n", slot->program->cases[i].key);
    const struct kg_child_spec spec = { .path = slot->program->path,
                                        .cases = kg_buffer_text(&keys),
                                        .surroundings = &run->options->surroundings };
    slot->n_lines = slot->n_ended = 0;
    slot->in_flight = NULL;
    slot->end = KG_SLOT_BY_ITSELF;
    slot->any_failed = slot->done = slot->log_at_end = false;
    slot->deadline_ns = kg_run_deadline(run, KG_BETWEEN_CASES_LIMIT_S);
    slot->attachments = json_object();
    slot->events = (struct kg_line_reader){ 0 };
    const enum kg_status status = kg_child_start(&spec, &slot->child, err);
    kg_buffer_free(&keys);
    return status;
}

static void free_process(struct kg_slot *slot) {
    kg_child_close(&slot->child);
    kg_line_reader_free(&slot->events);
    json_decref(slot->attachments);
    slot->attachments = NULL;
}

enum kg_status kg_slot_open(struct kg_run *run, struct kg_slot *slot, struct kg_planned_program *program,
                            struct kg_error *err) {
    *slot = (struct kg_slot){ .child = KG_CHILD_NONE };
    if (program->lists) return record_now(run, NULL, program->lists, "crash", program->list_error, err);
    if (program->n_cases == 0) return KG_OK;
    slot->program = program;
    slot->program_start_ns = kg_clock_monotonic_ns();
    return start_process(run, slot, err);
}

static void drain_log(struct kg_slot *slot) {
    enum { MAX_CHUNKS = 64 }; /* a program that never stops printing cannot keep the runner here */
    char chunk[16384];
    for (int i = 0; i < MAX_CHUNKS && !slot->log_at_end; i++) {
        const ssize_t n = read(slot->child.log_fd, chunk, sizeof chunk);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            kg_error_set(NULL, KG_ERR_IO, "cannot read what a program of cases prints: %s", strerror(errno));
        if (n < 0) break;
        if (n == 0) slot->log_at_end = true;
        else kg_bounded_log_append(&slot->log, chunk, (size_t)n);
    }
}

/* What the end of the process means, as text: for the case it met, or for the program if it met none. */
static void describe_end(const struct kg_slot *slot, int wait_status, char *text, size_t size_bytes) {
    char end[128];
    kg_child_describe_end(wait_status, end, sizeof end);
    if (slot->end == KG_SLOT_BROKE_PROTOCOL)
        snprintf(text, size_bytes, "the program broke the event protocol: %s", slot->broken);
    else if (slot->end == KG_SLOT_TIMED_OUT)
        snprintf(text, size_bytes, "the program hung outside its cases and was killed");
    else snprintf(text, size_bytes, "the program %s", end);
}

static enum kg_status end_case_in_flight(struct kg_run *run, struct kg_slot *slot, const char *what,
                                         struct kg_error *err) {
    const bool timed_out = slot->end == KG_SLOT_TIMED_OUT;
    struct kg_buffer reason = KG_BUFFER_INIT, last = KG_BUFFER_INIT;
    if (timed_out)
        kg_buffer_printf(&reason, "ran past its limit of %g s and was killed",
                         slot->in_flight->timeout_s * run->options->timeout_scale);
    else kg_buffer_printf(&reason, "%s in this case", what);
    kg_bounded_log_last(&slot->log, 1000, &last);
    if (last.len > 0) kg_buffer_printf(&reason, "; its last words: %s", last.data);
    const enum kg_status status = record_case(run, slot, slot->in_flight->line, timed_out ? "timeout" : "crash",
                                              reason.data, slot->case_start_ns, slot->case_started_us, err);
    slot->in_flight->state = KG_RUN_ENDED;
    slot->in_flight = NULL;
    slot->n_ended++;
    kg_buffer_free(&last);
    kg_buffer_free(&reason);
    return status;
}

/* Two processes in a row ended without ending a case: a third would not do better. */
static enum kg_status give_up(struct kg_run *run, struct kg_slot *slot, const char *what, struct kg_error *err) {
    char reason[1024];
    snprintf(reason, sizeof reason, "never started: %s before any case, twice", what);
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < slot->program->n_cases && status == KG_OK; i++) {
        struct kg_planned_case *c = &slot->program->cases[i];
        if (c->state != KG_RUN_WAITING) continue;
        status = record_now(run, slot, c->line, "crash", reason, err);
        c->state = KG_RUN_ENDED;
    }
    return status;
}

/* Remembers the first thing that went wrong outside any case. */
static void note_unclean(struct kg_slot *slot, const char *what, const char *when) {
    if (!slot->unclean) slot->unclean = kg_xasprintf("%s %s", what, when);
}

static void free_program(struct kg_slot *slot) {
    kg_bounded_log_free(&slot->log);
    free(slot->unclean);
    *slot = (struct kg_slot){ .child = KG_CHILD_NONE };
}

static enum kg_status close_program(struct kg_run *run, struct kg_slot *slot, struct kg_error *err) {
    struct kg_planned_program *program = slot->program;
    enum kg_status status = KG_OK;
    if (program->ends_cleanly)
        status = record_now(run, slot, program->ends_cleanly, slot->unclean ? "fail" : "pass", slot->unclean, err);
    struct kg_buffer log = KG_BUFFER_INIT;
    kg_bounded_log_text(&slot->log, &log);
    if (status == KG_OK && log.len > 0) {
        char *path = kg_log_path(program->name);
        status = kg_bundle_file(run->bundle, path, log.data, log.len, err);
        free(path);
    }
    kg_buffer_free(&log);
    const uint64_t wall_ns = kg_clock_monotonic_ns() - slot->program_start_ns;
    run->programs_ns += wall_ns;
    if (status == KG_OK && run->observer->program_ended)
        run->observer->program_ended(run->observer->arg, program, wall_ns);
    free_program(slot);
    return status;
}

static enum kg_status on_process_end(struct kg_run *run, struct kg_slot *slot, int wait_status, struct kg_error *err) {
    char what[512];
    describe_end(slot, wait_status, what, sizeof what);
    const bool in_case = slot->in_flight != NULL;
    enum kg_status status = in_case ? end_case_in_flight(run, slot, what, err) : KG_OK;
    const size_t n_waiting = count_waiting(slot->program);
    slot->n_fruitless = slot->n_ended > 0 ? 0 : slot->n_fruitless + 1;
    const int expected_code = slot->any_failed ? KG_EXIT_FAILED : KG_EXIT_OK;
    const bool by_itself = slot->end == KG_SLOT_BY_ITSELF && WIFEXITED(wait_status);
    if (in_case && n_waiting == 0) note_unclean(slot, what, "in its last case");
    else if (!in_case && (n_waiting > 0 || slot->end != KG_SLOT_BY_ITSELF))
        note_unclean(slot, what, n_waiting > 0 ? "with cases left" : "after its last case");
    else if (!in_case && (!by_itself || WEXITSTATUS(wait_status) != expected_code || !slot->done ||
                          kg_line_reader_left(&slot->events) > 0))
        note_unclean(slot, what,
                     slot->any_failed ? "after its last case; with failures 1 was expected"
                                      : "after its last case; 0 was expected");
    free_process(slot);
    if (status == KG_OK && n_waiting > 0 && slot->n_fruitless < 2) return start_process(run, slot, err);
    if (status == KG_OK && n_waiting > 0) status = give_up(run, slot, what, err);
    return status == KG_OK ? close_program(run, slot, err) : status;
}

enum kg_status kg_slot_serve(struct kg_run *run, struct kg_slot *slot, struct kg_error *err) {
    int wait_status = 0;
    const bool ended = kg_child_ended(&slot->child, &wait_status); /* first: all it wrote is there to be read then */
    enum kg_status status = KG_OK;
    do {
        drain_log(slot);
        const bool more = kg_line_reader_fill(&slot->events, slot->child.events_fd);
        status = kg_run_take_events(run, slot, err);
        if (!more) break;
    } while (ended && status == KG_OK && slot->end == KG_SLOT_BY_ITSELF);
    if (status != KG_OK) return status;
    if (ended) status = kg_child_trouble(&slot->child, slot->program->path, err);
    if (status != KG_OK) return status;
    if (ended) return on_process_end(run, slot, wait_status, err);
    if (slot->end == KG_SLOT_BY_ITSELF && kg_clock_monotonic_ns() > slot->deadline_ns) {
        slot->end = KG_SLOT_TIMED_OUT;
        kg_child_kill(&slot->child);
    }
    return KG_OK;
}

void kg_slot_abandon(struct kg_run *run, struct kg_slot *slot) {
    if (!slot->program) return;
    int wait_status;
    run->programs_ns += kg_clock_monotonic_ns() - slot->program_start_ns;
    for (kg_child_kill(&slot->child); slot->child.pid > 0 && !kg_child_ended(&slot->child, &wait_status);)
        poll(NULL, 0, 1);
    free_process(slot);
    free_program(slot);
}
