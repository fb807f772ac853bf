/* kigo annotate, waive, accept, pin: what people say about runs and cases, kept as files beside the bundles, or in a
 * fleet. */
#include "base/clock.h"
#include "base/file.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/beside.h"
#include "cli/commands.h"
#include "cli/regress_call.h"
#include "cli/trust.h"
#include "history/annotation.h"
#include "history/store.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct said {
    struct kg_asked asked;
    const char *kind, *run, *key, *until, *why, *author, *sign;
    bool json;
};

/* The end of the day (UTC) a date like 2026-12-31 names. */
static enum kg_status end_of_day(const char *date, int64_t *utc_us, struct kg_error *err) {
    struct tm day = { 0 };
    char again[16];
    const char *end = strptime(date, "%Y-%m-%d", &day);
    time_t begin = end && !*end ? timegm(&day) : -1;
    struct tm back = { 0 };
    if (begin < 0 || !gmtime_r(&begin, &back) || strftime(again, sizeof again, "%Y-%m-%d", &back) == 0 ||
        strcmp(again, date) != 0)
        return kg_fail(err, KG_ERR_USAGE, "--until: '%s' is no date like 2026-12-31", date);
    *utc_us = ((int64_t)begin + 86400) * 1000000 - 1;
    if (*utc_us < kg_clock_utc_us()) return kg_fail(err, KG_ERR_USAGE, "--until: %s is over", date);
    return KG_OK;
}

/* A fleet is opened, a folder's files are written beside its bundles; *history is NULL then. */
static enum kg_status open_place(const struct kg_asked *asked, struct kg_history **history, struct kg_error *err) {
    const char *place;
    return kg_cli_asked_is_fleet(asked) ? kg_cli_asked_open("annotate", asked, history, &place, err) : KG_OK;
}

static enum kg_status run_id_of(struct kg_history *fleet, const char *root, const char *run, char **id,
                                struct kg_error *err) {
    return fleet ? kg_cli_asked_run(fleet, run, KG_RUN_BY_ANY_NAME, id, err) : kg_cli_run_id(root, run, id, err);
}

static enum kg_status say(const struct said *s, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(s->asked.bundles);
    struct kg_history *fleet = NULL;
    char *run_id = NULL, *id = NULL, *key = NULL;
    int64_t until_us = 0;
    enum kg_status status = open_place(&s->asked, &fleet, err);
    if (status == KG_OK && !fleet && !kg_path_is_dir(root))
        status = kg_fail(err, KG_ERR_NOT_FOUND, KG_NO_BUNDLES, root);
    if (status == KG_OK && (!s->why || !*s->why) && strcmp(s->kind, "pin") != 0)
        status = kg_fail(err, KG_ERR_USAGE, "a %s needs --why", s->kind);
    if (status == KG_OK) status = kg_cli_sign_key(s->sign, &key, err);
    if (status == KG_OK && s->run) status = run_id_of(fleet, root, s->run, &run_id, err);
    if (status == KG_OK && s->until) status = end_of_day(s->until, &until_us, err);
    if (status == KG_OK) {
        struct kg_annotation a = { .kind = kg_xstrdup(s->kind),
                                   .bundle_id = run_id,
                                   .case_key = s->key ? kg_xstrdup(s->key) : NULL,
                                   .until_us = until_us,
                                   .utc_us = kg_clock_utc_us(),
                                   .author = kg_xstrdup(kg_cli_author(s->author)),
                                   .text = kg_xstrdup(s->why ? s->why : "") };
        status = fleet ? kg_annotation_put(fleet, root, &a, key, &id, err) : kg_annotation_add(root, &a, key, &id, err);
        free(a.kind);
        free(a.case_key);
        free(a.author);
        free(a.text);
    }
    if (status == KG_OK && s->json) {
        status = kg_cli_print_json(json_pack("{s:s}", "annotation_id", id), err);
    } else if (status == KG_OK) {
        struct kg_buffer out = KG_BUFFER_INIT;
        kg_text_printf(&out, "%s\n", id);
        status = kg_cli_print(&out, err);
    }
    kg_history_close(fleet);
    free(key);
    free(id);
    free(run_id);
    return status;
}

