#include "history/folder.h"
#include "base/beneath.h"
#include "base/size.h"
#include "bundle/limits.h"
#include "bundle/manifest.h"
#include <stdlib.h>
#include <string.h>

static enum kg_status read_info(const char *dir, json_t **info, struct kg_bundle_findings *findings,
                                struct kg_error *err) {
    char *text = NULL;
    size_t size_bytes = 0;
    const enum kg_status status = kg_beneath_read(dir, "bag-info.txt", KG_MAX_INFO_BYTES, &text, &size_bytes, err);
    *info = kg_bag_info_parse(text ? text : "", size_bytes, findings);
    free(text);
    return status;
}

/* A run that died may have no description of itself, or half of one. Otherwise an existing one that cannot be read is
 * an error, or the run would be indexed as one of no machine. */
static enum kg_status read_description(const char *dir, const char *relative, bool died, json_t **json,
                                       struct kg_error *err) {
    struct kg_error why;
    const enum kg_status status = kg_bundle_read_json(dir, relative, json, &why);
    if (status == KG_OK) return KG_OK;
    *json = NULL;
    if (status == KG_ERR_NOT_FOUND || (died && status == KG_ERR_FORMAT)) return KG_OK;
    return kg_fail(err, status, "%s", why.message);
}

static enum kg_status read_folder(const char *dir, struct kg_history_folder *folder, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    char *signature = kg_path_join(dir, "tagmanifest-sha256.txt.sig");
    enum kg_status status = kg_bundle_read_json(dir, "data/summary.json", &folder->summary, err);
    if (status == KG_OK) status = kg_beneath_hash(dir, "manifest-sha256.txt", folder->manifest_sha256, err);
    if (status == KG_OK) status = read_info(dir, &folder->info, &findings, err);
    if (status == KG_OK && !folder->head_only) status = kg_history_folder_records(dir, folder, err);
    if (status == KG_OK && findings.n_items > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s/%s: %s", dir, findings.items[0].path, findings.items[0].detail);
    const char *state = kg_json_text(folder->summary, "state");
    const bool died = state && strcmp(state, "partial") == 0;
    if (status == KG_OK) status = read_description(dir, "data/env.json", died, &folder->env, err);
    if (status == KG_OK) status = read_description(dir, "data/build.json", died, &folder->build, err);
    if (status == KG_OK) status = read_description(dir, "data/source.json", died, &folder->source, err);
    folder->is_signed = kg_path_exists(signature);
    kg_bundle_findings_free(&findings);
    free(signature);
    return status;
}

void kg_history_folder_free(struct kg_history_folder *folder) {
    free(folder->cases);
    kg_tape_free(&folder->tape);
    for (size_t i = 0; i < KG_COUNT_OF(folder->texts); i++) free(folder->texts[i]);
    json_decref(folder->summary);
    json_decref(folder->env);
    json_decref(folder->build);
    json_decref(folder->source);
    json_decref(folder->info);
    *folder = (struct kg_history_folder){ 0 };
}

static enum kg_status read_part(const char *root, const char *bundle_id, bool head_only,
                                struct kg_history_folder *folder, struct kg_error *err) {
    *folder = (struct kg_history_folder){ .head_only = head_only };
    char *dir = kg_path_join(root, bundle_id);
    enum kg_status status = KG_OK;
    if (kg_beneath_is_folder(root, bundle_id)) status = read_folder(dir, folder, err);
    else status = kg_fail(err, KG_ERR_FORMAT, "%s is no folder: a bundle is one, and no link to one", dir);
    if (status == KG_OK && !kg_json_text(folder->summary, "state"))
        status = kg_fail(err, KG_ERR_FORMAT, "%s/data/summary.json has no state", dir);
    if (status == KG_ERR_NOT_FOUND || status == KG_ERR_IO) {
        /* Whatever keeps a folder from being read is said of the folder; it is no error of the index. */
        if (err) err->status = KG_ERR_INTEGRITY;
        status = KG_ERR_INTEGRITY;
    }
    if (status != KG_OK) kg_history_folder_free(folder);
    free(dir);
    return status;
}

enum kg_status kg_history_folder_read(const char *root, const char *bundle_id, struct kg_history_folder *folder,
                                      struct kg_error *err) {
    return read_part(root, bundle_id, false, folder, err);
}

enum kg_status kg_history_folder_read_head(const char *root, const char *bundle_id, struct kg_history_folder *folder,
                                           struct kg_error *err) {
    return read_part(root, bundle_id, true, folder, err);
}
