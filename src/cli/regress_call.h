/* What regress, confirm and selfcheck share: naming the run and its baseline, and telling what was found. */
#ifndef KIGO_CLI_REGRESS_CALL_H
#define KIGO_CLI_REGRESS_CALL_H

#include "cli/asked.h"
#include "cli/rows.h"
#include "history/regress.h"

struct kg_regress_call {
    const char *bundles, *history, *baseline, *repository; /* history: a fleet's */
    double least_change_percent;
    const struct kg_regress_again *again; /* NULL: suspects are only named */
};
#define KG_REGRESS_CALL_INIT                                                                                           \
    { .least_change_percent = 3 }

/* A row of a table of options. */
#define KG_LEAST_CHANGE_OPTION(variable)                                                                               \
    {                                                                                                                  \
        .name = "least-change", .kind = KG_OPTION_DOUBLE, .value = (variable), .metavar = "PERCENT",                   \
        .help = "smallest change of a time or rate that is of interest (3)", .min = 0.01, .max = 100                   \
    }
/* Rows of one. */
#define KG_REGRESS_OPTIONS(call)                                                                                       \
    { .name = "baseline",                                                                                              \
      .kind = KG_OPTION_TEXT,                                                                                          \
      .value = &(call)->baseline,                                                                                      \
      .metavar = "RUN|REV",                                                                                            \
      .help = "judge against this run, or the runs of this commit (the last 20 of ancestors)" },                       \
        { .name = "repo",                                                                                              \
          .kind = KG_OPTION_TEXT,                                                                                      \
          .value = &(call)->repository,                                                                                \
          .metavar = "DIR",                                                                                            \
          .help = "git repository that knows the commits (the bundles' own, or the working folder's)" },               \
        KG_LEAST_CHANGE_OPTION(&(call)->least_change_percent), KG_BUNDLES_OPTION(&(call)->bundles)

/* The bundle_id of a run named as kg_cli_bundle_find takes it; it must lie in the folder of bundles. malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_cli_run_id(const char *root, const char *run, char **id, struct kg_error *err);

/* Where to ask git for commits, ended by NULL: the repository given; or the folder of bundles, the working folder and
 * the source tree of this build. */
void kg_cli_repositories(const struct kg_regress_call *call, const char *places[4]);

/* run NULL: the latest. */
KG_WARN_UNUSED enum kg_status kg_cli_regress(const char *verb, const struct kg_regress_call *call, const char *run,
                                             struct kg_regression *out, struct kg_error *err);
/* The same, with the history left open for kg_cli_history_close: what was judged lies in kg_shelf_root. */
KG_WARN_UNUSED enum kg_status kg_cli_regress_open(const char *verb, const struct kg_regress_call *call, const char *run,
                                                  struct kg_history **history, struct kg_regression *out,
                                                  struct kg_error *err);

/* Judgements as rows; with all, also what is better or new. For people, those of the machine's own speed (roofline.*)
 * follow in a separate section. */
void kg_regression_put(const struct kg_regression *r, bool all, const struct kg_rows_options *format,
                       struct kg_buffer *out);
/* The whole as one object. */
json_t *kg_regression_json(const struct kg_regression *r, bool all);
/* What measuring a figure again found. */
json_t *kg_cli_confirmation_json(const struct kg_confirmation *confirmation);
/* Words before and behind the rows, for people; markdown: with a heading. */
void kg_regression_head(const struct kg_regression *r, bool markdown, struct kg_buffer *out);
void kg_regression_foot(const struct kg_regression *r, bool markdown, struct kg_buffer *out);

#endif
