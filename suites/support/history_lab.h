/* A folder of made bundles inside a git repository of made commits. */
#ifndef KIGO_SUITES_HISTORY_LAB_H
#define KIGO_SUITES_HISTORY_LAB_H

#include "history/regress.h"
#include "suites/harness/case.h"
#include "suites/support/history_maker.h"

enum { KG_LAB_COMMITS = 30 };

struct kg_history_lab {
    char *root; /* below the repository; holds no bundle yet */
    char *repository;
    char (*commits)[41]; /* a line of commits: each the parent of the next */
    char side[41];       /* a child of commits[5], of which none of commits descends */
    char late[41];       /* a child of side */
    char merge[41];      /* the last of commits with late merged into it */
    int64_t clock_us;    /* of the next run: an hour after the one before */
};

/* In the case's scratch folder, with KG_LAB_COMMITS commits; or in a folder that may have to be made, with 6 or more.
 */
void kg_history_lab_open(struct kg_history_lab *lab, const struct kg_record *rec);
void kg_history_lab_open_in(struct kg_history_lab *lab, const char *dir, size_t n_commits);
void kg_history_lab_close(struct kg_history_lab *lab);

/* Writes a run, started at the lab's clock unless it says when; its id is the caller's to free. */
char *kg_history_lab_run(struct kg_history_lab *lab, struct kg_made_run run);
/* Runs of commits[first] .. commits[first + n - 1], each as `like`. */
void kg_history_lab_runs(struct kg_history_lab *lab, size_t first, size_t n, struct kg_made_run like);

/* Judges the run (NULL: the last written) as if now were the lab's clock; free the result. */
void kg_history_lab_regress(const struct kg_history_lab *lab, const char *run, const char *baseline_run,
                            struct kg_regression *result);
void kg_history_lab_regress_again(const struct kg_history_lab *lab, const char *run, const char *baseline_run,
                                  const struct kg_regress_again *again, struct kg_regression *result);

#endif
