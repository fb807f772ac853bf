/* What the haiku suites share: the fixtures on each back end, and the making of cases over them. */
#ifndef KIGO_SUITES_STAGE_H
#define KIGO_SUITES_STAGE_H

#include "suites/support/haiku_evidence.h"
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

/* A model for each architecture. There is no trained llama: the one here is qwen2's, rewritten (as_llama.h). */
struct kg_haiku_model {
    const char *architecture;
    const char *file, *golden;        /* below fixtures/ */
    const struct kg_haiku_chat *chat; /* as its chat format spells a request */
    int at_least;                     /* valid haiku of 60 minutes */
    bool as_llama;
};
extern const struct kg_haiku_model KG_HAIKU_MODELS[];
extern const size_t KG_HAIKU_N_MODELS; /* the first is KG_HAIKU_MODEL */

/* A fixture on a target, opened once in a process. */
struct kg_haiku_stage {
    struct kg_engine_poet engine;
    struct kg_haiku_bench bench;
    const struct kg_haiku_model *model;
};

/* What a case is about: one row of a table, on one target. */
struct kg_haiku_arg {
    size_t target; /* index in KG_HAIKU_TARGETS */
    size_t model;  /* index in KG_HAIKU_MODELS */
    int minute;    /* KG_CURRENT_MINUTE: of the clock */
    double temperature;
    const void *row;
};
enum { KG_CURRENT_MINUTE = -1 };

/* NULL, with the case skipped and the reason given, if the back end is not there; fails the case on any other error. */
struct kg_haiku_stage *kg_haiku_stage_open(struct kg_record *rec, size_t target, size_t model);

/* Adds a case of layer "haiku" that proves FT-050; shape may be NULL. */
void kg_haiku_add(struct kg_case_list *list, const char *op, const char *name, const char *shape,
                  const char *definition, void (*run)(struct kg_record *, const void *), struct kg_haiku_arg arg);

#endif
