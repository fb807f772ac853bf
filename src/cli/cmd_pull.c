/* kigo pull: bundles back from the fleet's history. */
#include "base/file.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "bundle/transfer.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/fleet.h"
#include "cli/trust.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 256 };

struct pull_options {
    const char *bundles, *history, *allowed_signers, *runs[MOST_RUNS];
    struct kg_filter filter;
    int64_t wait_s, limit;
    bool all, json, require_signature;
};

/* What became of the runs. */
struct pulls {
    json_t *runs;
    struct kg_buffer text;
    size_t n_pulled, n_here, n_failed;
    int exit_code; /* the worst */
};

static void add_id(struct kg_dir_list *ids, char *id) {
    ids->names = kg_xrealloc(ids->names, (ids->n_names + 1) * sizeof *ids->names);
    ids->names[ids->n_names++] = id;
}

static bool take_id(void *ids, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)n_columns, (void)names;
    if (cells) add_id(ids, kg_xstrndup(cells[0].text, cells[0].size_bytes));
    return true;
}

/* The ids of the runs that were named, or that the filter takes, all of them before the first is fetched. */
static enum kg_status find_ids(const struct pull_options *o, struct kg_fleet *fleet, struct kg_history *history,
                               struct kg_dir_list *ids, struct kg_error *err) {
    struct kg_filter_args args;
    enum kg_status status = KG_OK;
    for (size_t i = 0; status == KG_OK && i < MOST_RUNS && o->runs[i]; i++) {
        char id[256];
        status = kg_fleet_find(fleet, o->runs[i], id, err);
        if (status == KG_OK) add_id(ids, kg_xstrdup(id));
    }
    if (status != KG_OK || o->runs[0]) return status;
    status = kg_filter_bind_runs(&o->filter, kg_cli_bundles_root(o->bundles), o->limit, &args, err);
    if (status != KG_OK) return status;
    status = kg_history_query(history, KG_FILTER_RUNS_POSTGRES("b.bundle_id"), args.values, KG_FILTER_RUNS_ARGS,
                              take_id, ids, err);
    kg_filter_args_free(&args);
    return status;
}

/* Fetches the archive, and takes it in as `kigo import` does. */
static enum kg_status take_in(struct kg_fleet *fleet, const char *id, const char *label, const struct kg_import *how,
                              struct kg_imported *imported, struct kg_error *err) {
    struct kg_progress progress;
    const struct kg_fleet_watch watch = kg_cli_fleet_watch(&progress, label);
    struct kg_import import = *how;
    struct kg_error why;
    char *scratch = NULL, *path = NULL;
    enum kg_status status = kg_fleet_scratch(&scratch, err);
    if (status == KG_OK) {
        path = kg_xasprintf("%s/%s.tar.zst", scratch, id);
        status = kg_fleet_fetch(fleet, id, path, &watch, err);
    }
    kg_progress_finish(&progress);
    import.path = path;
    if (status == KG_OK) status = kg_bundle_import(&import, imported, err);
    if (scratch) (void)!kg_path_remove(scratch, NULL); /* below $TMPDIR: what stays is in nobody's way */
    free(path);
    free(scratch);
    if (status == KG_OK && !imported->was_here && kg_history_add(import.root, id, &why) != KG_OK)
        snprintf(imported->note, sizeof imported->note, "not indexed: %.400s", why.message);
    return status;
}

/* One run, which is not fetched if it is here. */
static enum kg_status pull_one(struct kg_fleet *fleet, const char *id, const char *label, const struct kg_import *how,
                               struct kg_imported *imported, struct kg_error *err) {
    char tagmanifest_sha256[KG_SHA256_HEX_SIZE];
    bool is_signed = false;
    int64_t unused;
    if (!kg_bundle_id_parse(id, &unused) || strchr(id, '/')) /* a name that leads elsewhere, by somebody's SQL */
        return kg_fail(err, KG_ERR_INTEGRITY, "%s has a run of no run's name: %s", kg_fleet_where(fleet), id);
    enum kg_status status = kg_fleet_archived(fleet, id, tagmanifest_sha256, &is_signed, err);
    if (status != KG_OK) return status;
    status = kg_bundle_find_here(how, id, tagmanifest_sha256, is_signed, imported, err);
    return status == KG_ERR_NOT_FOUND ? take_in(fleet, id, label, how, imported, err) : status;
}

static void note_failed(struct pulls *pulls, const char *id, const struct kg_error *err) {
    const int exit_code = kg_status_exit_code(err->status);
    pulls->n_failed++;
    if (exit_code > pulls->exit_code) pulls->exit_code = exit_code;
    kg_say(stderr, "kigo pull: %s: %s\n", id, err->message);
    json_array_append_new(pulls->runs, json_pack("{s:o, s:s, s:o}", "bundle_id", kg_json_utf8(id), "state", "failed",
                                                 "why", kg_json_utf8(err->message)));
}

static void note(struct pulls *pulls, const char *root, const struct kg_imported *imported) {
    json_t *row = json_pack("{s:o, s:s, s:s, s:o}", "bundle_id", kg_json_utf8(imported->id), "state",
                            imported->was_here ? "here" : "pulled", "tagmanifest_sha256", imported->tagmanifest_sha256,
                            "signature", kg_cli_signature_json(&imported->signature));
    if (imported->note[0]) json_object_set_new(row, "note", kg_json_utf8(imported->note));
    if (imported->note[0]) kg_say(stderr, "kigo pull: %s\n", imported->note);
    json_array_append_new(pulls->runs, row);
    *(imported->was_here ? &pulls->n_here : &pulls->n_pulled) += 1;
    kg_text_printf(&pulls->text, "%s/%s: %s", root, imported->id, imported->was_here ? "already here, " : "");
    kg_cli_signature_text(&imported->signature, &pulls->text);
    kg_buffer_puts(&pulls->text, "\n");
}

