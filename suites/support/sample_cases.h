/* Draws of a back end, one at a time, for cases that compare them with the reference or with what must come out. */
#ifndef KIGO_SUITES_SAMPLE_CASES_H
#define KIGO_SUITES_SAMPLE_CASES_H

#include "base/rng.h"
#include "suites/support/op_device.h"

struct kg_sample_device {
    struct kg_op_device op;
    const struct kg_draw_ops *draws;
    void *mailbox;
    float *logits;    /* in the back end's memory, like the next two */
    int32_t *history; /* one longer than the longest there may be */
    int32_t *next;
    uint32_t sequence;
};

enum { KG_SAMPLE_MAX_HISTORY = 300 };

/* Room for rows of n_max logits. NULL for draws: the back end's own (of the cpu: the reference). False after a skip. */
bool kg_sample_device_open(struct kg_record *rec, const char *backend, const struct kg_draw_ops *draws, uint32_t n_max,
                           struct kg_sample_device *d);
void kg_sample_device_close(struct kg_sample_device *d);

struct kg_sample_problem {
    const float *logits;
    uint32_t n_vocab, n_drawable;
    struct kg_sampler_options options;
    double uniform;
    const int32_t *history;
    uint32_t n_history;
};

/* The logits to the back end; they stay for any number of draws. */
void kg_sample_put(struct kg_sample_device *d, const struct kg_sample_problem *p);
/* Fails the case if the id is not what was put at the history's end and in `next` too, a bad row's as 0. */
struct kg_sample_result kg_sample_run(struct kg_sample_device *d, const struct kg_sample_problem *p);
struct kg_sample_result kg_sample_reference(const struct kg_sample_problem *p);

/* A problem of up to n_max logits, of all kinds: normal, in steps (ties), all equal, nearly equal; options of all
 * kinds, the absurd included; every logit finite. Its arrays are the two given. */
struct kg_sample_problem kg_sample_random(struct kg_rng *rng, uint32_t n_max, float *logits,
                                          int32_t history[KG_SAMPLE_MAX_HISTORY]);

/* How many of n random problems come out otherwise than by the reference. first: room for a text about the first. */
size_t kg_sample_count_wrong(struct kg_sample_device *d, uint64_t seed, size_t n, uint32_t n_max, char first[256]);

#endif
