#include "cli/sprint.h"
#include "base/file.h"
#include "base/say.h"
#include "base/size.h"
#include "base/tty.h"
#include "bundle/source_tree.h"
#include "cli/bundles.h"
#include "signoff/judge.h"
#include "signoff/report.h"
#include <stdlib.h>
#include <string.h>

char *kg_cli_sprint_path(const char *dir, const char *sprint) {
    const char *from_environment = getenv("KIGO_SPRINTS"), *source = kg_tree_or_share();
    if (strchr(sprint, '/') || strstr(sprint, ".json")) return kg_xstrdup(sprint);
    if (!dir) dir = from_environment;
    if (dir && *dir) return kg_xasprintf("%s/%s.json", dir, sprint);
    return kg_xasprintf("%s/suites/sprints/%s.json", source ? source : ".", sprint);
}

/* The sprints of the folder that the path is in, "a, b"; nothing if there are none. */
static void put_sprints(const char *path, struct kg_buffer *out) {
    static const char END[] = ".json";
    const char *slash = strrchr(path, '/');
    char *dir = slash ? kg_xstrndup(path, (size_t)(slash - path)) : kg_xstrdup(".");
    struct kg_dir_list list = { 0 };
    if (kg_dir_list(dir, &list, NULL) == KG_OK)
        for (size_t i = 0; i < list.n_names; i++) {
            const size_t len = strlen(list.names[i]), n_end = strlen(END);
            if (len > n_end && strcmp(list.names[i] + len - n_end, END) == 0)
                kg_text_printf(out, "%s%.*s", out->len > 0 ? ", " : "", (int)(len - n_end), list.names[i]);
        }
    kg_dir_list_free(&list);
    free(dir);
}

enum kg_status kg_cli_sprint_load(const char *path, const char *sprint, struct kg_sprint *loaded,
                                  struct kg_error *err) {
    struct kg_buffer known = KG_BUFFER_INIT;
    if (!kg_path_exists(path) && !strchr(sprint, '/')) put_sprints(path, &known);
    const enum kg_status status =
        known.len > 0 ? kg_fail(err, KG_ERR_NOT_FOUND,
                                "there is no sprint '%s'; there are %s, and files of your own by their path", sprint,
                                kg_buffer_text(&known))
                      : kg_sprint_load(path, loaded, err);
    kg_buffer_free(&known);
    return status;
}

void kg_cli_criteria_print(const json_t *document, const char *where, struct kg_buffer *out) {
    static const char *const MEMBERS[] = { "state", "spec", "what", "wanted", "found" };
    const json_t *criterion, *criteria = json_object_get(document, "criteria");
    struct kg_table table = { .n_columns = KG_COUNT_OF(MEMBERS), .coloured = true };
    size_t i;
    for (size_t k = 0; k < KG_COUNT_OF(MEMBERS); k++) kg_table_add(&table, MEMBERS[k]);
    json_array_foreach(criteria, i, criterion) {
        for (size_t k = 0; k < KG_COUNT_OF(MEMBERS); k++) kg_table_add(&table, kg_json_text(criterion, MEMBERS[k]));
    }
    kg_table_print(&table, out);
    kg_table_free(&table);
    kg_text_printf(out, "%s: ", kg_json_text(document, "title"));
    kg_colour_word(out, kg_json_text(document, "verdict"));
    kg_text_printf(out, "; %lld met, %lld missed, %lld unproven%s%s\n", (long long)kg_json_int(document, "n_met", 0),
                   (long long)kg_json_int(document, "n_missed", 0), (long long)kg_json_int(document, "n_unproven", 0),
                   where ? "; " : "", where ? where : "");
}

enum kg_status kg_cli_figures_print(const struct kg_sprint *sprint, const char *dir, struct kg_buffer *out,
                                    struct kg_error *err) {
    const struct kg_evidence_rules rules = { .unsigned_too = true, .any_source = true };
    struct kg_evidence evidence = { NULL, 0 };
    struct kg_bundle_findings refusals = { NULL, 0 };
    char *const dirs[] = { (char *)(uintptr_t)dir };
    const enum kg_status status = kg_evidence_load(sprint, dirs, 1, &rules, &evidence, &refusals, err);
    for (size_t i = 0; i < refusals.n_items; i++)
        kg_text_printf(out, "%s: no figures: %s: %s\n", sprint->title, refusals.items[i].what,
                       refusals.items[i].detail);
    if (status == KG_OK && refusals.n_items == 0) {
        json_t *judgement = kg_signoff_judge(sprint, &evidence);
        kg_cli_criteria_print(judgement, NULL, out);
        json_decref(judgement);
    }
    kg_bundle_findings_free(&refusals);
    kg_evidence_free(&evidence);
    return status;
}

bool kg_cli_goals_count(const struct kg_export *from, struct kg_goal_counts *counts) {
    const char *name = kg_json_text(json_object_get(from->env, "run"), "report");
    struct kg_sprint sprint = { 0 };
    struct kg_error unheard;
    if (!name) return false;
    char *path = kg_cli_sprint_path(NULL, name);
    const bool known = kg_sprint_load(path, &sprint, &unheard) == KG_OK;
    free(path);
    if (!known) return false;
    struct kg_evidence_run run = { .id = kg_json_text(from->summary, "bundle_id"),
                                   .records = *from->records,
                                   .has_gpu = json_array_size(json_object_get(from->env, "gpus")) > 0 };
    kg_sprint_keep_figures(&sprint);
    json_t *judgement = kg_signoff_judge(&sprint, &(const struct kg_evidence){ &run, 1 });
    *counts = (struct kg_goal_counts){ (size_t)kg_json_int(judgement, "n_met", 0),
                                       (size_t)kg_json_int(judgement, "n_missed", 0),
                                       (size_t)kg_json_int(judgement, "n_unproven", 0) };
    json_decref(judgement);
    kg_sprint_free(&sprint);
    return true;
}
