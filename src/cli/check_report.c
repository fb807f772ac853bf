#include "cli/check_report.h"
#include "base/say.h"
#include "bundle/export.h"
#include "base/buffer.h"
#include "base/quantity.h"
#include "base/json_put.h"
#include "base/tty.h"
#include "bundle/records.h"
#include "cli/skip_groups.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_COLUMNS = 60 };

void kg_check_report_init(struct kg_check_report *r, const json_t *run, enum kg_check_format format) {
    *r = (struct kg_check_report){ .run = run,
                                   .format = format,
                                   .on_terminal = format != KG_CHECK_QUIET && isatty(STDERR_FILENO),
                                   .not_passed = json_array() };
}

void kg_check_report_free(struct kg_check_report *r) {
    json_decref(r->not_passed);
    free(r->programs);
}

static bool is_text(const struct kg_check_report *r) {
    return r->format == KG_CHECK_TEXT || r->format == KG_CHECK_VERBOSE;
}

static void wipe_line(const struct kg_check_report *r) {
    if (r->on_terminal) kg_say(stderr, "\r\033[K");
}

static void on_planned(void *arg, const struct kg_case_plan *plan, const struct kg_bundle *bundle) {
    struct kg_check_report *r = arg;
    r->n_planned = plan->n_cases;
    r->plan = plan;
    r->programs = kg_xcalloc(plan->n_programs, sizeof *r->programs);
    if (r->format == KG_CHECK_TAP) kg_say(stdout, "TAP version 13\n1..%zu\n", plan->n_cases);
    if (is_text(r)) kg_say(stdout, "run %s: %zu cases\n", kg_bundle_id(bundle), plan->n_cases);
    fflush(stdout);
}

static void on_case_started(void *arg, const char *key) {
    const struct kg_check_report *r = arg;
    if (!r->on_terminal) return;
    kg_say(stderr, "\r\033[K[%zu/%zu] %.*s", r->n_ended, r->n_planned, KEY_COLUMNS, key);
    fflush(stderr);
}

/* A JSON string is also a YAML scalar, whatever the text holds. */
static void print_yaml(const char *name, const char *text) {
    json_t *string = kg_json_utf8(text);
    kg_say(stdout, "  %s: ", name);
    kg_say_json(string, JSON_ENCODE_ANY);
    json_decref(string);
}

/* The text's first line. */
static int first_line(const char *text) {
    return (int)strcspn(text, "\n");
}

static void print_tap(const struct kg_check_report *r, const struct kg_case_end *end, bool failed) {
    struct kg_buffer line = KG_BUFFER_INIT;
    kg_escape_printf(&line, KG_MEDIUM_TAP, "%s %zu - %s", failed ? "not ok" : "ok", r->n_ended, end->key);
    if (strcmp(end->status, "skip") == 0)
        kg_escape_printf(&line, KG_MEDIUM_TAP, " # SKIP %.*s", first_line(end->reason), end->reason);
    kg_buffer_puts(&line, "\n");
    kg_out_put(stdout, line.data, line.len);
    kg_buffer_free(&line);
    if (failed) {
        kg_say(stdout, "  ---\n");
        print_yaml("status", end->status);
        print_yaml("message", end->reason);
        print_yaml("seed", end->seed);
        print_yaml("rerun", end->rerun);
        kg_say(stdout, "  ...\n");
    }
    fflush(stdout);
}

static struct kg_check_tally *tally_of(const struct kg_check_report *r, const char *program) {
    size_t i = 0;
    while (i + 1 < r->plan->n_programs && strcmp(r->plan->programs[i].name, program) != 0) i++;
    return &r->programs[i];
}