/* One after another. A server that went away ends it; a run that cannot be taken in does not. */
static void pull_all(struct kg_fleet *fleet, const struct kg_import *how, const struct kg_dir_list *ids,
                     struct pulls *pulls) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < ids->n_names && status != KG_ERR_INCOMPLETE; i++) {
        struct kg_imported imported;
        struct kg_error err;
        char label[64] = "pull";
        if (ids->n_names > 1) snprintf(label, sizeof label, "pull %zu/%zu", i + 1, ids->n_names);
        status = pull_one(fleet, ids->names[i], label, how, &imported, &err);
        if (status == KG_OK) note(pulls, how->root, &imported);
        else note_failed(pulls, ids->names[i], &err);
    }
}

static enum kg_status answer(const struct pull_options *o, const char *where, struct pulls *pulls,
                             struct kg_error *err) {
    if (o->json)
        return kg_cli_print_json(json_pack("{s:o, s:I, s:I, s:I, s:O}", "history", kg_json_utf8(where), "n_pulled",
                                           (json_int_t)pulls->n_pulled, "n_here", (json_int_t)pulls->n_here, "n_failed",
                                           (json_int_t)pulls->n_failed, "runs", pulls->runs),
                                 err);
    return kg_cli_print(&pulls->text, err);
}

static enum kg_status pull_from(struct kg_fleet *fleet, struct kg_history *history, const struct pull_options *o,
                                const struct kg_import *how, int *exit_code, struct kg_error *err) {
    struct pulls pulls = { .runs = json_array(), .exit_code = KG_EXIT_OK };
    struct kg_dir_list ids = { 0 };
    enum kg_status status = find_ids(o, fleet, history, &ids, err);
    if (status == KG_OK) {
        pull_all(fleet, how, &ids, &pulls);
        *exit_code = ids.n_names == 0 ? KG_EXIT_NOTHING_TO_DO : pulls.exit_code;
        status = answer(o, kg_fleet_where(fleet), &pulls, err);
    }
    kg_dir_list_free(&ids);
    kg_buffer_free(&pulls.text);
    json_decref(pulls.runs);
    return status;
}

static enum kg_status pull(const struct pull_options *o, int *exit_code, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->bundles);
    struct kg_policy policy;
    const struct kg_import how = {
        .root = root, .limits = KG_IMPORT_LIMITS, .trust = &policy.trust, .require_signature = o->require_signature
    };
    struct kg_fleet *fleet = NULL;
    struct kg_history *history = NULL;
    enum kg_status status = kg_policy_load(root, o->allowed_signers, &policy, err);
    if (status == KG_OK && o->require_signature && !policy.trust.allowed_signers)
        status = kg_fail(err, KG_ERR_USAGE, "--require-signature: no list of allowed signers (--allowed-signers FILE)");
    if (status == KG_OK) status = kg_cli_fleet_open(o->history, KG_FLEET_READS, o->wait_s, &fleet, err);
    if (status == KG_OK) status = kg_fleet_history(fleet, &history, err);
    if (status == KG_OK) status = pull_from(fleet, history, o, &how, exit_code, err);
    if (history) kg_history_close(history); /* and the fleet with it */
    else kg_fleet_close(fleet);
    kg_policy_free(&policy);
    return status;
}

int kg_cmd_pull(int argc, char **argv) {
    struct pull_options o = { .wait_s = KG_FLEET_WAIT_S, .limit = INT64_MAX };
    const struct kg_option options[] = {
        { .name = "all", .kind = KG_OPTION_FLAG, .value = &o.all, .help = "every run of the fleet" },
        KG_LIMIT_OPTION(&o.limit),
        KG_FILTER_OPTIONS(&o.filter),
        KG_HISTORY_OPTION(&o.history),
        KG_WAIT_OPTION(&o.wait_s),
        KG_ALLOWED_SIGNERS_OPTION(&o.allowed_signers),
        { .name = "require-signature",
          .kind = KG_OPTION_FLAG,
          .value = &o.require_signature,
          .help = "take nothing that no allowed signer vouches for" },
        KG_BUNDLES_OPTION(&o.bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo pull",
        .usage = "RUN...|--all|filters [--limit N] [--history URL] [--wait SECONDS] [--allowed-signers FILE] "
                 "[--require-signature] [--bundles DIR] [--json]",
        .summary =
            "Brings runs back from a fleet's history (PostgreSQL), as 'kigo import' takes in an archive: each must\n"
            "verify, and nothing that is here is replaced, or fetched again. RUN is the id, the beginning of one,\n"
            "its last 8 digits, or 7 and more digits of its commit; --limit and the filters are those of 'kigo list'.\n"
            "A run that is not sound, or cannot be taken in, stops no other; the exit code is that of the worst.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = MOST_RUNS,
    };
    struct kg_error err;
    int exit_code;
    if (!kg_cli_parse(&command, argc, argv, o.runs, MOST_RUNS, &exit_code)) return exit_code;
    const bool selects = o.all || o.limit != INT64_MAX || kg_filter_is_set(&o.filter);
    enum kg_status status = KG_OK;
    exit_code = KG_EXIT_OK;
    if (selects == (o.runs[0] != NULL))
        status = kg_fail(&err, KG_ERR_USAGE, "runs, or --all, --limit and filters; usage: %s %s", command.name,
                         command.usage);
    if (status == KG_OK) status = pull(&o, &exit_code, &err);
    return status == KG_OK ? exit_code : kg_cli_error("pull", &err);
}
