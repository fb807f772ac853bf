/* A run judged against its baseline. */
#ifndef KIGO_HISTORY_REGRESS_H
#define KIGO_HISTORY_REGRESS_H

#include "history/detectable.h"
#include "history/run.h"

struct kg_confirmation; /* confirm.h */

/* How suspects are measured again. Whatever fails is a reason why the answer is inconclusive. */
struct kg_regress_again {
    void *context;
    /* Once, before the runs: the builds of these two, of which the first lies in the folder root. */
    enum kg_status (*open)(void *context, const char *root, const struct kg_run_head *run,
                           const struct kg_run_head *baseline, struct kg_error *err);
    /* As of struct kg_again_source; the figures are named. */
    enum kg_status (*run)(void *context, int build, const struct kg_confirmation *const *figures, size_t n_figures,
                          double *values, double *machine, struct kg_error *err);
    bool (*has_time)(void *context, size_t n_open);
    double budget_s; /* INFINITY: none */
};

struct kg_regress_options {
    const char *root;                 /* folder of bundles, or a fleet's shelf (shelf.h) */
    const char *policy_root;          /* whose policy counts; NULL: of root */
    const char *run;                  /* the bundle_id that is judged */
    const char *const *baseline_runs; /* bundle_ids: these are the baseline, at most 20 */
    size_t n_baseline_runs;
    const char *baseline_revision;        /* a commit's runs are; without either: those of the commit's ancestors */
    const char *const *repositories;      /* where to ask git for commits; NULL ends them */
    double least_change;                  /* of a noisy figure, relative: 0.03 */
    int64_t now_us;                       /* waivers end */
    const struct kg_regress_again *again; /* NULL: suspects are only named */
};

enum kg_judged {
    KG_JUDGED_WORSE,
    KG_JUDGED_MISSING,      /* a case, or a figure of one, that the baseline has */
    KG_JUDGED_LOOSER,       /* a limit that is higher or gone, or fewer values compared */
    KG_JUDGED_INCOMPARABLE, /* the case's definition has changed */
    KG_JUDGED_INCONCLUSIVE, /* too little to judge by */
    KG_JUDGED_BETTER,
    KG_JUDGED_NEW,
    KG_JUDGED_COUNT,
};
extern const char *const KG_JUDGED_NAMES[KG_JUDGED_COUNT]; /* "regression", "missing", ... */

struct kg_judgement {
    enum kg_judged judged;
    const char *subject;                  /* "status", "case", "error", "memory", "count", "time", "speed", "kernel" */
    char *key, *figure, *unit;            /* figure and unit: "" where none */
    double before, after;                 /* of a figure; NaN where none */
    char before_text[16], after_text[16]; /* of a status; else "" */
    double change;                        /* relative, freed of drift; NaN where none */
    double z, z_limit;                    /* of a noisy figure; else NaN */
    size_t n_baseline;                    /* values of the baseline it was held against */
    bool noisy, waived;
    char *why;
    char *skip_reason; /* of a status that is, or was, a skip: why; else NULL */
};

struct kg_regression {
    struct kg_run_head run;
    struct kg_run_heads baseline;    /* newest first */
    size_t n_not_counted;            /* runs that would have been in it, and do not count (bundle/standing.h) */
    char why_not_counted[256];       /* the newest of them */
    char *other_key;                 /* members of the comparison key in which a given baseline differs; "" if none */
    struct kg_judgement *judgements; /* those that count first, then by how far they went */
    size_t n_judgements;
    size_t build_against;          /* the baseline run whose build flagged figures should be measured against */
    struct kg_confirmation *again; /* figures measured again: confirmed, undecided, or flagged by the run */
    size_t n_again, n_again_all, n_again_left_out; /* all: those too that were only suspects, and were refuted */
    struct kg_unseen unseen[KG_UNSEEN_MOST];       /* what one run could not have shown of times and rates */
    const char *unseen_worst[KG_UNSEEN_MOST];      /* keys of their worst cases */
    size_t n_unseen;
    size_t n_cases, n_exact, n_noisy; /* that were compared */
    size_t n_other_seed;              /* figures left out: the seed differs */
    struct kg_drift *drifts;
    size_t n_drifts;
    char *selfcheck; /* what the newest selfcheck on this machine and build found, as JSON; NULL: there is none */
    char **reasons;  /* why it is inconclusive, a sentence each */
    size_t n_reasons;
    struct kg_catalogue catalogue;  /* what names point into */
    size_t counts[KG_JUDGED_COUNT]; /* without waived ones */
    size_t n_waived, n_red_waived;  /* n_red_waived: that would have been red */
    char *waived_by;              /* whose annotations waive these, "a (signed by b), c (not signed)"; NULL: nobody's */
    size_t n_annotations_dropped; /* that the store's policy does not follow */
    int exit_code;                /* KG_EXIT_FAILED: worse or missing; KG_EXIT_INCONCLUSIVE; KG_EXIT_OK */
};

/* KG_ERR_NOT_FOUND for a run or revision that is not there. Whatever cannot be judged is inconclusive, not an error. */
KG_WARN_UNUSED enum kg_status kg_regress(struct kg_history *history, const struct kg_regress_options *options,
                                         struct kg_regression *regression, struct kg_error *err);
void kg_regression_free(struct kg_regression *regression);

#endif
