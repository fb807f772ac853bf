#include "suites/harness/record.h"
#include "base/buffer.h"
#include "base/file.h"
#include "measure/statistics.h"
#include "run/case_key.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kg_record_init(struct kg_record *rec, const struct kg_case *c, const char *key, uint64_t run_seed, int events_fd) {
    *rec = (struct kg_record){ .c = c,
                               .key = key,
                               .seed = kg_case_seed(run_seed, key),
                               .events_fd = events_fd,
                               .errors = json_array(),
                               .timings = json_array(),
                               .metrics = json_array(),
                               .memory = json_array() };
}

void kg_record_clean_up(struct kg_record *rec) {
    if (rec->scratch && kg_path_remove(rec->scratch, NULL) != KG_OK)
        fprintf(stderr, "%s: the scratch folder %s could not be removed\n", rec->key, rec->scratch);
    free(rec->scratch);
    rec->scratch = NULL;
}

void kg_record_free(struct kg_record *rec) {
    kg_record_clean_up(rec);
    for (size_t i = 0; i < rec->n_attachments; i++) {
        free(rec->attachments[i].file_name);
        free(rec->attachments[i].data);
    }
    free(rec->attachments);
    free(rec->skip_reason);
    json_decref(rec->errors);
    json_decref(rec->timings);
    json_decref(rec->metrics);
    json_decref(rec->memory);
}

json_t *kg_record_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

void kg_event_write(int fd, json_t *event) {
    char *text = json_dumps(event, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(event);
    if (!text) {
        fprintf(stderr, "an event could not be written as JSON (text that is not UTF-8?)\n");
        _exit(KG_EXIT_INTERNAL);
    }
    struct kg_buffer line = KG_BUFFER_INIT;
    kg_buffer_printf(&line, "%s\n", text);
    free(text);
    struct kg_error err;
    if (kg_fd_write(fd, line.data, line.len, &err) != KG_OK) _exit(KG_EXIT_INTERNAL);
    kg_buffer_free(&line);
}

uint64_t kg_record_seed(const struct kg_record *rec) {
    return rec->seed;
}

const char *kg_record_key(const struct kg_record *rec) {
    return rec->key;
}

void kg_record_skip(struct kg_record *rec, const char *fmt, ...) {
    char reason[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    free(rec->skip_reason);
    rec->skip_reason = kg_xstrdup(*reason ? reason : "no reason given");
}

void kg_record_metric(struct kg_record *rec, const char *name, const char *unit, double value) {
    json_array_append_new(
        rec->metrics, json_pack("{s:s, s:s, s:o}", "name", name, "unit", unit, "value", kg_record_json_number(value)));
}

void kg_record_timing(struct kg_record *rec, const char *name, const char *kind, const char *state,
                      const uint64_t *samples_ns, size_t n, double bytes, double flops) {
    double *values = kg_xcalloc(n ? n : 1, sizeof *values);
    json_t *samples = json_array();
    for (size_t i = 0; i < n; i++) {
        values[i] = (double)samples_ns[i];
        json_array_append_new(samples, json_integer((json_int_t)samples_ns[i]));
    }
    struct kg_statistics s;
    kg_statistics_compute(values, n, &s);
    free(values);
    json_array_append_new(rec->timings,
                          json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:b, s:o}", "name",
                                    name, "kind", kind, "state", state, "n", (json_int_t)n, "median", s.median, "mad",
                                    s.mad, "ci_lo", s.ci_lo, "ci_hi", s.ci_hi, "min", s.min, "max", s.max, "bytes",
                                    kg_record_json_number(bytes), "flops", kg_record_json_number(flops), "valid", n > 0,
                                    "samples", samples));
}

void kg_record_timing_invalid(struct kg_record *rec) {
    const size_t n = json_array_size(rec->timings);
    if (n > 0) json_object_set_new(json_array_get(rec->timings, n - 1), "valid", json_false());
}

void kg_record_transcript(struct kg_record *rec, kg_json *line) {
    if (rec->events_fd < 0) {
        json_decref(line);
        return;
    }
    kg_event_write(rec->events_fd, json_pack("{s:s, s:s, s:s, s:o}", "event", "transcript", "key", rec->key, "name",
                                             rec->c->layer, "line", line));
}

void kg_record_attach(struct kg_record *rec, const char *file_name, const void *data, size_t size_bytes) {
    rec->attachments = kg_xrealloc(rec->attachments, (rec->n_attachments + 1) * sizeof *rec->attachments);
    struct kg_attachment *a = &rec->attachments[rec->n_attachments++];
    *a = (struct kg_attachment){ kg_xstrdup(file_name), kg_xmalloc(size_bytes + 1), size_bytes };
    if (size_bytes > 0) memcpy(a->data, data, size_bytes);
}
