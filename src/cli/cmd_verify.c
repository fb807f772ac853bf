/* kigo verify: whether bundles are what they were when they were sealed. */
#include "base/file.h"
#include "base/size.h"
#include "bundle/beside.h"
#include "bundle/chain.h"
#include "bundle/left_out.h"
#include "bundle/records.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/trust.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
    bool json, require_signature;
    const char *allowed_signers; /* NULL: none named */
    struct kg_buffer text;
    json_t *bundles;
    json_t *chain; /* NULL: not asked for */
    size_t n_bad, n_findings;
};

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* A signature that says nothing is reported; one that says the wrong thing is a finding. */
static void judge_signature(const char *file, const struct report *report, const struct kg_signature *signature,
                            struct kg_bundle_findings *findings) {
    struct kg_buffer said = KG_BUFFER_INIT;
    kg_cli_signature_text(signature, &said);
    const bool wrong = signature->state == KG_SIGNATURE_BAD || signature->state == KG_SIGNATURE_UNTRUSTED;
    const bool too_little = report->require_signature && signature->state != KG_SIGNATURE_GOOD;
    if (wrong || too_little) kg_finding_add(findings, "signature", file, "%s", said.data);
    kg_buffer_free(&said);
}

static void print_findings(const struct kg_bundle_findings *findings, struct kg_buffer *text) {
    for (size_t i = 0; i < findings->n_items; i++)
        kg_buffer_printf(text, "     %s %s: %s\n", findings->items[i].what, findings->items[i].path,
                         findings->items[i].detail);
}

static enum kg_status verify_one(const char *dir, bool named_by_id, struct report *report, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_signature signature;
    enum kg_status status = kg_bundle_verify(dir, &findings, err);
    if (status != KG_OK && status != KG_ERR_INTEGRITY) return status;
    status = kg_signature_check(dir, report->allowed_signers, &signature, err);
    if (status != KG_OK) return kg_bundle_findings_free(&findings), status;
    judge_signature("tagmanifest-sha256.txt.sig", report, &signature, &findings);
    json_t *summary = NULL;
    if (named_by_id && kg_bundle_read_json(dir, "data/summary.json", &summary, NULL) == KG_OK) {
        const char *id = kg_json_text(summary, "bundle_id");
        if (id && strcmp(id, last_part(dir)) != 0)
            kg_finding_add(&findings, "renamed", "", "the folder of bundle '%s'", id);
    }
    json_decref(summary);
    report->n_bad += findings.n_items > 0;
    report->n_findings += findings.n_items;
    if (report->json) {
        json_t *shown = json_string(dir);
        json_array_append_new(report->bundles,
                              json_pack("{s:o, s:b, s:o, s:o}", "dir", shown ? shown : json_null(), "ok",
                                        findings.n_items == 0, "signature", kg_cli_signature_json(&signature),
                                        "findings", kg_cli_findings_json(&findings)));
    } else {
        kg_buffer_printf(&report->text, "%-4s %s\n", findings.n_items == 0 ? "ok" : "BAD", dir);
        print_findings(&findings, &report->text);
        if (signature.state == KG_SIGNATURE_GOOD || signature.state == KG_SIGNATURE_INTACT ||
            signature.state == KG_SIGNATURE_UNCHECKED) {
            kg_buffer_puts(&report->text, "     ");
            kg_cli_signature_text(&signature, &report->text);
            kg_buffer_puts(&report->text, "\n");
        }
    }
    kg_bundle_findings_free(&findings);
    return KG_OK;
}

/* Every folder of the root but hidden ones and those beside the bundles: a bundle that was renamed is seen too. */
static enum kg_status verify_all(const char *root, struct report *report, size_t *n_bundles, struct kg_error *err) {
    struct kg_dir_list list = { 0 };
    enum kg_status status = kg_dir_list(root, &list, err);
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        char *dir = kg_path_join(root, list.names[i]);
        if (list.names[i][0] != '.' && !kg_beside_is_folder(list.names[i]) && kg_path_is_dir(dir)) {
            status = verify_one(dir, true, report, err);
            (*n_bundles)++;
        }
        free(dir);
    }
    kg_dir_list_free(&list);
    return status;
}

static void put_chain(const char *root, const struct kg_chain_report *chain, const struct kg_signature *signature,
                      const struct kg_bundle_findings *findings, struct report *report) {
    struct kg_buffer *text = &report->text;
    report->n_findings += findings->n_items;
    report->chain =
        json_pack("{s:b, s:I, s:I, s:o, s:o}", "ok", findings->n_items == 0, "n_links", (json_int_t)chain->n_links,
                  "n_left_out", (json_int_t)chain->n_left_out, "left_out_signature", kg_cli_signature_json(signature),
                  "findings", kg_cli_findings_json(findings));
    kg_buffer_printf(text, "%-4s chain of %s: %zu link%s hold%s\n", findings->n_items == 0 ? "ok" : "BAD", root,
                     chain->n_links, chain->n_links == 1 ? "" : "s", chain->n_links == 1 ? "s" : "");
    if (chain->n_left_out > 0) {
        kg_buffer_printf(text, "     %zu more lead%s to what was left out on purpose: %s/" KG_LEFT_OUT ", ",
                         chain->n_left_out, chain->n_left_out == 1 ? "s" : "", root);
        kg_cli_signature_text(signature, text);
        kg_buffer_puts(text, "\n");
    }
    print_findings(findings, text);
}

