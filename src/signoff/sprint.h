/* A sprint's acceptance criteria as data (suites/sprints/<name>.json). docs/signoff.md has the format. */
#ifndef KIGO_SIGNOFF_SPRINT_H
#define KIGO_SIGNOFF_SPRINT_H

#include "base/hash.h"
#include <kigo/status.h>
#include <jansson.h>
#include <stdbool.h>

struct kg_sprint {
    json_t *root; /* valid: every present member has the type and the value that docs/signoff.md says */
    const char *name, *title;
    const json_t *stories;
    char sha256[KG_SHA256_HEX_SIZE]; /* of the file */
    bool needs_gpu;                  /* some story does */
};

/* KG_ERR_NOT_FOUND without the file; KG_ERR_SCHEMA naming the member ("stories[2].figures[0].figure: ..."). */
KG_WARN_UNUSED enum kg_status kg_sprint_load(const char *path, struct kg_sprint *sprint, struct kg_error *err);
void kg_sprint_free(struct kg_sprint *sprint);
/* Drops the criteria of cases. */
void kg_sprint_keep_figures(struct kg_sprint *sprint);

/* What a figure is made of. */
enum kg_goal_kind {
    KG_GOAL_VALUE,     /* of */
    KG_GOAL_SPEEDUP,   /* over / of of times, of / over of rates: above 1 is faster */
    KG_GOAL_RATIO,     /* of / over */
    KG_GOAL_REDUCTION, /* 1 - of / over */
    KG_GOAL_ERROR,     /* a field of an error record */
};
enum kg_goal_sense { KG_AT_LEAST, KG_AT_MOST, KG_EQUAL };
struct kg_figure_goal {
    enum kg_goal_kind kind;
    enum kg_goal_sense sense;
    double limit;
    char name[64]; /* "decode_speedup"; of an error the field */
};
/* "<name> >=|<=|== <number>"; the kind is what the name ends in. False if the text is something else. */
bool kg_figure_parse(const char *text, struct kg_figure_goal *goal);
bool kg_figure_met(const struct kg_figure_goal *goal, double value);

#endif
