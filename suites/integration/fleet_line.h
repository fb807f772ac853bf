/* Runs of a line of commits, in a folder and in a fleet. From some run on one case takes 8% longer. */
#ifndef KIGO_SUITES_FLEET_LINE_H
#define KIGO_SUITES_FLEET_LINE_H

#include "suites/integration/fleet_lab.h"
#include "suites/support/history_lab.h"

struct kg_fleet_line {
    struct kg_fleet_lab fleet;
    struct kg_history_lab folder;
};
enum { KG_FLEET_LINE_FEWEST = 12 };

/* With a fresh cache. False: the case was marked as skipped. */
bool kg_fleet_line_open(struct kg_fleet_line *line, struct kg_record *rec, size_t n_runs);
void kg_fleet_line_close(struct kg_fleet_line *line);
/* Whoever reads from now on has brought no run yet, by a cache of this name. */
void kg_fleet_line_fresh_cache(struct kg_record *rec, const char *name);

/* The same words, in the same form (NULL: none more), to both: exit code and output are the same, and what is said
 * holds `says`; "@" is the repository. */
void kg_fleet_line_expect(const struct kg_fleet_line *line, const char *const *args, const char *form,
                          const char *says);

/* One more run on the machine of the line in both, of the next commit: the newest is of another one. */
void kg_fleet_line_go_on(struct kg_fleet_line *line, size_t n_runs);

/* Writes a run as those of the line into a folder, of the commit of that number, by the build from before the step or
 * by the one after. */
void kg_fleet_line_measure(struct kg_fleet_line *line, const char *root, size_t commit, bool slower, size_t number);

#endif
