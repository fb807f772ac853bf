/* kigo report: a run, or all of them, as a page for people. */
#include "base/beneath.h"
#include "base/size.h"
#include "bundle/verified.h"
#include "cli/asked_runs.h"
#include "cli/commands.h"
#include "cli/regress_call.h"
#include "cli/sprint.h"
#include "cli/trust.h"
#include "history/shelf.h"
#include "history/store.h"
#include "history/trust.h"
#include "report/past.h"
#include "report/report.h"
#include <stdlib.h>
#include <string.h>

struct report_options {
    const char *output, *allowed_signers;
    struct kg_regress_call against;
    bool history, markdown, csv;
    int64_t limit;
};

struct loaded {
    struct kg_records records;
    json_t *summary, *env, *build, *source, *past;
    struct kg_bundle_findings findings;
    struct kg_buffer signature;
    struct kg_regression regression;
    bool compared;
    struct kg_error why; /* it was not */
    char manifest_sha256[KG_SHA256_HEX_SIZE];
};

static void read_part(const char *dir, const char *file, json_t **object) {
    if (kg_bundle_read_json(dir, file, object, NULL) != KG_OK) *object = NULL;
}

/* What is wrong with the bundle is shown on the page; only what leaves nothing to show is an error. */
static enum kg_status load(const char *dir, struct loaded *l, struct kg_error *err) {
    struct kg_bundle_findings unheard = { NULL, 0 };
    struct kg_error unsound;
    enum kg_status status = kg_bundle_read_json(dir, "data/summary.json", &l->summary, err);
    if (status == KG_OK) status = kg_beneath_hash(dir, "manifest-sha256.txt", l->manifest_sha256, err);
    if (status == KG_OK && kg_verified_findings(dir, &l->findings, &unsound) != KG_OK && l->findings.n_items == 0)
        status = kg_fail(err, unsound.status, "%s", unsound.message);
    if (status == KG_OK) status = kg_records_load_results(dir, &l->records, &unheard, err); /* not while verify does */
    read_part(dir, "data/env.json", &l->env);
    read_part(dir, "data/build.json", &l->build);
    read_part(dir, "data/source.json", &l->source);
    kg_bundle_findings_free(&unheard);
    return status;
}

/* Without ssh-keygen the page does not speak of signatures. */
static void look_at_signature(const struct report_options *o, const char *dir, struct loaded *l) {
    struct kg_policy policy;
    struct kg_signature signature;
    struct kg_error unheard;
    if (kg_policy_load(kg_cli_bundles_root(o->against.bundles), o->allowed_signers, &policy, &unheard) == KG_OK &&
        kg_signature_check(dir, &policy.trust, &signature, &unheard) == KG_OK)
        kg_cli_signature_text(&signature, &l->signature);
    kg_policy_free(&policy);
}

static void unload(struct loaded *l) {
    if (l->compared) kg_regression_free(&l->regression);
    kg_bundle_findings_free(&l->findings);
    kg_buffer_free(&l->signature);
    json_decref(l->past);
    json_decref(l->source);
    json_decref(l->build);
    json_decref(l->env);
    json_decref(l->summary);
    kg_records_free(&l->records);
}

/* What the runs of the baseline measured: a fleet's are here, as the judgement rests on them. */
static enum kg_status load_past(const struct kg_asked_runs *runs, struct loaded *l, struct kg_error *err) {
    const struct kg_asked asked = { runs->bundles, NULL };
    struct kg_history *history = NULL;
    const char *place;
    enum kg_status status = runs->fleet ? kg_cli_asked_open("report", &asked, &history, &place, err)
                                        : kg_history_open(runs->root, &history, NULL, err);
    if (status == KG_OK && runs->fleet) status = kg_trust_loaded(history, &l->regression.baseline, err);
    if (status == KG_OK) status = kg_past_load(kg_shelf_index(history), &l->regression.baseline, &l->past, err);
    kg_history_close(history);
    return status;
}

