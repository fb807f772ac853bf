#include "cli/bundles.h"
#include "base/beneath.h"
#include "base/clock.h"
#include "base/io_errors.h"
#include "base/json_put.h"
#include "base/say.h"
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

static int64_t started_us(const char *root, const char *id) {
    json_t *summary = NULL;
    int64_t started = 0;
    if (kg_root_read_json(root, id, "data/summary.json", &summary, NULL) == KG_OK)
        started = kg_json_int(summary, "started_us", 0);
    json_decref(summary);
    return started;
}

/* The last by name that counts as latest; among those of its second, the one that started last. */
static const char *latest_of(const char *root, const struct kg_dir_list *ids, struct kg_standing *standing,
                             char why[256]) {
    enum { UTC_CHARS = 16 };
    const char *latest = NULL;
    int64_t latest_us = -1;
    for (size_t i = ids->n_names; i-- > 0;) {
        if (latest && strncmp(ids->names[i], latest, UTC_CHARS) != 0) break;
        if (!kg_standing_counts(standing, KG_ROLE_LATEST, ids->names[i], why)) continue;
        if (!latest) latest = ids->names[i];
        const int64_t us = started_us(root, ids->names[i]);
        if (us <= latest_us) continue;
        latest = ids->names[i];
        latest_us = us;
    }
    return latest;
}

static enum kg_status choose(const char *root, const char *run, const struct kg_dir_list *ids, const char **id,
                             struct kg_error *err) {
    if (strcmp(run, "latest") == 0) {
        struct kg_standing *standing = NULL;
        char why[256] = "";
        const enum kg_status status = kg_standing_open(root, kg_clock_utc_us(), &standing, err);
        if (status != KG_OK) return status;
        *id = latest_of(root, ids, standing, why);
        kg_standing_close(standing);
        if (*id) return KG_OK;
        if (ids->n_names == 0) return kg_fail(err, KG_ERR_NOT_FOUND, "%s holds no bundle yet", root);
        return kg_fail(err, KG_ERR_NOT_FOUND, "no run of %s counts as the latest: of %s, %s; name the run", root,
                       ids->names[0], why);
    }
    size_t n_matches = 0;
    for (size_t i = 0; i < ids->n_names; i++) {
        if (strncmp(ids->names[i], run, strlen(run)) != 0) continue;
        n_matches++;
        if (n_matches > 1)
            return kg_fail(err, KG_ERR_USAGE, "'%s' is the beginning of several runs, %s and %s among them", run, *id,
                           ids->names[i]);
        *id = ids->names[i];
    }
    return n_matches == 1 ? KG_OK : kg_fail(err, KG_ERR_NOT_FOUND, "no run '%s' in %s", run, root);
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

enum kg_status kg_cli_bundle_find(const char *root, const char *run, char **dir, struct kg_error *err) {
    const bool is_path = strchr(run, '/') || strcmp(run, ".") == 0 || strcmp(run, "..") == 0;
    struct kg_dir_list ids = { 0 };
    const char *id = NULL;
    if (!*run) return kg_fail(err, KG_ERR_USAGE, "the name of the run is empty");
    enum kg_status status = KG_ERR_NOT_FOUND;
    if (!is_path) status = kg_dir_list(root, &ids, err);
    if (status == KG_OK) {
        keep_ids(&ids);
        status = choose(root, run, &ids, &id, err);
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

int kg_cli_answer_exit_code(const char *verb, int code) {
    const char *why = reads_bundles ? kg_io_error_noted() : NULL;
    if (why && code != KG_EXIT_INCOMPLETE) {
        kg_say(stderr, "kigo %s: no answer holds after this error: %s\n", verb, why);
        return code == KG_EXIT_INTEGRITY ? code : KG_EXIT_INCOMPLETE;
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
    const size_t n_dead = status == KG_OK ? kg_bundle_count_dead(root) : 0;
    if (n_dead > 0)
        kg_say(stderr, "kigo %s: %zu run%s died unfinished; 'kigo recover' publishes what they wrote\n", verb, n_dead,
               n_dead == 1 ? "" : "s");
    return status;
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
    kg_out_put(stdout, kg_buffer_text(out), out->len);
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
