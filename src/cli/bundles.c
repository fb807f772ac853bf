#include "cli/bundles.h"
#include "base/beneath.h"
#include "base/clock.h"
#include "base/io_errors.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/tty.h"
#include "bundle/beside.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "bundle/standing.h"
#include "history/trust.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reads_bundles, answer_is_partial;

const char *kg_cli_bundles_root(const char *given) {
    reads_bundles = true;
    const char *from_environment = getenv("KIGO_BUNDLES");
    if (given) return given;
    return from_environment && *from_environment ? from_environment : "proof-bundles";
}

/* Keeps the names that are bundle ids. */
static void keep_ids(struct kg_dir_list *list) {
    size_t kept = 0;
    for (size_t i = 0; i < list->n_names; i++) {
        int64_t unused;
        if (kg_bundle_id_parse(list->names[i], &unused)) list->names[kept++] = list->names[i];
        else free(list->names[i]);
    }
    list->n_names = kept;
}

enum kg_status kg_cli_bundles_list(const char *root, struct kg_dir_list *list, struct kg_error *err) {
    if (!kg_path_is_dir(root)) return kg_fail(err, KG_ERR_NOT_FOUND, KG_NO_BUNDLES, root);
    return kg_dir_list(root, list, err);
}

enum kg_status kg_cli_bundle_find_by(const char *root, const char *run, enum kg_run_names names, char **dir,
                                     struct kg_error *err) {
    const bool is_path = strchr(run, '/') || strcmp(run, ".") == 0 || strcmp(run, "..") == 0;
    struct kg_dir_list ids = { 0 };
    const char *id = NULL;
    if (!*run) return kg_fail(err, KG_ERR_USAGE, "the name of the run is empty");
    enum kg_status status = KG_ERR_NOT_FOUND;
    if (!is_path) status = kg_cli_bundles_list(root, &ids, err);
    if (status == KG_OK) {
        keep_ids(&ids);
        const struct kg_run_place place = { .root = root, .where = root, .policy_root = root };
        status = kg_run_name_choose(&place, run, names, &ids, &id, err);
    }
    if (status == KG_OK && !kg_beneath_is_folder(root, id))
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s/%s is no folder: a bundle is one, and no link to one", root, id);
    if (status == KG_OK) *dir = kg_path_join(root, id);
    kg_dir_list_free(&ids);
    if (status != KG_ERR_NOT_FOUND) return status;
    if (kg_path_is_dir(run)) {
        *dir = kg_xstrdup(run);
        return KG_OK;
    }
    return is_path ? kg_fail(err, KG_ERR_NOT_FOUND, "%s: no such folder", run) : status;
}

enum kg_status kg_cli_bundle_find(const char *root, const char *run, char **dir, struct kg_error *err) {
    return kg_cli_bundle_find_by(root, run, KG_RUN_BY_ANY_NAME, dir, err);
}

int kg_cli_answer_exit_code(const char *verb, int code) {
    const char *why = reads_bundles ? kg_io_error_noted() : NULL;
    if (why && code != KG_EXIT_INCOMPLETE) {
        kg_say(stderr, "kigo %s: no answer holds after this error: %s\n", verb, why);
        const bool stays = code == KG_EXIT_INTEGRITY && kg_io_errors_of_memory() == 0;
        return stays ? code : KG_EXIT_INCOMPLETE;
    }
    return code == KG_EXIT_OK && answer_is_partial ? KG_EXIT_INTEGRITY : code;
}

enum kg_status kg_cli_history_open(const char *verb, const char *root, struct kg_history **history,
                                   struct kg_error *err) {
    struct kg_bundle_findings problems = { NULL, 0 };
    const enum kg_status status = kg_history_open(root, history, &problems, err);
    for (size_t i = 0; i < problems.n_items; i++)
        kg_say(stderr, "kigo %s: %s is not indexed: %s\n", verb, problems.items[i].path, problems.items[i].detail);
    answer_is_partial = answer_is_partial || problems.n_items > 0;
    kg_bundle_findings_free(&problems);
    const char *why = status == KG_OK ? kg_history_why_in_memory(*history) : NULL;
    if (why)
        kg_say(stderr, "kigo %s: answered from an index in memory, as its file cannot be written: %s\n", verb, why);
    const size_t n_dead = status == KG_OK ? kg_bundle_count_dead(root) : 0;
    if (n_dead > 0)
        kg_say(stderr, "kigo %s: %zu run%s died unfinished; 'kigo recover' publishes what they wrote\n", verb, n_dead,
               n_dead == 1 ? "" : "s");
    return status;
}

enum kg_status kg_cli_heads_check(const char *verb, struct kg_history *history, size_t *n_unsound,
                                  struct kg_error *err) {
    struct kg_bundle_findings unsound = { NULL, 0 };
    const enum kg_status status = kg_trust_heads(history, &unsound, err);
    for (size_t i = 0; i < unsound.n_items; i++) kg_say(stderr, "kigo %s: %s\n", verb, unsound.items[i].detail);
    *n_unsound = unsound.n_items;
    kg_bundle_findings_free(&unsound);
    return status;
}

enum kg_status kg_cli_heads_conclude(size_t n_unsound, struct kg_error *err) {
    return n_unsound == 0 ? KG_OK : kg_fail(err, KG_ERR_INTEGRITY, "%zu of the runs do not verify", n_unsound);
}

void kg_cli_history_close(const char *verb, struct kg_history *history) {
    const struct kg_bundle_findings *repaired = history ? kg_trust_repaired(history) : NULL;
    for (size_t i = 0; repaired && i < repaired->n_items; i++)
        kg_say(stderr, "kigo %s: %s: %s; they were made again from the bundle\n", verb, repaired->items[i].path,
               repaired->items[i].detail);
    kg_history_close(history);
}

enum kg_status kg_cli_print(struct kg_buffer *out, struct kg_error *err) {
    enum kg_status status = KG_OK;
    kg_coloured_put(stdout, kg_buffer_text(out), out->len);
    if (fflush(stdout) != 0 || ferror(stdout))
        status = kg_fail(err, KG_ERR_IO, "cannot write to standard output: %s", strerror(errno));
    kg_buffer_free(out);
    return status;
}

enum kg_status kg_cli_print_json(json_t *json, struct kg_error *err) {
    char *text = kg_json_dump(json, JSON_INDENT(2) | JSON_ENCODE_ANY);
    json_decref(json);
    if (!text) return kg_fail(err, KG_ERR_INTERNAL, "the answer cannot be written as JSON");
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_buffer_puts(&out, text);
    kg_buffer_puts(&out, "\n");
    free(text);
    return kg_cli_print(&out, err);
}

json_t *kg_cli_findings_json(const struct kg_bundle_findings *findings) {
    json_t *list = json_array();
    for (size_t i = 0; i < findings->n_items; i++)
        json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "what", kg_json_utf8(findings->items[i].what), "path",
                                              kg_json_utf8(findings->items[i].path), "detail",
                                              kg_json_utf8(findings->items[i].detail)));
    return list;
}
