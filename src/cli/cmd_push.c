/* kigo push: bundles into the fleet's history. */
#include "base/file.h"
#include "base/json_put.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/beside.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/fleet.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 256 };

struct push_options {
    const char *bundles, *history, *runs[MOST_RUNS];
    int64_t wait_s;
    bool all, pruned, json;
};

/* What became of the runs. */
struct pushes {
    json_t *runs;
    struct kg_buffer text;
    size_t n_pushed, n_there, n_pruned, n_failed;
    int exit_code; /* of the first that failed */
};

static enum kg_status add_dir(struct kg_dir_list *dirs, char *dir) {
    dirs->names = kg_xrealloc(dirs->names, (dirs->n_names + 1) * sizeof *dirs->names);
    dirs->names[dirs->n_names++] = dir;
    return KG_OK;
}

/* The folders of the runs that were named, all of them before the first is pushed. */
static enum kg_status find_dirs(const struct push_options *o, struct kg_dir_list *dirs, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->bundles);
    struct kg_dir_list ids = { 0 };
    char *dir = NULL;
    enum kg_status status = o->all ? kg_root_list(root, &ids, err) : KG_OK;
    for (size_t i = 0; status == KG_OK && i < ids.n_names; i++)
        status = add_dir(dirs, kg_path_join(root, ids.names[i]));
    for (size_t i = 0; status == KG_OK && i < MOST_RUNS && o->runs[i]; i++) {
        status = kg_cli_bundle_find(root, o->runs[i], &dir, err);
        if (status == KG_OK) status = add_dir(dirs, dir);
    }
    kg_dir_list_free(&ids);
    return status;
}

static void note(struct pushes *pushes, const struct kg_pushed *pushed, enum kg_status status,
                 const struct kg_error *err) {
    json_t *row = json_pack("{s:o, s:s, s:I}", "bundle_id", kg_json_utf8(pushed->id), "state",
                            kg_push_state_name(pushed->state), "archive_bytes", (json_int_t)pushed->archive_bytes);
    const struct {
        const char *name, *text;
    } members[] = { { "tagmanifest_sha256", pushed->tagmanifest_sha256 },
                    { "archive_sha256", pushed->archive_sha256 },
                    { "note", pushed->note },
                    { "why", status == KG_OK ? "" : err->message } };
    for (size_t i = 0; i < KG_COUNT_OF(members); i++)
        if (*members[i].text) json_object_set_new(row, members[i].name, kg_json_utf8(members[i].text));
    json_array_append_new(pushes->runs, row);
    pushes->n_pushed += status == KG_OK && pushed->state == KG_PUSH_PUSHED;
    pushes->n_there += status == KG_OK && pushed->state == KG_PUSH_THERE;
    pushes->n_pruned += status == KG_OK && pushed->state == KG_PUSH_PRUNED;
    pushes->n_failed += status != KG_OK;
    if (status != KG_OK) {
        if (pushes->exit_code == KG_EXIT_OK) pushes->exit_code = kg_status_exit_code(err->status);
        kg_say(stderr, "kigo push: %s: %s\n", *pushed->id ? pushed->id : "run", err->message);
        return;
    }
    if (pushed->state == KG_PUSH_PRUNED) {
        kg_text_printf(&pushes->text, "%s: %s\n", pushed->id, pushed->note);
        return;
    }
    kg_text_printf(&pushes->text, "%s: %s, %s, SHA-256 %s\n", pushed->id,
                   pushed->state == KG_PUSH_THERE ? "there already" : "pushed",
                   kg_quantity_bytes((double)pushed->archive_bytes).text, pushed->archive_sha256);
    if (*pushed->note) kg_say(stderr, "kigo push: %s: %s\n", pushed->id, pushed->note);
}

/* One after another, each a transaction. A server that went away ends it; a bundle that is not sound does not. */
static void push_all(struct kg_fleet *fleet, const struct kg_policy *policy, bool pruned_too,
                     const struct kg_dir_list *dirs, struct pushes *pushes) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < dirs->n_names && status != KG_ERR_INCOMPLETE; i++) {
        struct kg_progress progress;
        const struct kg_fleet_watch watch = kg_cli_fleet_watch(&progress, "push");
        struct kg_pushed pushed;
        struct kg_error err;
        status = kg_fleet_push(fleet, dirs->names[i], policy, pruned_too, &watch, &pushed, &err);
        kg_progress_finish(&progress);
        note(pushes, &pushed, status, &err);
        if (pushed.state == KG_PUSH_UNKNOWN) break;
    }
}

