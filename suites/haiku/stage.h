/* What the haiku suites share: the fixture on each back end, and the making of cases over them. */
#ifndef KIGO_SUITES_STAGE_H
#define KIGO_SUITES_STAGE_H

#include "suites/haiku/evidence.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"

#define KG_HAIKU_MODEL "haiku-qwen2/haiku-qwen2-f16.gguf"

/* Every case runs on each of these. */
struct kg_haiku_target {
    const char *backend, *dtype;
    enum kg_precision precision; /* of activations and cache */
};
extern const struct kg_haiku_target KG_HAIKU_TARGETS[];
extern const size_t KG_HAIKU_N_TARGETS;

/* The fixture on a target, opened once in a process. */
struct kg_haiku_stage {
    struct kg_engine_poet engine;
    struct kg_haiku_bench bench;
};

/* What a case is about: one row of a table, on one target. */
struct kg_haiku_arg {
    size_t target; /* index in KG_HAIKU_TARGETS */
    int minute;    /* KG_CURRENT_MINUTE: of the clock */
    double temperature;
    const void *row;
};
enum { KG_CURRENT_MINUTE = -1 };

/* NULL, with the case skipped and the reason given, if the back end is not there; fails the case on any other error. */
struct kg_haiku_stage *kg_haiku_stage_open(struct kg_record *rec, size_t target);

/* Adds a case of layer "haiku" that proves FT-050; shape may be NULL. */
void kg_haiku_add(struct kg_case_list *list, const char *op, const char *name, const char *shape,
                  const char *definition, void (*run)(struct kg_record *, const void *), struct kg_haiku_arg arg);

#endif
