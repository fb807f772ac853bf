/* kigo verify: whether bundles are what they were when they were sealed. */
#include "base/beneath.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "base/tty.h"
#include "bundle/beside.h"
#include "bundle/derived.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "bundle/standing.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/trust.h"
#include "cli/verify_report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void kg_verify_signature(const char *file, const struct kg_verify_report *report, enum kg_role role,
                         const struct kg_signature *signature, struct kg_bundle_findings *findings) {
    struct kg_buffer said = KG_BUFFER_INIT;
    const bool too_little = report->require_signature && signature->state != KG_SIGNATURE_GOOD;
    kg_cli_signature_text(signature, &said);
    if (kg_signature_is_wrong(signature) || too_little) {
        kg_finding_add(findings, "signature", file, "%s", said.data);
    } else if (role != KG_ROLE_COUNT && !kg_policy_takes(&report->policy, role, false, signature)) {
        char *wanted = kg_policy_text(&report->policy, role);
        kg_finding_add(findings, "signature", file, "%s; the policy (%s) takes %s", said.data, report->policy.path,
                       wanted);
        free(wanted);
    }
    kg_buffer_free(&said);
}

void kg_verify_word(const struct kg_bundle_findings *findings, struct kg_buffer *text) {
    kg_colour_word(text, findings->n_items == 0 ? "ok" : "BAD");
    kg_buffer_puts(text, findings->n_items == 0 ? "   " : "  ");
}

void kg_verify_print(const struct kg_bundle_findings *findings, struct kg_buffer *text) {
    for (size_t i = 0; i < findings->n_items; i++)
        kg_text_printf(text, "     %s %s: %s\n", findings->items[i].what, findings->items[i].path,
                       findings->items[i].detail);
}

/* What the signature and the bundle say of each other. */
static void check_signing(const char *dir, const struct kg_signature *signature, struct kg_bundle_findings *findings) {
    json_t *summary = NULL;
    if (signature->state == KG_SIGNATURE_NONE && kg_signature_was_required(dir))
        kg_finding_add(findings, "signature", "tagmanifest-sha256.txt.sig", "the run was to be signed, and is not");
    if (!signature->stamped_us || kg_bundle_read_json(dir, "data/summary.json", &summary, NULL) != KG_OK) return;
    if (kg_json_int(summary, "sealed_us", 0) > signature->stamped_us + (int64_t)KG_TIME_SLACK_S * 1000000)
        kg_finding_add(findings, "time", "data/summary.json",
                       "says that it was sealed after its signature's time stamp");
    json_decref(summary);
}

static void report_one(const char *dir, const struct kg_signature *signature, const struct kg_bundle_findings *findings,
                       struct kg_verify_report *report) {
    struct kg_buffer left = KG_BUFFER_INIT;
    report->n_bad += findings->n_items > 0;
    report->n_findings += kg_bundle_findings_count(findings);
    kg_derived_not_compared(dir, &left);
    if (report->json) {
        json_array_append_new(report->bundles,
                              json_pack("{s:o, s:b, s:o, s:s, s:o}", "dir", kg_json_utf8(dir), "ok",
                                        findings->n_items == 0, "signature", kg_cli_signature_json(signature),
                                        "not_compared", kg_buffer_text(&left), "findings",
                                        kg_cli_findings_json(findings)));
        kg_buffer_free(&left);
        return;
    }
    kg_verify_word(findings, &report->text);
    kg_text_printf(&report->text, "%s\n", dir);
    kg_verify_print(findings, &report->text);
    if (left.len > 0)
        kg_text_printf(&report->text, "     not compared with the records: %s (made by another version)\n", left.data);
    kg_buffer_free(&left);
    if (signature->state == KG_SIGNATURE_NONE || kg_signature_is_wrong(signature)) return;
    kg_buffer_puts(&report->text, "     ");
    kg_cli_signature_text(signature, &report->text);
    kg_buffer_puts(&report->text, "\n");
}

/* A link, a pipe or a file that is named like a bundle. */
static void no_folder(const char *dir, struct kg_verify_report *report) {
    const struct kg_signature none = { .state = KG_SIGNATURE_NONE };
    struct kg_bundle_findings findings = { NULL, 0 };
    kg_finding_add(&findings, "format", "", "%s is no folder: a bundle is one, and no link to one", dir);
    report_one(dir, &none, &findings, report);
    kg_bundle_findings_free(&findings);
}

static enum kg_status verify_one(const char *dir, bool named_by_id, struct kg_verify_report *report,
                                 struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_signature signature;
    enum kg_status status = kg_bundle_verify(dir, &findings, err);
    if (status != KG_OK && status != KG_ERR_INTEGRITY) return status;
    status = kg_signature_check(dir, &report->policy.trust, &signature, err);
    if (status != KG_OK) return kg_bundle_findings_free(&findings), status;
    kg_verify_signature("tagmanifest-sha256.txt.sig", report, KG_ROLE_BUNDLES, &signature, &findings);
    check_signing(dir, &signature, &findings);
    json_t *summary = NULL;
    if (named_by_id && kg_bundle_read_json(dir, "data/summary.json", &summary, NULL) == KG_OK) {
        const char *id = kg_json_text(summary, "bundle_id");
        if (id && strcmp(id, last_part(dir)) != 0)
            kg_finding_add(&findings, "renamed", "", "the folder of bundle '%s'", id);
    }
    json_decref(summary);
    report_one(dir, &signature, &findings, report);
    kg_bundle_findings_free(&findings);
    return KG_OK;
}