static enum kg_status answer(const struct push_options *o, const char *where, struct pushes *pushes,
                             struct kg_error *err) {
    if (o->json)
        return kg_cli_print_json(json_pack("{s:o, s:I, s:I, s:I, s:I, s:O}", "history", kg_json_utf8(where), "n_pushed",
                                           (json_int_t)pushes->n_pushed, "n_there", (json_int_t)pushes->n_there,
                                           "n_pruned", (json_int_t)pushes->n_pruned, "n_failed",
                                           (json_int_t)pushes->n_failed, "runs", pushes->runs),
                                 err);
    return kg_cli_print(&pushes->text, err);
}

static enum kg_status push(const struct push_options *o, int *exit_code, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->bundles);
    struct pushes pushes = { .runs = json_array(), .exit_code = KG_EXIT_OK };
    struct kg_dir_list dirs = { 0 };
    struct kg_fleet *fleet = NULL;
    struct kg_policy policy;
    enum kg_status status = kg_policy_load(root, NULL, &policy, err);
    if (status == KG_OK) status = find_dirs(o, &dirs, err);
    if (status == KG_OK) status = kg_cli_fleet_open(o->history, KG_FLEET_WRITES, o->wait_s, &fleet, err);
    if (status == KG_OK) status = kg_fleet_check(fleet, err);
    if (status == KG_OK) {
        push_all(fleet, &policy, o->pruned, &dirs, &pushes);
        *exit_code = dirs.n_names == 0 ? KG_EXIT_NOTHING_TO_DO : pushes.exit_code;
        status = answer(o, kg_fleet_where(fleet), &pushes, err);
    }
    kg_fleet_close(fleet);
    kg_dir_list_free(&dirs);
    kg_policy_free(&policy);
    kg_buffer_free(&pushes.text);
    json_decref(pushes.runs);
    return status;
}

int kg_cmd_push(int argc, char **argv) {
    struct push_options o = { .wait_s = KG_FLEET_WAIT_S };
    const struct kg_option options[] = {
        { .name = "all", .kind = KG_OPTION_FLAG, .value = &o.all, .help = "every bundle of the folder" },
        { .name = "pruned",
          .kind = KG_OPTION_FLAG,
          .value = &o.pruned,
          .help = "also runs that were pruned from the fleet" },
        KG_HISTORY_OPTION(&o.history),
        KG_WAIT_OPTION(&o.wait_s),
        KG_BUNDLES_OPTION(&o.bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo push",
        .usage = "RUN...|--all [--pruned] [--history URL] [--wait SECONDS] [--bundles DIR] [--json]",
        .summary =
            "Puts runs into a fleet's history (PostgreSQL), each in one transaction: the archive that 'kigo export'\n"
            "makes, and the rows of the index. A run must verify, and be signed as the folder's policy "
            "asks.\n" KG_RUN_NAMES "\n"
            "A run that the fleet has, or that was pruned from it, is left alone (exit code 0); another one under the\n"
            "same name is refused (4). Where the server goes away (5), a message says of the run at hand that nothing\n"
            "of it is in the fleet, or that this is not known: push it again, then. Nothing is pushed twice.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = MOST_RUNS,
    };
    struct kg_error err;
    int exit_code;
    if (!kg_cli_parse(&command, argc, argv, o.runs, MOST_RUNS, &exit_code)) return exit_code;
    enum kg_status status = KG_OK;
    exit_code = KG_EXIT_OK;
    if (o.all == (o.runs[0] != NULL))
        status = kg_fail(&err, KG_ERR_USAGE, "runs, or --all; usage: %s %s", command.name, command.usage);
    if (status == KG_OK) status = push(&o, &exit_code, &err);
    return status == KG_OK ? exit_code : kg_cli_error("push", &err);
}
