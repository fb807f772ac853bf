/* Holding a sprint's criteria against its evidence.
 *
 * A cases criterion is met if at least `at_least` of its cases passed in some run, and none of them failed, crashed or
 * timed out in any. A figure is met if some run has records for it and it holds in every run that has. `missed` is what
 * a record contradicts, `unproven` what no record says: never run, skipped, measured on a GPU that was slowed down, or
 * with the limit inside its interval.
 * Both sides of a figure come from one run. Stories that need a GPU look at runs that had one only. */
#ifndef KIGO_SIGNOFF_JUDGE_H
#define KIGO_SIGNOFF_JUDGE_H

#include "signoff/evidence.h"
#include "signoff/sprint.h"

/* {"sprint", "title", "verdict", "n_met", "n_missed", "n_unproven", "criteria": [...]}: the verdict is that of the
 * worst criterion, `missed` before `unproven` before `met`. A criterion:
 * {"spec", "story", "kind" ("cases" or "figure"), "what", "wanted", "state", "found",
 *  "records": [{"run", "record", "status"} or {"run", "record", "over" (or null), "value", "lo", "hi", "met"}
 *              (of a mean also "mean_of", how many of its "cases")],
 *  "record": of a figure, the key of the worst record, absent if there is none,
 *  "notes": [why a record could not be used]}. The caller's reference. */
json_t *kg_signoff_judge(const struct kg_sprint *sprint, const struct kg_evidence *evidence);

/* The values of a figure in one run, appended to `records`, and to `notes` why a case has none. True if the records are
 * enough to judge by: there are some, and no case is without, or of a mean no more than `at_least` allows, all of those
 * because they were timed on a GPU that was slowed down. */
bool kg_figure_judge(const json_t *figure, const struct kg_evidence_run *run, json_t *records, json_t *notes);

/* Whether a pattern or one of a list matches the key. */
bool kg_patterns_match(const json_t *patterns, const char *key);

#endif
