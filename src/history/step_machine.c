#include "history/step_machine.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/stored.h"
#include "measure/statistics.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 3, MAX_FILE_BYTES = 64 << 20 };

/* Columns of telemetry.csv (measure/telemetry.h). */
enum { SM_MHZ = 2, MEMORY_MHZ, POWER_LIMIT_MW = 5, TEMPERATURE_C, THROTTLE_REASONS, N_COLUMNS = 10 };
enum { NOT_THROTTLED = 0x3 }; /* NVML's bits of an idle GPU, and of clocks that an application set */

/* What is looked at: its value is `scale` times the median of a column, or in percent the share of samples that were
 * throttled. It changed where it did by at least `least`, or by that share of what it was. */
static const struct reading {
    const char *name, *unit;
    int column;
    double scale, least, least_share;
} READINGS[] = {
    { "SM clock", "MHz", SM_MHZ, 1, 0, 0.01 },
    { "memory clock", "MHz", MEMORY_MHZ, 1, 0, 0.01 },
    { "power limit", "W", POWER_LIMIT_MW, 1e-3, 0, 0.01 },
    { "temperature", "C", TEMPERATURE_C, 1, 5, 0 },
    { "throttled samples", "%", THROTTLE_REASONS, 1, 10, 0 },
};
enum { N_READINGS = KG_COUNT_OF(READINGS) };

/* Members of env.json, the inner one's object before it. */
static const struct {
    const char *object, *member, *name;
    bool is_gpu, tells; /* tells: its values are read by people */
} FACTS[] = {
    { NULL, "kernel", "kernel", false, true },
    { NULL, "os", "operating system", false, true },
    { NULL, "libraries", "libraries", false, false },
    { NULL, "memory_bytes", "memory", false, false },
    { "cpu", "n_online", "processors", false, false },
    { "cpu", "cgroup_max", "the cgroup's share of processors", false, false },
    { "gpus", "uuid_sha256", "another GPU", true, false },
};

struct kg_step_machine {
    bool is_read;
    double values[N_READINGS]; /* NaN: not known */
    json_t *env;               /* NULL: not known */
};

void kg_step_machines_open(struct kg_step_machines *machines, const char *root, const struct kg_run_heads *line) {
    *machines = (struct kg_step_machines){ root, line, kg_xcalloc(line->n_items + 1, sizeof *machines->items) };
}

void kg_step_machines_close(struct kg_step_machines *machines) {
    for (size_t i = 0; i < machines->line->n_items; i++) json_decref(machines->items[i].env);
    free(machines->items);
}

/* The fields of a line; how many there are. Ends them with NUL. */
static size_t fields_of(char *line, char *fields[N_COLUMNS]) {
    size_t n = 0;
    for (char *at = line, *comma; n < N_COLUMNS; at = comma + 1) {
        fields[n++] = at;
        comma = strchr(at, ',');
        if (!comma) break;
        *comma = '\0';
    }
    return n;
}

static void add_sample(char *const *fields, double *samples[N_READINGS], size_t n[N_READINGS]) {
    for (size_t i = 0; i < N_READINGS; i++) {
        const char *field = fields[READINGS[i].column];
        char *end;
        const double value = strtod(field, &end); /* hexadecimal too */
        if (end == field) continue;
        const bool is_share = READINGS[i].column == THROTTLE_REASONS;
        samples[i][n[i]++] = is_share ? 100 * (((unsigned long long)value & ~(unsigned long long)NOT_THROTTLED) != 0)
                                      : READINGS[i].scale * value;
    }
}

static double mean(const double *values, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += values[i];
    return sum / (double)n;
}

/* Spoils text. */
static void read_telemetry(char *text, double values[N_READINGS]) {
    size_t n_lines = 1, n[N_READINGS] = { 0 };
    double *samples[N_READINGS];
    char *fields[N_COLUMNS], *rest = text;
    for (const char *at = text; (at = strchr(at, '\n')); at++) n_lines++;
    for (size_t i = 0; i < N_READINGS; i++) samples[i] = kg_xcalloc(n_lines, sizeof **samples);
    for (char *line; (line = strsep(&rest, "\n"));)
        if (fields_of(line, fields) == N_COLUMNS && *line >= '0' && *line <= '9') add_sample(fields, samples, n);
    for (size_t i = 0; i < N_READINGS; i++) {
        if (n[i] > 0)
            values[i] = READINGS[i].column == THROTTLE_REASONS ? mean(samples[i], n[i]) : kg_median(samples[i], n[i]);
        free(samples[i]);
    }
}

/* *text is NULL where there is no such file. */
static enum kg_status read_file(const char *dir, const char *relative, char **text, struct kg_error *err) {
    size_t n_bytes;
    *text = NULL;
    const enum kg_status status = kg_stored_read(dir, relative, MAX_FILE_BYTES, text, &n_bytes, err);
    return status == KG_ERR_NOT_FOUND ? KG_OK : status;
}