static void on_case_ended(void *arg, const struct kg_case_end *end) {
    struct kg_check_report *r = arg;
    const bool passed = strcmp(end->status, "pass") == 0, skipped = strcmp(end->status, "skip") == 0;
    const bool failed = !passed && !skipped;
    r->n_ended++;
    struct kg_check_tally *const tallies[] = { &r->all, tally_of(r, end->suite) };
    for (size_t i = 0; i < sizeof tallies / sizeof *tallies; i++) {
        tallies[i]->n_pass += passed;
        tallies[i]->n_skip += skipped;
        tallies[i]->n_fail += failed;
    }
    if (!passed)
        json_array_append_new(r->not_passed,
                              json_pack("{s:s, s:s, s:s, s:s, s:o}", "key", end->key, "status", end->status, "reason",
                                        end->reason, "seed", end->seed, "rerun", kg_json_utf8(end->rerun)));
    wipe_line(r);
    if (r->format == KG_CHECK_TAP) print_tap(r, end, failed);
    if (r->format == KG_CHECK_VERBOSE && !failed) {
        kg_colour_say(stdout, end->status);
        kg_say(stdout, " %s  %s", end->key, kg_quantity_time((double)end->duration_ns).text);
        if (skipped) kg_say(stdout, "  (%.*s)", first_line(end->reason), end->reason);
        kg_say(stdout, "\n");
        fflush(stdout);
    }
    if (failed && (is_text(r) || r->format == KG_CHECK_QUIET)) {
        kg_colour_say(stdout, end->status);
        kg_say(stdout, " %s\n    %.*s\n    again: %s\n", end->key, first_line(end->reason), end->reason, end->rerun);
        fflush(stdout);
    }
}

static void on_program_ended(void *arg, const struct kg_planned_program *program, uint64_t wall_ns) {
    const struct kg_check_report *r = arg;
    if (!is_text(r)) return;
    const struct kg_check_tally *tally = tally_of(r, program->name);
    wipe_line(r);
    kg_say(stdout, "%-40s %4zu passed, %zu failed, %zu skipped  %.2f s\n", program->name, tally->n_pass, tally->n_fail,
           tally->n_skip, (double)wall_ns / 1e9);
    fflush(stdout);
}

struct kg_run_observer kg_check_report_observer(struct kg_check_report *r) {
    return (struct kg_run_observer){ r, on_planned, on_case_started, on_case_ended, on_program_ended, NULL };
}

/* Skips by their reason; TAP and the bundle hold them all. */
static void print_skips(const struct kg_check_report *r, FILE *out, const char *margin) {
    struct kg_skip_groups skips = { NULL };
    struct kg_buffer text = KG_BUFFER_INIT;
    size_t i;
    json_t *row;
    json_array_foreach(r->not_passed, i, row) {
        if (strcmp(kg_json_text(row, "status"), "skip") == 0)
            kg_skip_groups_add(&skips, "skip", kg_json_text(row, "reason"), kg_json_text(row, "key"));
    }
    kg_skip_groups_put(&skips, margin, KG_MEDIUM_TEXT, &text);
    kg_out_put(out, kg_buffer_text(&text), text.len);
    kg_buffer_free(&text);
    kg_skip_groups_free(&skips);
}

/* The first cases that failed, where a reader of a log's end finds them. */
static void print_failures(const struct kg_check_report *r, FILE *out, const char *margin) {
    enum { SHOWN = 10 };
    size_t i, n = 0;
    json_t *row;
    json_array_foreach(r->not_passed, i, row) {
        const char *status = json_string_value(json_object_get(row, "status"));
        if (strcmp(status, "skip") == 0 || n++ >= SHOWN) continue;
        const char *reason = json_string_value(json_object_get(row, "reason"));
        kg_say(out, "%s%s %s: %.*s\n", margin, status, json_string_value(json_object_get(row, "key")),
               first_line(reason), reason);
    }
    if (n > SHOWN) kg_say(out, "%sand %zu more that did not pass\n", margin, n - SHOWN);
}

