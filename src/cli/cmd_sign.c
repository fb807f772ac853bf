/* kigo sign: vouches for a bundle with an SSH key. */
#include "base/file.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/sign.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/trust.h"
#include <stdlib.h>
#include <string.h>

struct sign_options {
    const char *bundles, *key;
    bool json, again;
};

/* The index of the folder that the bundle lies in, if it has one and the bundle is in it, learns of the signature. */
static enum kg_status tell_index(const char *dir, struct kg_error *err) {
    char *real = realpath(dir, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    if (!slash) return free(real), KG_OK;
    *slash = '\0';
    char *index = kg_path_join(real, "index.sqlite");
    const enum kg_status status = kg_path_exists(index) ? kg_history_note_signature(real, slash + 1, err) : KG_OK;
    free(index);
    free(real);
    return status;
}

static enum kg_status sign(const struct sign_options *o, const char *run, struct kg_error *err) {
    char *dir = NULL, *key = NULL;
    struct kg_signature signature;
    enum kg_status status = kg_cli_bundle_find(kg_cli_bundles_root(o->bundles), run, &dir, err);
    if (status == KG_OK) status = kg_cli_sign_key(o->key, &key, err);
    if (status == KG_OK) status = kg_bundle_sign(dir, key, o->again, err);
    if (status == KG_OK) status = tell_index(dir, err);
    if (status == KG_OK) status = kg_signature_check(dir, NULL, &signature, err);
    if (status == KG_OK && o->json) {
        status = kg_cli_print_json(
            json_pack("{s:o, s:o}", "dir", kg_json_utf8(dir), "signature", kg_cli_signature_json(&signature)), err);
    } else if (status == KG_OK) {
        struct kg_buffer out = KG_BUFFER_INIT;
        kg_text_printf(&out, "%s: signed with %s\n", dir, signature.key);
        status = kg_cli_print(&out, err);
    }
    free(key);
    free(dir);
    return status;
}

int kg_cmd_sign(int argc, char **argv) {
    struct sign_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "key",
          .letter = 'k',
          .kind = KG_OPTION_TEXT,
          .value = &o.key,
          .metavar = "FILE",
          .help = "the SSH private key, or the public one of a key that the agent holds" },
        { .name = "again", .kind = KG_OPTION_FLAG, .value = &o.again, .help = "replace the existing signature" },
        KG_BUNDLES_OPTION(&o.bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo sign",
        .usage = "RUN --key FILE [--again] [--bundles DIR] [--json]",
        .summary =
            "Signs a bundle that verifies, with ssh-keygen, for the purpose kigo-bundle. The signature is a file in\n"
            "the bundle, tagmanifest-sha256.txt.sig; 'kigo verify --allowed-signers FILE' says whose it is. With\n"
            "$KIGO_TIMESTAMP_URL, an RFC 3161 time-stamping authority there is asked to prove when it was made.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char *run;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &ended)) return ended;
    enum kg_status status = KG_OK;
    if (!o.key)
        status = kg_fail(&err, KG_ERR_USAGE, "--key FILE is missing; usage: %s %s", command.name, command.usage);
    if (status == KG_OK) status = sign(&o, run, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("sign", &err);
}
