#include "run/runner.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "measure/gpus.h"
#include "measure/telemetry.h"
#include "run/guard.h"
#include "run/publish.h"
#include "run/run_slot.h"
#include "run/signals.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

enum { MAX_JOBS = 64, TELEMETRY_INTERVAL_MS = 500 };

static enum kg_status plan_line(struct kg_run *run, const json_t *line, struct kg_error *err) {
    return line ? kg_bundle_plan(run->bundle, line, err) : KG_OK;
}

static enum kg_status write_plan(struct kg_run *run, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t p = 0; p < run->plan.n_programs && status == KG_OK; p++) {
        const struct kg_planned_program *program = &run->plan.programs[p];
        status = plan_line(run, program->lists, err);
        for (size_t i = 0; i < program->n_cases && status == KG_OK; i++)
            status = plan_line(run, program->cases[i].line, err);
        if (status == KG_OK) status = plan_line(run, program->ends_cleanly, err);
    }
    return status == KG_OK ? kg_bundle_plan_done(run->bundle, err) : status;
}

/* Waits until something can be read, a child ends, a signal comes, or a limit is reached. */
static void wait_for_something(const struct kg_slot *slots, int n_slots, const struct kg_signals *signals) {
    struct pollfd fds[2 * MAX_JOBS + 1];
    nfds_t n_fds = 0;
    uint64_t deadline_ns = kg_clock_monotonic_ns() + 1000000000u;
    fds[n_fds++] = (struct pollfd){ .fd = signals->fd, .events = POLLIN };
    for (int i = 0; i < n_slots; i++) {
        if (!slots[i].program) continue;
        /* A program may close its ends and live on: a descriptor at its end would be ready for ever. */
        if (!slots[i].events.at_end) fds[n_fds++] = (struct pollfd){ .fd = slots[i].child.events_fd, .events = POLLIN };
        if (!slots[i].log_at_end) fds[n_fds++] = (struct pollfd){ .fd = slots[i].child.log_fd, .events = POLLIN };
        if (slots[i].deadline_ns < deadline_ns) deadline_ns = slots[i].deadline_ns;
    }
    const uint64_t now_ns = kg_clock_monotonic_ns();
    poll(fds, n_fds, deadline_ns > now_ns ? (int)((deadline_ns - now_ns) / 1000000u) + 1 : 0);
}

static int by_length(const void *a, const void *b) {
    const struct kg_planned_program *x = *(struct kg_planned_program *const *)a,
                                    *y = *(struct kg_planned_program *const *)b;
    if (x->longest_s != y->longest_s) return x->longest_s > y->longest_s ? -1 : 1;
    if (x->n_cases != y->n_cases) return x->n_cases > y->n_cases ? -1 : 1;
    return x < y ? -1 : x > y; /* the plan's order */
}

/* The order to start programs in: the plan's, and those that judge times at the end. Of several at a time, the
 * longest by what is known before begin first, so that no processor waits for one that came last. malloc'ed. */
static struct kg_planned_program **order_programs(struct kg_case_plan *plan, int n_slots) {
    struct kg_planned_program **order = kg_xcalloc(plan->n_programs + 1, sizeof(struct kg_planned_program *));
    size_t n = 0;
    for (size_t i = 0; i < plan->n_programs; i++)
        if (!plan->programs[i].timed) order[n++] = &plan->programs[i];
    if (n_slots > 1) qsort(order, n, sizeof(struct kg_planned_program *), by_length);
    for (size_t i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].timed) order[n++] = &plan->programs[i];
    return order;
}

/* Fills free slots; a program that judges times waits until no other runs. */
static enum kg_status open_programs(struct kg_run *run, struct kg_slot *slots, int n_slots,
                                    struct kg_planned_program **order, size_t *next, struct kg_error *err) {
    int n_busy = 0;
    for (int i = 0; i < n_slots; i++) n_busy += slots[i].program != NULL;
    enum kg_status status = KG_OK;
    for (int i = 0; i < n_slots && status == KG_OK; i++) {
        while (status == KG_OK && !slots[i].program && order[*next] && (n_busy == 0 || !order[*next]->timed)) {
            status = kg_slot_open(run, &slots[i], order[(*next)++], err);
            n_busy += slots[i].program != NULL;
        }
    }
    return status;
}

