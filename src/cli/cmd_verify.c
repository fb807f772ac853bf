/* kigo verify: whether bundles are what they were when they were sealed. */
#include "base/file.h"
#include "base/size.h"
#include "bundle/records.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
    bool json;
    struct kg_buffer text;
    json_t *bundles;
    size_t n_bad, n_findings;
};

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static enum kg_status verify_one(const char *dir, bool named_by_id, struct report *report, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    const enum kg_status status = kg_bundle_verify(dir, &findings, err);
    if (status != KG_OK && status != KG_ERR_INTEGRITY) return status;
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
                              json_pack("{s:o, s:b, s:o}", "dir", shown ? shown : json_null(), "ok",
                                        findings.n_items == 0, "findings", kg_cli_findings_json(&findings)));
    } else {
        kg_buffer_printf(&report->text, "%-4s %s\n", findings.n_items == 0 ? "ok" : "BAD", dir);
        for (size_t i = 0; i < findings.n_items; i++)
            kg_buffer_printf(&report->text, "     %s %s: %s\n", findings.items[i].what, findings.items[i].path,
                             findings.items[i].detail);
    }
    kg_bundle_findings_free(&findings);
    return KG_OK;
}

/* Every folder of the root but hidden ones: a bundle that was renamed is seen too. */
static enum kg_status verify_all(const char *root, struct report *report, size_t *n_bundles, struct kg_error *err) {
    struct kg_dir_list list = { 0 };
    enum kg_status status = kg_dir_list(root, &list, err);
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        char *dir = kg_path_join(root, list.names[i]);
        if (list.names[i][0] != '.' && kg_path_is_dir(dir)) {
            status = verify_one(dir, true, report, err);
            (*n_bundles)++;
        }
        free(dir);
    }
    kg_dir_list_free(&list);
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
        status = kg_cli_print_json(json_pack("{s:I, s:I, s:I, s:O}", "n_bundles", (json_int_t)n_bundles, "n_bad",
                                             (json_int_t)report->n_bad, "n_findings", (json_int_t)report->n_findings,
                                             "bundles", report->bundles),
                                   &err);
    } else {
        kg_buffer_printf(&report->text, "%zu bundle%s, %zu bad\n", n_bundles, n_bundles == 1 ? "" : "s", report->n_bad);
        status = kg_cli_print(&report->text, &err);
    }
    if (status != KG_OK) return kg_cli_error("verify", &err);
    return report->n_bad > 0 ? KG_EXIT_INTEGRITY : n_bundles == 0 ? KG_EXIT_NOTHING_TO_DO : KG_EXIT_OK;
}

int kg_cmd_verify(int argc, char **argv) {
    const char *bundles = NULL;
    bool json = false, all = false, helped;
    const struct kg_option options[] = {
        { .name = "all", .kind = KG_OPTION_FLAG, .value = &all, .help = "every bundle of the folder" },
        KG_BUNDLES_OPTION(&bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo verify",
        .usage = "RUN|--all [--bundles DIR] [--json]",
        .summary =
            "Checks every file of a bundle against its manifests and every figure against its records.\n"
            "RUN is an id, the beginning of one, 'latest', or a folder. Lists every finding; exit code 4 if any.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    const char **args;
    size_t n_args, n_bundles = 0;
    struct kg_error err;
    if (kg_options_parse(&command, argc, argv, &args, &n_args, &helped, &err) != KG_OK)
        return kg_cli_error("verify", &err);
    const char *run = n_args > 0 ? args[0] : NULL;
    free(args);
    if (helped) return KG_EXIT_OK;
    if (all == (run != NULL)) {
        kg_fail(&err, KG_ERR_USAGE, "one RUN or --all; usage: %s %s", command.name, command.usage);
        return kg_cli_error("verify", &err);
    }
    struct report report = { .json = json, .bundles = json_array() };
    const enum kg_status status = verify(kg_cli_bundles_root(bundles), run, &report, &n_bundles, &err);
    const int code = status == KG_OK ? finish(&report, n_bundles) : kg_cli_error("verify", &err);
    kg_buffer_free(&report.text);
    json_decref(report.bundles);
    return code;
}
