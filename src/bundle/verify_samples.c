/* What a timing says of its samples follows from samples.bin. */
#include "base/buffer.h"
#include "bundle/internal.h"
#include "bundle/limits.h"
#include "bundle/records.h"
#include "bundle/stored.h"
#include "bundle/verify.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdlib.h>

/* Samples are stored as float32, statistics are of what was measured: a nanosecond in 2^24. */
static const double ROUNDING = 1e-6;

static void check_statistics(const char *key, const json_t *timing, const float *samples, size_t n,
                             struct kg_bundle_findings *findings) {
    double *values = kg_xcalloc(n, sizeof *values);
    struct kg_statistics s;
    for (size_t i = 0; i < n; i++) values[i] = (double)samples[i];
    kg_statistics_compute(values, n, &s);
    free(values);
    const struct {
        const char *name;
        double value;
    } rows[] = { { "median", s.median }, { "mad", s.mad }, { "ci_lo", s.ci_lo },
                 { "ci_hi", s.ci_hi },   { "min", s.min }, { "max", s.max } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double said = kg_json_number(timing, rows[i].name, NAN);
        if (!(fabs(said - rows[i].value) <= ROUNDING * s.max))
            kg_finding_add(findings, "samples", "data/results.ndjson", "'%s': %s is %.9g, its samples say %.9g", key,
                           rows[i].name, said, rows[i].value);
    }
}

/* samples.bin, and how many of its samples no timing had so far. */
struct recorded {
    const float *samples;
    uint64_t n, n_left;
};

/* A sample belongs to one timing: so the statistics of all of them cost what the file's size allows. */
static void check_timing(const char *key, const json_t *timing, struct recorded *recorded,
                         struct kg_bundle_findings *findings) {
    const uint64_t n_samples = recorded->n;
    const int64_t offset = kg_json_int(timing, "samples_offset", -1), n = kg_json_int(timing, "n", 0);
    if (n == 0) return;
    if (offset < 0 && !json_object_get(timing, "samples_offset"))
        kg_finding_add(findings, "samples", "data/results.ndjson",
                       "'%s': a timing of %lld samples has no \"samples_offset\"", key, (long long)n);
    else if (offset < 0 || n < 0 || (uint64_t)offset > n_samples || (uint64_t)n > n_samples - (uint64_t)offset)
        kg_finding_add(findings, "samples", "data/results.ndjson",
                       "'%s': samples %lld + %lld lie outside of the %llu recorded", key, (long long)offset,
                       (long long)n, (unsigned long long)n_samples);
    else if ((uint64_t)n > recorded->n_left)
        kg_finding_add(findings, "samples", "data/results.ndjson",
                       "'%s': its %lld samples, with those of timings before, are more than the %llu recorded", key,
                       (long long)n, (unsigned long long)n_samples);
    else {
        recorded->n_left -= (uint64_t)n;
        check_statistics(key, timing, recorded->samples + offset, (size_t)n, findings);
    }
}

void kg_verify_samples(const char *dir, const struct kg_records *records, struct kg_bundle_findings *findings) {
    char *bytes = NULL;
    size_t n_bytes = 0;
    struct kg_error why;
    const enum kg_status status = kg_stored_read(dir, "data/samples.bin", KG_MAX_SAMPLE_BYTES, &bytes, &n_bytes, &why);
    if (status != KG_OK && status != KG_ERR_NOT_FOUND)
        kg_finding_add(findings, status == KG_ERR_FORMAT ? "limit" : "unreadable", "data/samples.bin", "%s",
                       why.message);
    const size_t n = n_bytes / sizeof(float);
    struct recorded recorded = { (const float *)(const void *)bytes, n, n }; /* aligned, as malloc made it */
    for (size_t i = 0; i < records->n_cases; i++) {
        const json_t *timings = records->cases[i].result ? json_object_get(records->cases[i].result, "timings") : NULL;
        for (size_t k = 0; k < json_array_size(timings); k++)
            check_timing(records->cases[i].key, json_array_get(timings, k), &recorded, findings);
    }
    free(bytes);
}