static enum kg_status run_programs(struct kg_run *run, const struct kg_signals *signals, int *interrupted_by,
                                   struct kg_error *err) {
    struct kg_slot slots[MAX_JOBS];
    const int n_slots = run->options->n_jobs < MAX_JOBS ? run->options->n_jobs : MAX_JOBS;
    for (int i = 0; i < n_slots; i++) slots[i] = (struct kg_slot){ .child = KG_CHILD_NONE };
    struct kg_planned_program **order = order_programs(&run->plan, n_slots);
    size_t next = 0;
    enum kg_status status = KG_OK;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (;;) {
        for (int i = 0; i < n_slots && status == KG_OK; i++)
            if (slots[i].program && !run->stops) status = kg_slot_serve(run, &slots[i], err);
        if (status == KG_OK && !run->stops) status = open_programs(run, slots, n_slots, order, &next, err);
        bool busy = false;
        for (int i = 0; i < n_slots; i++) busy = busy || slots[i].program;
        *interrupted_by = kg_signals_take(signals);
        if (status != KG_OK || *interrupted_by || run->stops || !busy) break;
        /* Nothing is left to be read: the time until the programs go on belongs to the disk. */
        status = kg_bundle_sync(run->bundle, err);
        if (status == KG_OK) wait_for_something(slots, n_slots, signals);
    }
    for (int i = 0; i < n_slots; i++) kg_slot_abandon(run, &slots[i]);
    int unheard;
    kg_guard_end_all(0, &unheard); /* of a guard that was killed */
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    free(order);
    return status;
}

/* Other users may pass through it, as through /tmp, and not look into it: cases act as another user in folders of their
 * own below, which nobody else may enter unless such a case opens them. */
static enum kg_status make_scratch(struct kg_run *run, struct kg_error *err) {
    const char *parent = getenv("TMPDIR");
    char *path = kg_path_join(parent && *parent ? parent : "/tmp", "kigo-check-XXXXXX");
    if (!mkdtemp(path) || chmod(path, 0711) != 0) {
        const enum kg_status status = kg_fail(err, KG_ERR_IO, "no scratch folder %s: %s", path, strerror(errno));
        free(path);
        return status;
    }
    run->scratch = path;
    return KG_OK;
}

static enum kg_status measure_overhead(struct kg_run *run, uint64_t start_ns, uint64_t loop_ns,
                                       struct kg_run_outcome *outcome, struct kg_error *err) {
    outcome->wall_ns = kg_clock_monotonic_ns() - start_ns;
    outcome->in_cases_ns = run->in_cases_ns;
    /* With several programs at a time their lives add up, and so does the share of each that was not a case. */
    const uint64_t serial_ns = outcome->wall_ns - loop_ns;
    const double spent = (double)serial_ns + (double)run->programs_ns;
    outcome->overhead_ratio = spent > 0 ? (spent - (double)run->in_cases_ns) / spent : 0;
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:i, s:f}", "wall_ns", (json_int_t)outcome->wall_ns, "serial_ns",
                          (json_int_t)serial_ns, "programs_ns", (json_int_t)run->programs_ns, "in_cases_ns",
                          (json_int_t)run->in_cases_ns, "jobs", run->options->n_jobs, "overhead_ratio",
                          outcome->overhead_ratio);
    kg_bundle_in_cases(run->bundle, (uint64_t)((1 - outcome->overhead_ratio) * (double)outcome->wall_ns));
    char *text = json_dumps(o, JSON_INDENT(2));
    json_decref(o);
    const enum kg_status status = kg_bundle_file(run->bundle, "overhead.json", text, strlen(text), err);
    free(text);
    return status;
}

/* NVML's figures beside the records while programs run; NULL without a GPU. */
static enum kg_status start_telemetry(const struct kg_run *run, struct kg_telemetry **telemetry, struct kg_error *err) {
    char *path = kg_path_join(kg_bundle_dir(run->bundle), "data/telemetry.csv");
    enum kg_status status = kg_telemetry_start(path, TELEMETRY_INTERVAL_MS, telemetry, err);
    if (status == KG_ERR_UNSUPPORTED) status = KG_OK;
    free(path);
    return status;
}

