/* What the verbs that judge runs by a sprint share (signoff, bench --report). */
#ifndef KIGO_CLI_SPRINT_H
#define KIGO_CLI_SPRINT_H

#include "base/buffer.h"
#include "report/report.h"
#include "signoff/sprint.h"
#include <jansson.h>

/* A path as it is; a name is a file of `dir`, if NULL of $KIGO_SPRINTS or the source's suites/sprints. malloc'ed. */
char *kg_cli_sprint_path(const char *dir, const char *sprint);

/* Loads that file; of a name that has none the error lists the names that have one. */
KG_WARN_UNUSED enum kg_status kg_cli_sprint_load(const char *path, const char *sprint, struct kg_sprint *loaded,
                                                 struct kg_error *err);

/* A row for each criterion of the sign-off's document, and a line with verdict and counts that ends in "; where" unless
 * that is NULL. */
void kg_cli_criteria_print(const json_t *document, const char *where, struct kg_buffer *out);

/* The sprint's figures over the sealed run in dir, as kg_cli_criteria_print has them; why the run was refused, if it
 * was. */
KG_WARN_UNUSED enum kg_status kg_cli_figures_print(const struct kg_sprint *sprint, const char *dir,
                                                   struct kg_buffer *out, struct kg_error *err);

/* Of a run that bench --report made: its sprint's figures over its records, counted. False without such a sprint. */
bool kg_cli_goals_count(const struct kg_export *from, struct kg_goal_counts *counts);

#endif
