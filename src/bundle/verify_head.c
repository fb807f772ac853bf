/* The files that say what a run is, against the manifests: milliseconds, where all of a bundle may take a second. */
#include "bundle/verify.h"
#include "base/beneath.h"
#include "bundle/limits.h"
#include "bundle/manifest.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>

const char *const KG_HEAD_FILES[] = { "bag-info.txt",        "manifest-sha256.txt",    "data/build.json",
                                      "data/build.json.zst", "data/env.json",          "data/source.json",
                                      "data/summary.json",   "tagmanifest-sha256.txt", NULL };

static enum kg_status read_manifest(const char *dir, const char *name, struct kg_manifest *manifest,
                                    struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    char *text = NULL;
    size_t size_bytes = 0;
    enum kg_status status = kg_beneath_read(dir, name, KG_MAX_TAG_BYTES, &text, &size_bytes, err);
    if (status == KG_OK) kg_manifest_parse(name, text, size_bytes, manifest, &findings);
    if (findings.n_items > 0) status = kg_fail(err, KG_ERR_INTEGRITY, "%s/%s: %s", dir, name, findings.items[0].detail);
    kg_bundle_findings_free(&findings);
    free(text);
    return status;
}

static enum kg_status check_file(const char *dir, const char *name, const struct kg_manifest *manifest,
                                 struct kg_error *err) {
    const struct kg_manifest_line *line = kg_manifest_find(manifest, name);
    char sha256[KG_SHA256_HEX_SIZE] = "";
    enum kg_status status = kg_beneath_hash(dir, name, sha256, err);
    const bool missing = status == KG_ERR_NOT_FOUND;
    if (missing && !line) return KG_OK;
    if (missing || (status == KG_OK && !line))
        return kg_fail(err, KG_ERR_INTEGRITY, "%s/%s is %s", dir, name, missing ? "missing" : "in no manifest");
    if (status == KG_OK && strcmp(line->sha256, sha256) != 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s/%s: changed: its SHA-256 is %s, the manifest says %s", dir, name,
                         sha256, line->sha256);
    return status;
}

static enum kg_status check_id(const char *dir, struct kg_error *err) {
    json_t *summary = NULL;
    enum kg_status status = kg_bundle_read_json(dir, "data/summary.json", &summary, err);
    const char *id = kg_json_text(summary, "bundle_id"), *slash = strrchr(dir, '/'), *name = slash ? slash + 1 : dir;
    if (status == KG_OK && (!id || strcmp(id, name) != 0))
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s holds the bundle %s", dir, id ? id : "of no name");
    json_decref(summary);
    return status;
}

enum kg_status kg_bundle_verify_head(const char *dir, struct kg_error *err) {
    struct kg_manifest tags = { NULL, 0 }, payload = { NULL, 0 };
    enum kg_status status = read_manifest(dir, "tagmanifest-sha256.txt", &tags, err);
    if (status == KG_OK) status = read_manifest(dir, "manifest-sha256.txt", &payload, err);
    for (size_t i = 0; KG_HEAD_FILES[i] && status == KG_OK; i++)
        if (strcmp(KG_HEAD_FILES[i], "tagmanifest-sha256.txt") != 0)
            status =
                check_file(dir, KG_HEAD_FILES[i], kg_manifest_is_payload(KG_HEAD_FILES[i]) ? &payload : &tags, err);
    if (status == KG_OK) status = check_id(dir, err);
    if (status != KG_OK && status != KG_ERR_NO_MEMORY) status = KG_ERR_INTEGRITY;
    if (status != KG_OK && err) err->status = status;
    kg_manifest_free(&tags);
    kg_manifest_free(&payload);
    return status;
}