/* Whether every bundle that another names is there, or was left out by who may say so. */
static enum kg_status verify_chain(const char *root, struct report *report, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_chain_report chain;
    struct kg_signature signature = { .state = KG_SIGNATURE_NONE };
    char *list = kg_path_join(root, KG_LEFT_OUT);
    enum kg_status status = kg_chain_verify(root, &chain, &findings, err);
    if (status == KG_OK && kg_path_exists(list)) {
        status = kg_signature_check_file(list, KG_SIGN_LEFT_OUT, report->allowed_signers, &signature, err);
        if (status == KG_OK) judge_signature(KG_LEFT_OUT ".sig", report, &signature, &findings);
    }
    if (status == KG_OK) put_chain(root, &chain, &signature, &findings, report);
    kg_bundle_findings_free(&findings);
    free(list);
    return status;
}

static enum kg_status verify(const char *root, const char *run, struct report *report, size_t *n_bundles,
                             struct kg_error *err) {
    if (!run) return verify_all(root, report, n_bundles, err);
    char *dir = NULL;
    enum kg_status status = kg_cli_bundle_find(root, run, &dir, err);
    if (status == KG_OK) status = verify_one(dir, false, report, err);
    *n_bundles = 1;
    free(dir);
    return status;
}

static int finish(struct report *report, size_t n_bundles) {
    struct kg_error err;
    enum kg_status status;
    if (report->json) {
        json_t *answer =
            json_pack("{s:I, s:I, s:I, s:O}", "n_bundles", (json_int_t)n_bundles, "n_bad", (json_int_t)report->n_bad,
                      "n_findings", (json_int_t)report->n_findings, "bundles", report->bundles);
        if (report->chain) json_object_set(answer, "chain", report->chain);
        status = kg_cli_print_json(answer, &err);
    } else {
        if (n_bundles > 0 || !report->chain)
            kg_buffer_printf(&report->text, "%zu bundle%s, %zu bad\n", n_bundles, n_bundles == 1 ? "" : "s",
                             report->n_bad);
        status = kg_cli_print(&report->text, &err);
    }
    if (status != KG_OK) return kg_cli_error("verify", &err);
    const bool nothing = n_bundles == 0 && !report->chain;
    return report->n_findings > 0 ? KG_EXIT_INTEGRITY : nothing ? KG_EXIT_NOTHING_TO_DO : KG_EXIT_OK;
}

int kg_cmd_verify(int argc, char **argv) {
    const char *bundles = NULL, *allowed = NULL;
    bool json = false, all = false, chain = false, require_signature = false;
    const struct kg_option options[] = {
        { .name = "all", .kind = KG_OPTION_FLAG, .value = &all, .help = "every bundle of the folder" },
        { .name = "chain",
          .kind = KG_OPTION_FLAG,
          .value = &chain,
          .help = "whether every run that a later one names is still there (or in left-out.txt)" },
        KG_ALLOWED_SIGNERS_OPTION(&allowed),
        { .name = "require-signature",
          .kind = KG_OPTION_FLAG,
          .value = &require_signature,
          .help = "anything but the signature of an allowed signer is a finding" },
        KG_BUNDLES_OPTION(&bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo verify",
        .usage = "RUN|--all|--chain [--allowed-signers FILE] [--require-signature] [--bundles DIR] [--json]",
        .summary =
            "Checks every file of a bundle against its manifests and every figure against its records.\n"
            "RUN is an id, the beginning of one, 'latest', or a folder. Lists every finding; exit code 4 if any. A\n"
            "signature that is not over these bytes is one, and one by no allowed signer where there is a list of "
            "them.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    const char *run;
    size_t n_bundles = 0;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &ended)) return ended;
    if ((all || chain) == (run != NULL)) {
        kg_fail(&err, KG_ERR_USAGE, "one RUN, or --all or --chain; usage: %s %s", command.name, command.usage);
        return kg_cli_error("verify", &err);
    }
    const char *root = kg_cli_bundles_root(bundles);
    char *allowed_signers = kg_cli_allowed_signers(allowed, root);
    struct report report = { .json = json,
                             .require_signature = require_signature,
                             .allowed_signers = allowed_signers,
                             .bundles = json_array() };
    enum kg_status status = KG_OK;
    if (require_signature && !allowed_signers)
        status =
            kg_fail(&err, KG_ERR_USAGE, "--require-signature: no list of allowed signers (--allowed-signers FILE)");
    if (status == KG_OK && (all || run)) status = verify(root, run, &report, &n_bundles, &err);
    if (status == KG_OK && chain) status = verify_chain(root, &report, &err);
    const int code = status == KG_OK ? finish(&report, n_bundles) : kg_cli_error("verify", &err);
    kg_buffer_free(&report.text);
    json_decref(report.bundles);
    json_decref(report.chain);
    free(allowed_signers);
    return code;
}