/* Without a history there is still a report; a run it was to be held against must be there. */
static enum kg_status compare(const struct report_options *o, const struct kg_asked_runs *runs, const char *dir,
                              struct loaded *l, struct kg_error *err) {
    const char *const name = kg_asked_runs_dir(runs, dir) ? dir : strrchr(dir, '/') + 1;
    const enum kg_status status = kg_cli_regress("report", &o->against, name, &l->regression, &l->why);
    l->compared = status == KG_OK;
    if (!l->compared && o->against.baseline) return kg_fail(err, l->why.status, "%s", l->why.message);
    return l->compared ? load_past(runs, l, err) : KG_OK;
}

static enum kg_status deliver(const struct report_options *o, struct kg_buffer *out, struct kg_error *err) {
    if (!o->output || strcmp(o->output, "-") == 0) return kg_cli_print(out, err);
    const enum kg_status status = kg_file_write(o->output, kg_buffer_text(out), out->len, err);
    kg_buffer_free(out);
    return status;
}

static enum kg_status report_run(const struct report_options *o, struct kg_asked_runs *runs, const char *run,
                                 bool *unsound, struct kg_error *err) {
    struct loaded l = { .manifest_sha256 = "" };
    char *dir = NULL;
    enum kg_status status = kg_asked_runs_find(runs, NULL, run, &dir, err);
    if (status == KG_OK) status = load(dir, &l, err);
    if (status == KG_OK) look_at_signature(o, dir, &l);
    if (status == KG_OK) status = compare(o, runs, dir, &l, err);
    if (status == KG_OK) {
        const struct kg_export from = { &l.records, l.summary, l.env, l.build, l.source };
        struct kg_goal_counts goals;
        const struct kg_report report = { .run = &from,
                                          .goals = kg_cli_goals_count(&from, &goals) ? &goals : NULL,
                                          .manifest_sha256 = l.manifest_sha256,
                                          .signature = l.signature.data,
                                          .findings = &l.findings,
                                          .regression = l.compared ? &l.regression : NULL,
                                          .not_compared = l.compared ? NULL : l.why.message,
                                          .past = l.past,
                                          .whole = !o->markdown };
        struct kg_buffer out = KG_BUFFER_INIT;
        struct kg_page page = KG_PAGE_INIT(o->markdown ? KG_PAGE_MARKDOWN : KG_PAGE_HTML, true);
        if (o->csv) {
            kg_report_csv(&report, &out);
        } else {
            kg_report_page(&report, &page);
            kg_page_finish(&page, &out);
        }
        *unsound = l.findings.n_items > 0;
        status = deliver(o, &out, err);
    }
    unload(&l);
    free(dir);
    return status;
}

/* A line a run. */
static enum kg_status history_csv(struct kg_history *history, int64_t limit, struct kg_buffer *out,
                                  struct kg_error *err) {
#define RUNS(order, of_run, of_case, of_result, digest)                                                                \
    "SELECT b.bundle_id, b.manifest_sha256, b.verdict, b.state, b.n_planned, b.n_pass, b.n_fail, b.n_skip, b.n_crash," \
    " b.n_timeout, b.n_norun, b.started_us, b.sealed_us, b.git_commit, b.git_branch, b.git_dirty, e.gpu_name,"         \
    " e.cpu_model FROM bundle b LEFT JOIN env e USING(env_id) ORDER BY b.started_us DESC, b.bundle_id" order           \
    " DESC LIMIT CAST(?1 AS BIGINT)"
    static const struct kg_sql SQL = KG_SQL_BOTH(RUNS);
    const struct kg_rows_options format = { .csv = true };
    struct kg_rows rows = KG_ROWS_INIT(&format);
    char text[32];
    const char *const args[] = { text };
    snprintf(text, sizeof text, "%lld", (long long)limit);
    const enum kg_status status = kg_history_ask(history, &SQL, args, 1, kg_rows_add, &rows, err);
    if (status == KG_OK) kg_rows_put(&rows, out);
    else kg_rows_free(&rows);
    return status;
}

static enum kg_status report_history(const struct report_options *o, struct kg_error *err) {
    const struct kg_asked asked = { o->against.bundles, NULL };
    struct kg_history *history = NULL;
    const char *place, *places[4];
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_cli_repositories(&o->against, places);
    struct kg_page page = KG_PAGE_INIT(o->markdown ? KG_PAGE_MARKDOWN : KG_PAGE_HTML, true);
    enum kg_status status = kg_cli_asked_open("report", &asked, &history, &place, err);
    if (status == KG_OK && o->csv) status = history_csv(history, o->limit, &out, err);
    if (status == KG_OK && !o->csv) status = kg_history_page(history, places, o->limit, &page, err);
    if (status == KG_OK && !o->csv) kg_page_finish(&page, &out);
    kg_page_free(&page);
    kg_history_close(history);
    if (status == KG_OK) return deliver(o, &out, err);
    kg_buffer_free(&out);
    return status;
}

