/* kigo pull: bundles back from the fleet's history. */
#include "base/file.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/transfer.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/fleet.h"
#include "cli/trust.h"
#include <stdio.h>
#include <stdlib.h>

struct pull_options {
    const char *bundles, *history, *allowed_signers;
    int64_t wait_s;
    bool json, require_signature;
};

/* Fetches the archive, and takes it in as `kigo import` does. */
static enum kg_status take_in(struct kg_fleet *fleet, const char *run, const struct kg_import *how,
                              struct kg_imported *imported, struct kg_error *err) {
    struct kg_progress progress;
    const struct kg_fleet_watch watch = kg_cli_fleet_watch(&progress, "pull");
    struct kg_import import = *how;
    char id[256], *scratch = NULL, *path = NULL;
    enum kg_status status = kg_fleet_find(fleet, run, id, err);
    if (status == KG_OK) status = kg_fleet_scratch(&scratch, err);
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
    return status;
}

static enum kg_status answer(const struct kg_imported *imported, const char *root, const char *where, bool json,
                             struct kg_error *err) {
    if (imported->note[0]) kg_say(stderr, "kigo pull: %s\n", imported->note);
    if (json)
        return kg_cli_print_json(json_pack("{s:o, s:s, s:s, s:b, s:o}", "history", kg_json_utf8(where), "bundle_id",
                                           imported->id, "tagmanifest_sha256", imported->tagmanifest_sha256,
                                           "already_here", imported->was_here, "signature",
                                           kg_cli_signature_json(&imported->signature)),
                                 err);
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_text_printf(&out, "%s/%s: %s", root, imported->id, imported->was_here ? "already here, " : "");
    kg_cli_signature_text(&imported->signature, &out);
    kg_buffer_puts(&out, "\n");
    return kg_cli_print(&out, err);
}

static enum kg_status pull(const struct pull_options *o, const char *run, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->bundles);
    struct kg_policy policy;
    const struct kg_import how = {
        .root = root, .limits = KG_IMPORT_LIMITS, .trust = &policy.trust, .require_signature = o->require_signature
    };
    struct kg_fleet *fleet = NULL;
    struct kg_imported imported;
    struct kg_error why;
    enum kg_status status = kg_policy_load(root, o->allowed_signers, &policy, err);
    if (status == KG_OK && o->require_signature && !policy.trust.allowed_signers)
        status = kg_fail(err, KG_ERR_USAGE, "--require-signature: no list of allowed signers (--allowed-signers FILE)");
    if (status == KG_OK) status = kg_cli_fleet_open(o->history, o->wait_s, &fleet, err);
    if (status == KG_OK) status = kg_fleet_check(fleet, err);
    if (status == KG_OK) status = take_in(fleet, run, &how, &imported, err);
    if (status == KG_OK && !imported.was_here && kg_history_add(root, imported.id, &why) != KG_OK)
        snprintf(imported.note, sizeof imported.note, "not indexed: %.400s", why.message);
    if (status == KG_OK) status = answer(&imported, root, kg_fleet_where(fleet), o->json, err);
    kg_fleet_close(fleet);
    kg_policy_free(&policy);
    return status;
}

int kg_cmd_pull(int argc, char **argv) {
    struct pull_options o = { .wait_s = KG_FLEET_WAIT_S };
    const struct kg_option options[] = {
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
        .usage = "RUN [--history URL] [--wait SECONDS] [--allowed-signers FILE] [--require-signature] [--bundles DIR] "
                 "[--json]",
        .summary =
            "Brings a run back from a fleet's history (PostgreSQL), as 'kigo import' takes in an archive: it must\n"
            "verify, and nothing that is here is replaced. RUN is the id, the beginning of one, its last 8 digits,\n"
            "or 7 and more digits of its commit.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char *run;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &ended)) return ended;
    return pull(&o, run, &err) == KG_OK ? KG_EXIT_OK : kg_cli_error("pull", &err);
}
