/* kigo import: takes bundles in from archives. */
#include "base/say.h"
#include "base/size.h"
#include "bundle/transfer.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/trust.h"
#include <stdio.h>
#include <stdlib.h>

struct import_options {
    const char *bundles, *allowed_signers;
    int64_t max_bytes;
    bool json, require_signature;
};

static enum kg_status answer(const struct kg_imported *imported, const char *root, bool json, struct kg_error *err) {
    if (imported->note[0]) kg_say(stderr, "kigo import: %s\n", imported->note);
    if (json)
        return kg_cli_print_json(json_pack("{s:s, s:s, s:b, s:o}", "bundle_id", imported->id, "tagmanifest_sha256",
                                           imported->tagmanifest_sha256, "already_here", imported->was_here,
                                           "signature", kg_cli_signature_json(&imported->signature)),
                                 err);
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_text_printf(&out, "%s/%s: %s", root, imported->id, imported->was_here ? "already here, " : "");
    kg_cli_signature_text(&imported->signature, &out);
    kg_buffer_puts(&out, "\n");
    return kg_cli_print(&out, err);
}

static enum kg_status import_file(const struct import_options *o, const char *path, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->bundles);
    struct kg_policy policy;
    struct kg_import import = { .root = root,
                                .path = path,
                                .limits = KG_IMPORT_LIMITS,
                                .trust = &policy.trust,
                                .require_signature = o->require_signature };
    struct kg_imported imported;
    struct kg_error why;
    if (o->max_bytes > 0) import.limits.max_bytes = (uint64_t)o->max_bytes;
    enum kg_status status = kg_policy_load(root, o->allowed_signers, &policy, err);
    if (status == KG_OK && o->require_signature && !policy.trust.allowed_signers)
        status = kg_fail(err, KG_ERR_USAGE, "--require-signature: no list of allowed signers (--allowed-signers FILE)");
    if (status == KG_OK) status = kg_bundle_import(&import, &imported, err);
    if (status == KG_OK && !imported.was_here && kg_history_add(root, imported.id, &why) != KG_OK)
        snprintf(imported.note, sizeof imported.note, "not indexed: %.400s", why.message);
    if (status == KG_OK) status = answer(&imported, root, o->json, err);
    kg_policy_free(&policy);
    return status;
}

int kg_cmd_import(int argc, char **argv) {
    struct import_options o = { 0 };
    const struct kg_option options[] = {
        KG_ALLOWED_SIGNERS_OPTION(&o.allowed_signers),
        { .name = "require-signature",
          .kind = KG_OPTION_FLAG,
          .value = &o.require_signature,
          .help = "take nothing that no allowed signer vouches for" },
        { .name = "max-bytes",
          .kind = KG_OPTION_INT,
          .value = &o.max_bytes,
          .metavar = "N",
          .help = "refuse an archive whose files are larger together (1 GiB)",
          .min = 1,
          .max = 9e15 },
        KG_BUNDLES_OPTION(&o.bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo import",
        .usage = "FILE [--allowed-signers FILE] [--require-signature] [--max-bytes N] [--bundles DIR] [--json]",
        .summary =
            "Takes in a bundle that 'kigo export' wrote. It is unpacked aside and published only if it verifies;\n"
            "links, devices, paths that lead out of it and names that come twice are refused, and nothing that is\n"
            "there is ever replaced: a bundle that is already here, the same and sound, is left as it is (exit\n"
            "code 0). Exit code 4: the archive, the bundle or its signature is not sound, or what is here under\n"
            "that id is another bundle or is spoilt.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char *path;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &path, 1, &ended)) return ended;
    return import_file(&o, path, &err) == KG_OK ? KG_EXIT_OK : kg_cli_error("import", &err);
}
