/* The journal and records of one case of a run. */
#include "base/buffer.h"
#include "base/utf8.h"
#include "run/failure.h"
#include "run/result_lists.h"
#include "run/run_state.h"
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *line, const char *field) {
    return json_string_value(json_object_get(line, field));
}

enum kg_status kg_run_case_start(struct kg_run *run, const json_t *plan_line, struct kg_error *err) {
    const char *key = text_of(plan_line, "key");
    const enum kg_status status = kg_bundle_start(run->bundle, key, err);
    if (status == KG_OK && run->observer->case_started) run->observer->case_started(run->observer->arg, key);
    return status;
}

/* Moves the raw samples of every timing to samples.bin; the record keeps where they begin. */
static enum kg_status move_samples(struct kg_run *run, json_t *lists, struct kg_error *err) {
    enum kg_status status = KG_OK;
    size_t i;
    json_t *timing;
    json_array_foreach(json_object_get(lists, "timings"), i, timing) {
        const json_t *samples = json_object_get(timing, "samples");
        const size_t n = json_array_size(samples);
        float *values = kg_xcalloc(n + 1, sizeof *values);
        for (size_t s = 0; s < n; s++) values[s] = (float)json_number_value(json_array_get(samples, s));
        uint64_t offset = 0;
        status = kg_bundle_samples(run->bundle, values, n, &offset, err);
        free(values);
        if (status != KG_OK) return status;
        json_object_set_new(timing, "samples_offset", json_integer((json_int_t)offset));
        json_object_del(timing, "samples");
    }
    return status;
}

/* What the program said, judged: a pass that its own figures deny is a failure, and so is a skip that --require-gpu
 * forbids. *reason is replaced (malloc'ed into *own). */
static const char *judge(const struct kg_run *run, const struct kg_case_finish *f, const char **reason, char **own) {
    const char *outside = kg_result_lists_outside(f->lists);
    const char *backend = text_of(f->plan_line, "backend");
    if (strcmp(f->status, "pass") == 0 && outside) {
        *reason = *own = kg_xasprintf("it passed although '%s' is outside its tolerance", outside);
        return "fail";
    }
    if (strcmp(f->status, "skip") == 0 && run->options->require_gpu && backend && strcmp(backend, "cuda") == 0) {
        *reason = *own = kg_xasprintf("skipped under --require-gpu: %s", f->reason);
        return "fail";
    }
    return f->status;
}

static enum kg_status record(struct kg_run *run, const struct kg_case_finish *f, struct kg_error *err) {
    json_t *result = json_pack("{s:O, s:s, s:s?, s:O, s:I, s:I}", "key", json_object_get(f->plan_line, "key"), "status",
                               f->status, "reason", f->reason, "seed", json_object_get(f->plan_line, "seed"),
                               "started_us", (json_int_t)f->started_us, "duration_ns", (json_int_t)f->duration_ns);
    json_object_update(result, f->lists);
    const enum kg_status status = kg_bundle_end(run->bundle, result, err);
    json_decref(result);
    return status;
}

enum kg_status kg_run_case_finish(struct kg_run *run, const struct kg_case_finish *finish, struct kg_error *err) {
    struct kg_case_finish f = *finish;
    const char *key = text_of(f.plan_line, "key");
    char *own_reason = NULL;
    char *rerun = kg_failure_rerun(run->options, key);
    struct kg_buffer reason = KG_BUFFER_INIT;
    f.status = judge(run, finish, &f.reason, &own_reason);
    if (f.reason) { /* it may quote what a program wrote, cut anywhere */
        kg_utf8_append(&reason, f.reason, strlen(f.reason));
        f.reason = kg_buffer_text(&reason);
    }
    enum kg_status status = move_samples(run, f.lists, err);
    /* The failure's files first: once the result is on disk, so is what explains it. */
    if (status == KG_OK && strcmp(f.status, "pass") != 0 && strcmp(f.status, "skip") != 0)
        status = kg_failure_write(run, &f, rerun, err);
    if (status == KG_OK) status = record(run, &f, err);
    if (strcmp(f.status, "pass") != 0 && strcmp(f.status, "skip") != 0) run->stops = run->options->stop_at_failure;
    if (status == KG_OK && run->observer->case_ended) {
        const struct kg_case_end end = {
            .key = key,
            .suite = text_of(f.plan_line, "suite"),
            .status = f.status,
            .reason = f.reason,
            .seed = text_of(f.plan_line, "seed"),
            .rerun = rerun,
            .duration_ns = f.duration_ns,
        };
        run->observer->case_ended(run->observer->arg, &end);
    }
    run->in_cases_ns += f.duration_ns;
    json_decref(f.lists);
    kg_buffer_free(&reason);
    free(rerun);
    free(own_reason);
    return status;
}