static enum kg_status create_bundle(struct kg_run *run, struct kg_error *err) {
    struct kg_bundle_options options = run->options->bundle;
    struct kg_error why;
    json_t *gpus = kg_gpus_json(&why);
    options.gpus = gpus;
    options.gpus_why = why.message;
    const enum kg_status status = kg_bundle_create(&options, &run->bundle, err);
    json_decref(gpus);
    return status;
}

/* The programs' TMPDIR is there while they run, and signals are events: one that ends kigo before leaves no folder. */
static enum kg_status run_planned(struct kg_run *run, struct kg_child_surroundings *around, uint64_t start_ns,
                                  struct kg_run_outcome *outcome, struct kg_error *err) {
    struct kg_signals signals = KG_SIGNALS_CLOSED;
    enum kg_status status = create_bundle(run, err);
    if (status != KG_OK) return status;
    outcome->bundle_id = kg_xstrdup(kg_bundle_id(run->bundle));
    status = write_plan(run, err);
    if (status == KG_OK) status = kg_signals_open(&signals, err);
    if (status == KG_OK) status = make_scratch(run, err);
    around->scratch = run->scratch;
    if (status == KG_OK && run->observer->planned) run->observer->planned(run->observer->arg, &run->plan, run->bundle);
    const uint64_t loop_start_ns = kg_clock_monotonic_ns();
    struct kg_telemetry *telemetry = NULL;
    if (status == KG_OK) status = start_telemetry(run, &telemetry, err);
    if (status == KG_OK) status = run_programs(run, &signals, &outcome->interrupted_by, err);
    const enum kg_status telemetry_status = kg_telemetry_stop(telemetry, status == KG_OK ? err : NULL);
    if (status == KG_OK) status = telemetry_status;
    const uint64_t loop_ns = kg_clock_monotonic_ns() - loop_start_ns;
    if (status == KG_OK) status = measure_overhead(run, start_ns, loop_ns, outcome, err);
    if (status == KG_OK && run->observer->before_seal)
        status = run->observer->before_seal(run->observer->arg, run->bundle, err);
    const uint64_t seal_start_ns = kg_clock_monotonic_ns();
    if (status == KG_OK) status = kg_run_seal(run->bundle, &outcome->summary, err);
    outcome->seal_ns = kg_clock_monotonic_ns() - seal_start_ns;
    if (status != KG_OK)
        kg_error_context(err, status, "run %s stopped ('kigo recover' publishes what there is)", outcome->bundle_id);
    outcome->bundle_dir = kg_xstrdup(kg_bundle_dir(run->bundle));
    outcome->exit_code = outcome->interrupted_by ? KG_EXIT_INCOMPLETE : outcome->summary.exit_code;
    outcome->stopped = run->stops && outcome->summary.n_norun > 0;
    if (outcome->stopped && !outcome->interrupted_by) outcome->exit_code = KG_EXIT_FAILED;
    if (outcome->exit_code == KG_EXIT_OK && outcome->summary.unsigned_after_all) outcome->exit_code = KG_EXIT_INTEGRITY;
    struct kg_error why;
    if (run->scratch && kg_path_remove(run->scratch, &why) != KG_OK && status == KG_OK)
        status = kg_fail(err, KG_ERR_IO, "the programs' scratch folder: %s", why.message);
    kg_signals_close(&signals);
    kg_bundle_close(run->bundle);
    return status;
}

enum kg_status kg_run(const struct kg_run_options *given, const struct kg_run_observer *observer,
                      struct kg_run_outcome *outcome, struct kg_error *err) {
    const uint64_t start_ns = kg_clock_monotonic_ns();
    *outcome = (struct kg_run_outcome){ 0 };
    struct kg_run_options options = *given;
    struct kg_run run = { .options = &options, .observer = observer };
    enum kg_status status =
        kg_case_plan_make(options.suites_dir, &options.selection, &options.surroundings, &run.plan, err);
    if (status == KG_OK) status = run_planned(&run, &options.surroundings, start_ns, outcome, err);
    kg_case_plan_free(&run.plan);
    free(run.scratch);
    if (status != KG_OK) kg_run_outcome_free(outcome);
    return status;
}

void kg_run_outcome_free(struct kg_run_outcome *outcome) {
    free(outcome->bundle_id);
    free(outcome->bundle_dir);
    *outcome = (struct kg_run_outcome){ 0 };
}
