/* What a running case has said about itself, as the lists of its result record (bundle.h). */
#ifndef KIGO_SUITES_RECORD_H
#define KIGO_SUITES_RECORD_H

#include "suites/harness/case.h"
#include <jansson.h>
#include <stdbool.h>

struct kg_attachment {
    char *file_name;
    void *data;
    size_t size_bytes;
};

struct kg_record {
    const struct kg_case *c;
    const char *key;
    uint64_t seed;
    int events_fd; /* -1 by hand */
    json_t *errors, *timings, *metrics, *memory;
    char *skip_reason; /* NULL: not skipped */
    struct kg_attachment *attachments;
    size_t n_attachments;
    char *scratch; /* NULL until asked for */
};

void kg_record_init(struct kg_record *rec, const struct kg_case *c, const char *key, uint64_t run_seed, int events_fd);
void kg_record_free(struct kg_record *rec);
void kg_record_clean_up(struct kg_record *rec); /* removes the scratch folder */

/* A JSON real, or null for NaN and infinities, which JSON cannot say. */
json_t *kg_record_json_number(double value);

/* Writes one event line to the runner; a runner that is gone ends the process (its results have no reader). */
void kg_event_write(int fd, json_t *event); /* takes over the reference */

#endif