/* Every folder of the root but hidden ones and those beside the bundles: a bundle that was renamed is seen too. */
static enum kg_status verify_all(const char *root, struct kg_verify_report *report, size_t *n_bundles,
                                 struct kg_error *err) {
    struct kg_dir_list list = { 0 };
    enum kg_status status = kg_cli_bundles_list(root, &list, err);
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        const char *name = list.names[i];
        int64_t unused;
        char *dir = kg_path_join(root, name);
        const bool is_folder = kg_beneath_is_folder(root, name), is_named = kg_bundle_id_parse(name, &unused);
        if (name[0] != '.' && !kg_beside_is_folder(name) && (is_folder || is_named)) {
            if (is_folder) status = verify_one(dir, true, report, err);
            else no_folder(dir, report);
            (*n_bundles)++;
        }
        free(dir);
    }
    kg_dir_list_free(&list);
    return status;
}

static enum kg_status verify(const char *root, const char *run, struct kg_verify_report *report, size_t *n_bundles,
                             struct kg_error *err) {
    if (!run) return verify_all(root, report, n_bundles, err);
    char *dir = NULL;
    enum kg_status status = kg_cli_bundle_find(root, run, &dir, err);
    if (status == KG_OK) status = verify_one(dir, false, report, err);
    *n_bundles = 1;
    free(dir);
    return status;
}

static int finish(struct kg_verify_report *report, size_t n_bundles) {
    struct kg_error err;
    enum kg_status status;
    if (report->json) {
        json_t *answer =
            json_pack("{s:I, s:I, s:I, s:O}", "n_bundles", (json_int_t)n_bundles, "n_bad", (json_int_t)report->n_bad,
                      "n_findings", (json_int_t)report->n_findings, "bundles", report->bundles);
        if (report->chain) json_object_set(answer, "chain", report->chain);
        if (report->signoffs) json_object_set(answer, "signoffs", report->signoffs);
        status = kg_cli_print_json(answer, &err);
    } else {
        if (n_bundles > 0 || (!report->chain && !report->signoffs))
            kg_text_printf(&report->text, "%zu bundle%s, %zu bad\n", n_bundles, n_bundles == 1 ? "" : "s",
                           report->n_bad);
        status = kg_cli_print(&report->text, &err);
    }
    if (status != KG_OK) return kg_cli_error("verify", &err);
    const bool nothing = n_bundles == 0 && !report->chain && json_array_size(report->signoffs) == 0;
    return report->n_findings > 0 ? KG_EXIT_INTEGRITY : nothing ? KG_EXIT_NOTHING_TO_DO : KG_EXIT_OK;
}

int kg_cmd_verify(int argc, char **argv) {
    const char *bundles = NULL, *allowed = NULL, *since = NULL;
    bool json = false, all = false, chain = false, signoffs = false, require_signature = false;
    const struct kg_option options[] = {
        { .name = "all", .kind = KG_OPTION_FLAG, .value = &all, .help = "every bundle of the folder" },
        { .name = "chain",
          .kind = KG_OPTION_FLAG,
          .value = &chain,
          .help = "whether every run that a later one names is still there (or in left-out.txt)" },
        { .name = "since",
          .kind = KG_OPTION_TEXT,
          .value = &since,
          .metavar = "FILE",
          .help = "with --chain: whether all that was here at this checkpoint ('kigo checkpoint') still is" },
        { .name = "signoffs",
          .kind = KG_OPTION_FLAG,
          .value = &signoffs,
          .help = "every sign-off: its documents, runs and verdict (--all does so too)" },
        KG_ALLOWED_SIGNERS_OPTION(&allowed),
        { .name = "require-signature",
          .kind = KG_OPTION_FLAG,
          .value = &require_signature,
          .help = "anything but the signature of an allowed signer is a finding" },
        KG_BUNDLES_OPTION(&bundles),
        KG_COLOR_OPTION,
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo verify",
        .usage = "RUN|--all|--chain [--since FILE]|--signoffs [--allowed-signers FILE] [--require-signature] "
                 "[--bundles DIR] [--json]",
        .summary =
            "Checks every file of a bundle against its manifests, every figure against its records, and makes again "
            "what is\n"
            "derived from them (reports, statement).\n" KG_RUN_NAMES
            "\nLists every finding; exit code 4 if there is any. Of signatures it finds: one that is not over these\n"
            "bytes; one by no allowed signer, where there is a list of them; none, where the run or the store's "
            "policy\n"
            "(kigo.policy.json) asks for one.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    const char *run;
    size_t n_bundles = 0;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &ended)) return ended;
    const char *root = kg_cli_bundles_root(bundles);
    struct kg_verify_report report = { .json = json, .require_signature = require_signature, .bundles = json_array() };
    enum kg_status status = KG_OK;
    if ((all || chain || signoffs) == (run != NULL))
        status = kg_fail(&err, KG_ERR_USAGE, "one RUN, or --all, --chain or --signoffs; usage: %s %s", command.name,
                         command.usage);
    else if (since && !chain) status = kg_fail(&err, KG_ERR_USAGE, "--since goes with --chain");
    if (status == KG_OK) status = kg_policy_load(root, allowed, &report.policy, &err);
    if (status == KG_OK && require_signature && !report.policy.trust.allowed_signers)
        status =
            kg_fail(&err, KG_ERR_USAGE, "--require-signature: no list of allowed signers (--allowed-signers FILE)");
    if (status == KG_OK && (all || run)) status = verify(root, run, &report, &n_bundles, &err);
    if (status == KG_OK && (all || signoffs)) status = kg_verify_signoffs(root, &report, &err);
    if (status == KG_OK && chain) status = kg_verify_chain(root, since, &report, &err);
    const int code = status == KG_OK ? finish(&report, n_bundles) : kg_cli_error("verify", &err);
    kg_buffer_free(&report.text);
    json_decref(report.bundles);
    json_decref(report.chain);
    json_decref(report.signoffs);
    kg_policy_free(&report.policy);
    return code;
}