static enum kg_status list(const struct kg_asked *asked, const struct kg_rows_options *format, struct kg_error *err) {
#define LIST(until, order)                                                                                             \
    "SELECT annotation_id, kind, bundle_id, case_key, " until " AS until, author, text FROM annotation"                \
    " ORDER BY annotation_id" order
    static const struct kg_sql SQL = { LIST("strftime('%Y-%m-%d', until_us / 1000000, 'unixepoch')", ""),
                                       LIST("to_char(to_timestamp(until_us / 1000000) AT TIME ZONE 'UTC',"
                                            " 'YYYY-MM-DD')",
                                            " COLLATE \"C\"") };
    struct kg_history *history = NULL;
    const char *place;
    enum kg_status status = kg_cli_asked_open("annotate", asked, &history, &place, err);
    if (status != KG_OK) return status;
    struct kg_rows rows = KG_ROWS_INIT(format);
    status = kg_rows_ask(history, &SQL, NULL, 0, &rows, err);
    kg_history_close(history);
    return status;
}

static enum kg_status take_back(const struct kg_asked *asked, const char *id, struct kg_error *err) {
    struct kg_history *fleet = NULL;
    const char *root = kg_cli_bundles_root(asked->bundles);
    enum kg_status status = open_place(asked, &fleet, err);
    if (status == KG_OK)
        status = fleet ? kg_annotation_take_back(fleet, root, id, err) : kg_annotation_remove(root, id, err);
    kg_history_close(fleet);
    return status;
}

#define WHY_OPTION(variable)                                                                                           \
    { .name = "why", .kind = KG_OPTION_TEXT, .value = (variable), .metavar = "TEXT", .help = "the reason, or the text" }
#define SIGN_OPTION(variable)                                                                                          \
    {                                                                                                                  \
        .name = "sign", .kind = KG_OPTION_TEXT, .value = (variable), .metavar = "FILE",                                \
        .help = "sign it with this SSH key"                                                                            \
    }
#define JSON_OPTION(variable)                                                                                          \
    { .name = "json", .kind = KG_OPTION_FLAG, .value = (variable), .help = "print one JSON object" }

static int ended(const char *verb, enum kg_status status, const struct kg_error *err) {
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error(verb, err);
}

int kg_cmd_annotate(int argc, char **argv) {
    struct said s = { 0 };
    struct kg_rows_options format = { 0 };
    const struct kg_option options[] = {
        { .name = "case",
          .letter = 'c',
          .kind = KG_OPTION_TEXT,
          .value = &s.key,
          .metavar = "PATTERN",
          .help = "only of these cases (* also crosses /; brackets stand for themselves)" },
        WHY_OPTION(&s.why),
        KG_AUTHOR_OPTION(&s.author),
        SIGN_OPTION(&s.sign),
        KG_ASKED_OPTIONS(&s.asked),
        KG_ROWS_OPTIONS(&format),
    };
    const struct kg_command command = {
        .name = "kigo annotate",
        .usage = "break|exclude RUN | note [RUN] | list | remove ID   [options]",
        .summary = "Keeps notes on runs and cases in files beside the bundles (annotations/), and prints their id.\n"
                   "break: runs before RUN are no baseline for RUN and those after it. exclude: RUN is no baseline.\n"
                   "note: text only. list: all there are. remove: takes one back.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 2,
    };
    const char *args[2];
    int exit_code;
    struct kg_error err;
    if (!kg_cli_parse(&command, argc, argv, args, 2, &exit_code)) return exit_code;
    enum kg_status status = kg_rows_check(&format, &err);
    s.kind = args[0];
    s.run = args[1];
    s.json = format.json;
    if (status != KG_OK) return ended("annotate", status, &err);
    if (strcmp(s.kind, "list") == 0 && !s.run) return ended("annotate", list(&s.asked, &format, &err), &err);
    if (strcmp(s.kind, "remove") == 0 && s.run) return ended("annotate", take_back(&s.asked, s.run, &err), &err);
    if (strcmp(s.kind, "break") != 0 && strcmp(s.kind, "exclude") != 0 && strcmp(s.kind, "note") != 0)
        status = kg_fail(&err, KG_ERR_USAGE, "'%s' is not break, exclude, note, list or remove ID", s.kind);
    if (status == KG_OK) status = say(&s, &err);
    return ended("annotate", status, &err);
}