/* margin: what every line begins with. */
static void print_summary(const struct kg_check_report *r, const struct kg_run_outcome *o, FILE *out,
                          const char *margin) {
    if (r->format != KG_CHECK_QUIET) {
        print_skips(r, out, margin);
        if (o->interrupted_by)
            kg_say(out, "%sinterrupted by signal %d (%s)\n", margin, o->interrupted_by, strsignal(o->interrupted_by));
        if (o->stopped) kg_say(out, "%sstopped at the first failure (-x)\n", margin);
        if (o->summary.n_norun > 0) kg_say(out, "%s%zu planned cases did not run\n", margin, o->summary.n_norun);
        kg_say(out, "%s%.1f s, %.1f%% of it outside cases; sealed in %.2f s\n", margin, (double)o->wall_ns / 1e9,
               100 * o->overhead_ratio, (double)o->seal_ns / 1e9);
        char sample[KG_SAMPLE_TEXT_SIZE];
        if (kg_sample_text(r->run, sample)) kg_say(out, "%ssample: %s\n", margin, sample);
        kg_say(out, "%sbundle %s (", margin, o->bundle_dir);
        if (*margin) kg_say(out, "%s", o->summary.verdict); /* TAP is for programs */
        else kg_colour_say(out, o->summary.verdict);
        kg_say(out, ")\n");
        if (o->summary.note[0]) kg_say(out, "%s%s\n", margin, o->summary.note);
        print_failures(r, out, margin);
        /* Where the verbs look by themselves, the id is enough. */
        const bool usual_place = strncmp(o->bundle_dir, "proof-bundles/", strlen("proof-bundles/")) == 0;
        struct kg_buffer run = KG_BUFFER_INIT;
        if (usual_place) kg_buffer_puts(&run, o->bundle_id);
        else kg_shell_quote(&run, o->bundle_dir);
        kg_say(out, "%sask next: kigo show %s; kigo verify %s; kigo list\n", margin, run.data, run.data);
        kg_buffer_free(&run);
    }
    kg_say(out, "%s%zu passed, %zu failed, %zu skipped\n", margin, r->all.n_pass, r->all.n_fail, r->all.n_skip);
}

static void print_json(const struct kg_check_report *r, const struct kg_run_outcome *o) {
    const struct kg_bundle_summary *s = &o->summary;
    json_t *object = json_pack(
        "{s:s, s:o, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:f, s:s, s:O}", "bundle_id",
        o->bundle_id, "bundle", kg_json_utf8(o->bundle_dir), "verdict", s->verdict, "exit_code", o->exit_code,
        "planned", (json_int_t)s->n_planned, "pass", (json_int_t)s->n_pass, "fail", (json_int_t)s->n_fail, "skip",
        (json_int_t)s->n_skip, "crash", (json_int_t)s->n_crash, "timeout", (json_int_t)s->n_timeout, "norun",
        (json_int_t)s->n_norun, "interrupted_by", o->interrupted_by, "wall_ns", (json_int_t)o->wall_ns, "seal_ns",
        (json_int_t)o->seal_ns, "in_cases_ns", (json_int_t)o->in_cases_ns, "overhead_ratio", o->overhead_ratio, "note",
        s->note, "not_passed", r->not_passed);
    kg_say_json(object, JSON_COMPACT);
    json_decref(object);
}

void kg_check_report_finish(struct kg_check_report *r, const struct kg_run_outcome *outcome) {
    wipe_line(r);
    if (r->format == KG_CHECK_TAP && outcome->interrupted_by) kg_say(stdout, "Bail out! interrupted\n");
    fflush(stdout);
    if (r->format == KG_CHECK_JSON) print_json(r, outcome);
    else print_summary(r, outcome, stdout, r->format == KG_CHECK_TAP ? "# " : "");
    if (r->format == KG_CHECK_TAP && !isatty(STDOUT_FILENO)) print_summary(r, outcome, stderr, "");
    fflush(stdout);
}

void kg_check_report_error(struct kg_check_report *r, const struct kg_error *err) {
    wipe_line(r);
    if (r->format == KG_CHECK_TAP) kg_say(stdout, "Bail out! %.*s\n", first_line(err->message), err->message);
    fflush(stdout);
}
