/* kigo checkpoint: what a store holds, to be kept elsewhere. */
#include "base/clock.h"
#include "base/file.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/chain.h"
#include "bundle/checkpoint.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/trust.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checkpoint_options {
    const char *bundles, *output, *sign;
    bool json;
};

/* A chain that does not hold is no state to come back to. */
static enum kg_status check_chain(const char *root, struct kg_error *err) {
    struct kg_policy policy;
    struct kg_chain_report report;
    struct kg_bundle_findings findings = { NULL, 0 };
    enum kg_status status = kg_policy_load(root, NULL, &policy, err);
    if (status == KG_OK) status = kg_chain_verify(root, &policy, false, &report, &findings, err);
    if (status == KG_OK && findings.n_items > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "the chain does not hold ('kigo verify --chain'): %s %s: %s",
                         findings.items[0].what, findings.items[0].path, findings.items[0].detail);
    kg_bundle_findings_free(&findings);
    kg_policy_free(&policy);
    return status;
}

static enum kg_status write_to(const char *path, const char *key, const json_t *checkpoint, struct kg_error *err) {
    struct kg_buffer text = KG_BUFFER_INIT;
    char *json = json_dumps(checkpoint, JSON_INDENT(2));
    kg_buffer_printf(&text, "%s\n", json);
    enum kg_status status = kg_file_write(path, text.data, text.len, err);
    if (status == KG_OK && key) status = kg_sign_beside(key, KG_SIGN_CHECKPOINT, path, err);
    kg_buffer_free(&text);
    free(json);
    return status;
}

static enum kg_status checkpoint(const struct checkpoint_options *o, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->bundles);
    json_t *made = NULL;
    char *key = NULL;
    enum kg_status status = KG_OK;
    if (o->sign && !o->output) status = kg_fail(err, KG_ERR_USAGE, "--sign needs --output FILE, which it signs");
    if (status == KG_OK) status = kg_cli_sign_key(o->sign, &key, err);
    if (status == KG_OK) status = check_chain(root, err);
    if (status == KG_OK) status = kg_checkpoint_make(root, kg_clock_utc_us(), &made, err);
    if (status == KG_OK && o->output) status = write_to(o->output, key, made, err);
    if (status == KG_OK && (o->json || !o->output)) {
        status = kg_cli_print_json(json_incref(made), err);
    } else if (status == KG_OK) {
        struct kg_buffer out = KG_BUFFER_INIT;
        kg_text_printf(&out, "%s: %lld runs%s\n", o->output,
                       (long long)json_integer_value(json_object_get(made, "n_runs")), key ? ", signed" : "");
        status = kg_cli_print(&out, err);
    }
    json_decref(made);
    free(key);
    return status;
}

int kg_cmd_checkpoint(int argc, char **argv) {
    struct checkpoint_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "output",
          .letter = 'o',
          .kind = KG_OPTION_TEXT,
          .value = &o.output,
          .metavar = "FILE",
          .help = "write it there (standard output)" },
        { .name = "sign",
          .kind = KG_OPTION_TEXT,
          .value = &o.sign,
          .metavar = "FILE",
          .help = "sign it with this SSH key: <output>.sig" },
        KG_BUNDLES_OPTION(&o.bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo checkpoint",
        .usage = "[-o FILE [--sign KEY]] [--bundles DIR] [--json]",
        .summary =
            "Says what the folder of bundles holds: how many runs, and the id and hash of the last of them, which\n"
            "names the one before it, and so on. Keep or publish it where whoever writes the bundles cannot change\n"
            "it: 'kigo verify --chain --since FILE' then finds every run that went missing or was made again, the\n"
            "newest too. Exit code 4: the chain does not hold.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;
    return checkpoint(&o, &err) == KG_OK ? KG_EXIT_OK : kg_cli_error("checkpoint", &err);
}
