/* What a run holds in memory; shared by runner.c (processes), run_events.c (what they say) and run_case.c (records). */
#ifndef KIGO_RUN_RUN_STATE_H
#define KIGO_RUN_RUN_STATE_H

#include "run/bounded_log.h"
#include "run/line_reader.h"
#include "run/runner.h"

struct kg_run {
    const struct kg_run_options *options;
    const struct kg_run_observer *observer;
    struct kg_case_plan plan;
    struct kg_bundle *bundle;
    char *scratch;
    bool stops;           /* a case failed, and the run is to stop there */
    uint64_t in_cases_ns; /* sum over cases, as their programs measured it */
    uint64_t programs_ns; /* sum over programs of the time they were alive */
};

enum kg_slot_end { KG_SLOT_BY_ITSELF, KG_SLOT_TIMED_OUT, KG_SLOT_BROKE_PROTOCOL };

/* A program that is being run; it may take several processes if cases end them. */
struct kg_slot {
    struct kg_planned_program *program; /* NULL: the slot is free */
    uint64_t program_start_ns;
    struct kg_bounded_log log;
    unsigned n_fruitless; /* processes in a row that ended without ending a case */
    char *unclean;        /* what went wrong first outside cases, malloc'ed; NULL so far */

    /* Of the process that runs now. */
    struct kg_child child;
    bool log_at_end; /* it closed its standard output and error */
    struct kg_line_reader events;
    size_t n_lines;
    struct kg_planned_case *in_flight;
    uint64_t case_start_ns;
    int64_t case_started_us;
    json_t *attachments; /* file name -> base64 text, of the case in flight */
    uint64_t deadline_ns;
    enum kg_slot_end end;
    char broken[384]; /* how it broke the protocol */
    size_t n_ended;   /* cases */
    bool any_failed;
    bool done;
};

/* run_case.c: the journal and records of one case. `lists` is taken over. */
KG_WARN_UNUSED enum kg_status kg_run_case_start(struct kg_run *run, const json_t *plan_line, struct kg_error *err);
struct kg_case_finish {
    const json_t *plan_line;
    const char *status, *reason; /* reason NULL for a pass */
    json_t *lists;
    const json_t *attachments;        /* may be NULL */
    const struct kg_bounded_log *log; /* may be NULL; its end goes to failures/ */
    int64_t started_us;
    uint64_t duration_ns;
};
KG_WARN_UNUSED enum kg_status kg_run_case_finish(struct kg_run *run, const struct kg_case_finish *finish,
                                                 struct kg_error *err);

/* run_events.c: takes every whole line that has arrived. What a program says wrongly sets slot->end and slot->broken;
 * a status other than KG_OK is the run's own trouble (the bundle). */
KG_WARN_UNUSED enum kg_status kg_run_take_events(struct kg_run *run, struct kg_slot *slot, struct kg_error *err);

/* The limit, from here on, of a phase of `seconds`. */
uint64_t kg_run_deadline(const struct kg_run *run, double seconds);

enum { KG_BETWEEN_CASES_LIMIT_S = 60, KG_AFTER_DONE_LIMIT_S = 30 };

#endif