int kg_cmd_waive(int argc, char **argv) {
    struct said s = { .kind = "waive" };
    const struct kg_option options[] = {
        { .name = "until",
          .kind = KG_OPTION_TEXT,
          .value = &s.until,
          .metavar = "DATE",
          .help = "last day it holds, like 2026-12-31 (UTC)" },
        WHY_OPTION(&s.why),
        KG_AUTHOR_OPTION(&s.author),
        SIGN_OPTION(&s.sign),
        KG_ASKED_OPTIONS(&s.asked),
        JSON_OPTION(&s.json),
    };
    const struct kg_command command = {
        .name = "kigo waive",
        .usage = "CASE --until DATE --why TEXT [options]",
        .summary = "What regress finds at these cases (a key; * matches any text) is reported and does not count, "
                   "until a day.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    int exit_code;
    struct kg_error err;
    if (!kg_cli_parse(&command, argc, argv, &s.key, 1, &exit_code)) return exit_code;
    enum kg_status status = s.until ? KG_OK : kg_fail(&err, KG_ERR_USAGE, "a waiver ends: --until DATE is missing");
    if (status == KG_OK) status = say(&s, &err);
    return ended("waive", status, &err);
}

int kg_cmd_accept(int argc, char **argv) {
    struct said s = { .kind = "accept", .run = "latest" };
    const struct kg_option options[] = {
        { .name = "run",
          .kind = KG_OPTION_TEXT,
          .value = &s.run,
          .metavar = "RUN",
          .help = "the run whose figures are the norm from now on (latest)" },
        WHY_OPTION(&s.why),
        KG_AUTHOR_OPTION(&s.author),
        SIGN_OPTION(&s.sign),
        KG_ASKED_OPTIONS(&s.asked),
        JSON_OPTION(&s.json),
    };
    const struct kg_command command = {
        .name = "kigo accept",
        .usage = "CASE [--run RUN] --why TEXT [options]",
        .summary =
            "Makes what regress finds at these cases (a key; * matches any text) in a run the norm: it does not\n"
            "count there, and later runs are compared with this run and those after it only.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    int exit_code;
    struct kg_error err;
    if (!kg_cli_parse(&command, argc, argv, &s.key, 1, &exit_code)) return exit_code;
    return ended("accept", say(&s, &err), &err);
}

/* Every pin of a run. */
static enum kg_status unpin(const struct said *s, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(s->asked.bundles);
    struct kg_history *fleet = NULL;
    struct kg_annotations all = { NULL, 0 };
    char *id = NULL;
    size_t n_removed = 0;
    enum kg_status status = open_place(&s->asked, &fleet, err);
    if (status == KG_OK) status = run_id_of(fleet, root, s->run, &id, err);
    if (status == KG_OK)
        status = fleet ? kg_annotations_read(fleet, root, &all, err) : kg_annotations_load(root, &all, NULL, err);
    for (size_t i = 0; i < all.n_items && status == KG_OK; i++) {
        const char *const pin = all.items[i].id;
        if (strcmp(all.items[i].kind, "pin") != 0 || strcmp(all.items[i].bundle_id, id) != 0) continue;
        status = fleet ? kg_annotation_take_back(fleet, root, pin, err) : kg_annotation_remove(root, pin, err);
        n_removed++;
    }
    if (status == KG_OK && n_removed == 0) status = kg_fail(err, KG_ERR_NOT_FOUND, "%s is not pinned", id);
    kg_annotations_free(&all);
    kg_history_close(fleet);
    free(id);
    return status;
}

int kg_cmd_pin(int argc, char **argv) {
    struct said s = { .kind = "pin" };
    bool take_back = false;
    const struct kg_option options[] = {
        { .name = "remove", .kind = KG_OPTION_FLAG, .value = &take_back, .help = "take the pin out again" },
        WHY_OPTION(&s.why),
        KG_AUTHOR_OPTION(&s.author),
        SIGN_OPTION(&s.sign),
        KG_ASKED_OPTIONS(&s.asked),
        JSON_OPTION(&s.json),
    };
    const struct kg_command command = {
        .name = "kigo pin",
        .usage = "RUN [--why TEXT] [--remove]",
        .summary = "Keeps a run from being pruned.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    int exit_code;
    struct kg_error err;
    if (!kg_cli_parse(&command, argc, argv, &s.run, 1, &exit_code)) return exit_code;
    return ended("pin", take_back ? unpin(&s, &err) : say(&s, &err), &err);
}