static int find_and_report(const struct report_options *o, const char *run) {
    const struct kg_asked asked = { o->against.bundles, NULL };
    struct kg_asked_runs runs;
    struct kg_error err;
    bool unsound = false;
    enum kg_status status = kg_asked_runs_open("report", &asked, &runs, &err);
    if (status == KG_OK) status = report_run(o, &runs, run, &unsound, &err);
    const int code = status != KG_OK ? kg_cli_error("report", kg_asked_runs_error(&runs, &err))
                     : unsound       ? KG_EXIT_INTEGRITY
                                     : KG_EXIT_OK;
    kg_asked_runs_close(&runs);
    return code;
}

static enum kg_status check(const struct report_options *o, size_t n_args, struct kg_error *err) {
    if (o->markdown && o->csv) return kg_fail(err, KG_ERR_USAGE, "--markdown and --csv exclude each other");
    if (o->history && n_args > 0) return kg_fail(err, KG_ERR_USAGE, "--history is of all runs, not of one");
    if (o->history && o->against.baseline)
        return kg_fail(err, KG_ERR_USAGE, "--history is held against nothing: no --against");
    if (!o->history && n_args == 0)
        return kg_fail(err, KG_ERR_USAGE,
                       "which RUN? 'kigo list' shows them, the newest is 'latest'; --history is a page of all");
    return KG_OK;
}

int kg_cmd_report(int argc, char **argv) {
    struct report_options o = { .against = KG_REGRESS_CALL_INIT, .limit = 100 };
    const struct kg_option options[] = {
        { .name = "against",
          .kind = KG_OPTION_TEXT,
          .value = &o.against.baseline,
          .metavar = "RUN|REV",
          .help = "hold it against this run, or the runs of this commit (as regress does)" },
        { .name = "output",
          .letter = 'o',
          .kind = KG_OPTION_TEXT,
          .value = &o.output,
          .metavar = "FILE",
          .help = "write it here, over an existing file (standard output)" },
        { .name = "history", .kind = KG_OPTION_FLAG, .value = &o.history, .help = "report on all runs instead of one" },
        { .name = "limit",
          .letter = 'n',
          .kind = KG_OPTION_INT,
          .value = &o.limit,
          .metavar = "N",
          .help = "--history: the newest N runs (100)",
          .min = 1,
          .max = 1e6 },
        { .name = "markdown", .kind = KG_OPTION_FLAG, .value = &o.markdown, .help = "write Markdown instead of HTML" },
        { .name = "csv",
          .kind = KG_OPTION_FLAG,
          .value = &o.csv,
          .help = "write CSV, a line a figure (--history: a run)" },
        { .name = "repo",
          .kind = KG_OPTION_TEXT,
          .value = &o.against.repository,
          .metavar = "DIR",
          .help = "git repository that knows the commits" },
        KG_ALLOWED_SIGNERS_OPTION(&o.allowed_signers),
        KG_BUNDLES_OPTION(&o.against.bundles),
    };
    const struct kg_command command = {
        .name = "kigo report",
        .usage = "RUN [--against RUN|REV] [-o FILE] [--markdown|--csv], or --history",
        .summary =
            "Writes one HTML page without scripts or outside requests: verdict, what changed against the history,\n"
            "layers and cases, error margins, timings, memory by tag, roofline, environment. gnuplot draws its\n"
            "pictures; without it the tables stay. It judges nothing: exit code 0, or 4 if the bundle does not "
            "verify.\n"
            "A fleet's runs are those of $KIGO_HISTORY.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    const char *run;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &ended)) return ended;
    enum kg_status status = check(&o, run != NULL, &err);
    if (status == KG_OK && !o.history) return find_and_report(&o, run);
    if (status == KG_OK) status = report_history(&o, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("report", &err);
}