static enum kg_status machine_at(struct kg_step_machines *machines, size_t run, const struct kg_step_machine **out,
                                 struct kg_error *err) {
    struct kg_step_machine *m = &machines->items[run];
    char *telemetry = NULL, *env = NULL;
    enum kg_status status = KG_OK;
    *out = m;
    if (m->is_read) return KG_OK;
    for (size_t i = 0; i < N_READINGS; i++) m->values[i] = NAN;
    char *dir = kg_path_join(machines->root, machines->line->items[run].bundle_id);
    status = read_file(dir, "data/telemetry.csv", &telemetry, err);
    if (status == KG_OK) status = read_file(dir, "data/env.json", &env, err);
    if (status == KG_OK && telemetry) read_telemetry(telemetry, m->values);
    if (status == KG_OK && env) m->env = json_loads(env, 0, NULL);
    m->is_read = status == KG_OK;
    free(env);
    free(telemetry);
    free(dir);
    return status;
}

struct range {
    double values[SIDE], lo, hi;
    size_t n;
};

static void add_value(struct range *range, double value) {
    if (isnan(value)) return;
    range->lo = range->n > 0 ? fmin(range->lo, value) : value;
    range->hi = range->n > 0 ? fmax(range->hi, value) : value;
    range->values[range->n++] = value;
}

static void put(struct kg_buffer *out, const char *name) {
    kg_buffer_printf(out, "%s%s", out->len > 0 ? ", " : "", name);
}

static void put_reading(const struct reading *r, struct range *before, struct range *after, struct kg_buffer *out) {
    if (before->n == 0 || after->n == 0 || (after->lo <= before->hi && before->lo <= after->hi)) return;
    const double was = kg_median(before->values, before->n), is = kg_median(after->values, after->n);
    if (fabs(is - was) < fmax(r->least, r->least_share * fabs(was))) return;
    put(out, r->name);
    kg_buffer_printf(out, " %.0f to %.0f %s", was, is, r->unit);
}

static const json_t *fact_of(const json_t *env, size_t i) {
    if (!FACTS[i].object) return json_object_get(env, FACTS[i].member);
    const json_t *object = json_object_get(env, FACTS[i].object);
    return json_object_get(json_is_array(object) ? json_array_get(object, 0) : object, FACTS[i].member);
}

static void put_facts(const json_t *before, const json_t *after, bool on_gpu, struct kg_buffer *out) {
    for (size_t i = 0; i < KG_COUNT_OF(FACTS); i++) {
        const json_t *was = fact_of(before, i), *is = fact_of(after, i);
        if (!was || !is || json_equal(was, is) || (FACTS[i].is_gpu && !on_gpu)) continue;
        put(out, FACTS[i].name);
        if (FACTS[i].tells && json_is_string(was) && json_is_string(is))
            kg_buffer_printf(out, " %s to %s", json_string_value(was), json_string_value(is));
    }
}

enum kg_status kg_step_machine_find(struct kg_step_machines *machines, struct kg_found_step *step,
                                    struct kg_error *err) {
    const size_t last = (size_t)(step->last_before - machines->line->items),
                 first = (size_t)(step->first_after - machines->line->items);
    const bool on_gpu = strcmp(step->c->backend, "cuda") == 0;
    const struct kg_step_machine *before, *after;
    struct range ranges[2][N_READINGS] = { 0 };
    struct kg_buffer out = KG_BUFFER_INIT;
    enum kg_status status = KG_OK;
    for (size_t away = SIDE; away-- > 0 && status == KG_OK && on_gpu;) {
        before = after = NULL;
        if (away <= last) status = machine_at(machines, last - away, &before, err);
        if (status == KG_OK && first + away < machines->line->n_items)
            status = machine_at(machines, first + away, &after, err);
        for (size_t i = 0; i < N_READINGS && status == KG_OK; i++) {
            if (before) add_value(&ranges[0][i], before->values[i]);
            if (after) add_value(&ranges[1][i], after->values[i]);
        }
    }
    if (status == KG_OK) status = machine_at(machines, last, &before, err);
    if (status == KG_OK) status = machine_at(machines, first, &after, err);
    if (status == KG_OK) {
        for (size_t i = 0; i < N_READINGS; i++) put_reading(&READINGS[i], &ranges[0][i], &ranges[1][i], &out);
        put_facts(before->env, after->env, on_gpu, &out);
        snprintf(step->machine, sizeof step->machine, "%s", out.len > 0 ? kg_buffer_text(&out) : "");
    }
    kg_buffer_free(&out);
    return status;
}
