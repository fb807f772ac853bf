/* Runs in memory, as the judgements over the history need them. */
#ifndef KIGO_HISTORY_RUN_H
#define KIGO_HISTORY_RUN_H

#include "history/figure_kind.h"
#include <kigo/history.h>

/* What is said of a run as a whole. */
struct kg_run_head {
    char *bundle_id, *state, *verdict, *commit, *comparison_key, *build_json; /* commit: NULL without git */
    int64_t bundle_no, started_us, duration_us;
    bool dirty;
};
void kg_run_head_free(struct kg_run_head *head);

/* The heads that a query's rows name; its first column is bundle_id, args are bound as text. */
struct kg_run_heads {
    struct kg_run_head *items;
    size_t n_items;
};
KG_WARN_UNUSED enum kg_status kg_run_heads_load(struct kg_history *history, const char *where_and_order,
                                                const char *const *args, size_t n_args, struct kg_run_heads *heads,
                                                struct kg_error *err);
/* The same, in the language of each store. */
struct kg_sql;
KG_WARN_UNUSED enum kg_status kg_run_heads_ask(struct kg_history *history, const struct kg_sql *where_and_order,
                                               const char *const *args, size_t n_args, struct kg_run_heads *heads,
                                               struct kg_error *err);
void kg_run_heads_free(struct kg_run_heads *heads);

/* The dimension tables. Cases of the same key and definition have the same `same`, those of the same key the same
 * `key_no`, whatever else (suite, spec) has changed about them. */
struct kg_case_info {
    int64_t case_id;
    char *key, *op, *backend, *layer, *dtype, *shape, *def_sha; /* backend, dtype and shape: "" where none */
    size_t same, key_no;
    bool is_peer; /* op ends in "_peer": another's program, whose figures are reported and never judged */
};
struct kg_figure_info {
    int64_t figure_id;
    char *name, *unit;
    struct kg_figure_kind kind;
};
/* What the figure says when it changes in a case. */
enum kg_figure_class kg_figure_class_in(const struct kg_case_info *c, const struct kg_figure_info *figure);

struct kg_catalogue {
    struct kg_case_info *cases; /* sorted by case_id */
    size_t n_cases;
    struct kg_figure_info *figures; /* sorted by figure_id */
    size_t n_figures;
};
KG_WARN_UNUSED enum kg_status kg_catalogue_load(struct kg_history *history, struct kg_catalogue *catalogue,
                                                struct kg_error *err);
void kg_catalogue_free(struct kg_catalogue *catalogue);

enum kg_outcome { KG_OUTCOME_PASS, KG_OUTCOME_SKIP, KG_OUTCOME_RED, KG_OUTCOME_NORUN }; /* red: fail, crash, timeout */

struct kg_run_figure {
    const struct kg_figure_info *info;
    double value;        /* NaN: none */
    double limit;        /* of an error; NaN: it has none */
    int64_t n;           /* values compared, or samples; 0: not said */
    uint32_t occurrence; /* how many of the result's figures before it have its name and unit */
    uint32_t place : 31; /* among the result's figures */
    bool valid : 1;
};
struct kg_run_result {
    const struct kg_case_info *c;
    enum kg_outcome outcome;
    char status[8], seed[24];
    char *skip_reason; /* NULL: it is no skip */
    size_t first_figure, n_figures;
};
struct kg_run {
    struct kg_run_result *results; /* sorted by c->same */
    size_t n_results;
    struct kg_run_figure *figures;
    size_t n_figures;
};
/* Points into the catalogue; KG_ERR_BUSY if that lacks one of the run's cases or figures: it was indexed since. A
 * result that is left out would be one that nothing is found against. */
KG_WARN_UNUSED enum kg_status kg_run_load(struct kg_history *history, int64_t bundle_no,
                                          const struct kg_catalogue *catalogue, struct kg_run *run,
                                          struct kg_error *err);
/* Several, of an index (no store), by so many threads at most; 0: as many as the process may use. All or none; the
 * error is that of the first that has one. */
KG_WARN_UNUSED enum kg_status kg_runs_load(struct kg_history *index, const int64_t *bundle_nos, size_t n_runs,
                                           const struct kg_catalogue *catalogue, int n_threads, struct kg_run *runs,
                                           struct kg_error *err);
void kg_run_free(struct kg_run *run);

/* The result of that key and definition; NULL if the run has none. */
const struct kg_run_result *kg_run_find(const struct kg_run *run, size_t same);
/* A result of that key, in whatever definition; NULL if the run has none. */
const struct kg_run_result *kg_run_find_key(const struct kg_run *run, size_t key_no);
/* Its figure with the name and unit of `like`, and the same occurrence (a name may come more than once); NULL if it has
 * none. */
const struct kg_run_figure *kg_run_figure(const struct kg_run *run, const struct kg_run_result *result,
                                          const struct kg_run_figure *like);
/* A noisy figure's logarithm, with its sign chosen so that more is worse; NaN for NULL, and where it has no valid
 * positive value. */
double kg_run_figure_log(const struct kg_run_figure *figure);

#endif
