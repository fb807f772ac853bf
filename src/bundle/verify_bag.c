/* The bytes of a bag: every file against the manifests, and nothing else in the folder. */
#include "bundle/verify.h"
#include "base/beneath.h"
#include "bundle/chain.h"
#include "bundle/internal.h"
#include "bundle/limits.h"
#include "bundle/manifest.h"
#include "bundle/records.h"
#include "bundle/timestamp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text of a top-level file; "" and a finding where it is missing or no plain file. */
static enum kg_status read_tag(const char *dir, const struct kg_tree *tree, const char *name, char **text,
                               size_t *size_bytes, struct kg_bundle_findings *findings, struct kg_error *err) {
    const struct kg_tree_entry *entry = kg_tree_find(tree, name);
    *text = NULL;
    *size_bytes = 0;
    if (!entry) {
        kg_finding_add(findings, "missing", name, "no such file");
        return KG_OK;
    }
    const uint64_t limit = strcmp(name, "bag-info.txt") == 0 ? KG_MAX_INFO_BYTES : KG_MAX_TAG_BYTES;
    if (entry->kind != KG_TREE_FILE || entry->size_bytes > limit) {
        kg_finding_add(findings, entry->kind == KG_TREE_FILE ? "limit" : "format", name,
                       "is not a regular file of at most %llu KiB", (unsigned long long)limit >> 10);
        return KG_OK;
    }
    return kg_beneath_read(dir, name, limit, text, size_bytes, err);
}

/* Each line's file there and unchanged; each file that wanted names listed. */
static enum kg_status check_manifest(const char *dir, const struct kg_tree *tree, const char *file,
                                     bool (*wanted)(const char *path), struct kg_bundle_findings *findings,
                                     struct kg_error *err) {
    struct kg_manifest manifest = { NULL, 0 };
    char *text;
    size_t size_bytes;
    enum kg_status status = read_tag(dir, tree, file, &text, &size_bytes, findings, err);
    if (status != KG_OK || !text) return status;
    kg_manifest_parse(file, text, size_bytes, &manifest, findings);
    for (size_t i = 0; i < manifest.n_lines && status == KG_OK; i++) {
        const struct kg_manifest_line *line = &manifest.lines[i];
        const struct kg_tree_entry *entry = kg_tree_find(tree, line->path);
        if (!wanted(line->path)) {
            kg_finding_add(findings, "format", file, "lists '%s', which belongs in another manifest", line->path);
        } else if (!entry) {
            kg_finding_add(findings, "missing", line->path, "listed in %s", file);
        } else if (entry->kind == KG_TREE_FILE) { /* other kinds are findings of check_kinds */
            char hex[KG_SHA256_HEX_SIZE];
            struct kg_error why;
            if (kg_beneath_hash(dir, line->path, hex, &why) != KG_OK)
                kg_finding_add(findings, "unreadable", line->path, "%s", why.message);
            else if (strcmp(hex, line->sha256) != 0)
                kg_finding_add(findings, "changed", line->path, "SHA-256 is %s, %s says %s", hex, file, line->sha256);
        }
    }
    for (size_t i = 0; i < tree->n_entries && status == KG_OK; i++) {
        const struct kg_tree_entry *entry = &tree->entries[i];
        if (entry->kind != KG_TREE_DIR && wanted(entry->path) && !kg_manifest_find(&manifest, entry->path))
            kg_finding_add(findings, "added", entry->path, "not listed in %s", file);
    }
    kg_manifest_free(&manifest);
    free(text);
    return status;
}

/* Regular files in folders, and at the top only what a bag of ours has. */
static void check_kinds(const struct kg_tree *tree, struct kg_bundle_findings *findings) {
    static const char *const TOP[] = { "bag-info.txt",           "bagit.txt",
                                       "manifest-sha256.txt",    "statement.intoto.json",
                                       "tagmanifest-sha256.txt", "tagmanifest-sha256.txt.sig",
                                       KG_TIMESTAMP_FILE };
    for (size_t i = 0; i < tree->n_entries; i++) {
        const struct kg_tree_entry *entry = &tree->entries[i];
        if (entry->kind == KG_TREE_LINK) kg_finding_add(findings, "link", entry->path, "a link is no evidence");
        if (entry->kind == KG_TREE_OTHER) kg_finding_add(findings, "format", entry->path, "is not a regular file");
        if (!kg_bundle_path_ok(entry->path))
            kg_finding_add(findings, "format", entry->path, "a name that a manifest cannot hold");
        const bool payload = strcmp(entry->path, "data") == 0 || kg_manifest_is_payload(entry->path);
        bool known = payload;
        for (size_t k = 0; k < sizeof TOP / sizeof *TOP && !known; k++)
            known = entry->kind != KG_TREE_DIR && strcmp(entry->path, TOP[k]) == 0;
        /* a plain file below the top is listed by the tag manifest or a finding there */
        if (!known && (entry->kind == KG_TREE_DIR || strncmp(entry->path, "tagmanifest-", 12) == 0))
            kg_finding_add(findings, "added", entry->path, "not part of a bundle");
    }
}

/* A folder without a file is in no manifest: nobody would see it go, or come. */
static void check_folders(const struct kg_tree *tree, struct kg_bundle_findings *findings) {
    for (size_t i = 0; i < tree->n_entries; i++) {
        const struct kg_tree_entry *entry = &tree->entries[i];
        if (entry->kind == KG_TREE_DIR && kg_manifest_is_payload(entry->path) && kg_tree_is_empty(tree, entry))
            kg_finding_add(findings, "added", entry->path, "a folder without a file, which no manifest lists");
    }
}

static void check_oxum(const struct kg_tree *tree, const json_t *info, struct kg_bundle_findings *findings) {
    unsigned long long n_bytes = 0;
    size_t n_files = 0;
    for (size_t i = 0; i < tree->n_entries; i++) {
        if (tree->entries[i].kind != KG_TREE_FILE || !kg_manifest_is_payload(tree->entries[i].path)) continue;
        n_bytes += tree->entries[i].size_bytes;
        n_files++;
    }
    char oxum[64];
    snprintf(oxum, sizeof oxum, "%llu.%zu", n_bytes, n_files);
    const char *said = kg_json_text(info, "Payload-Oxum");
    if (!said || strcmp(said, oxum) != 0)
        kg_finding_add(findings, "oxum", "bag-info.txt", "Payload-Oxum is %s, the payload's is %s",
                       said ? said : "missing", oxum);
}

/* Whether what it names is there is the root's matter (kg_chain_verify): a bundle stands for itself anywhere. */
static void check_chain_label(const json_t *info, struct kg_bundle_findings *findings) {
    const char *text = kg_json_text(info, KG_CHAIN_LABEL);
    struct kg_chain_link link;
    if (text && !kg_chain_parse(text, &link))
        kg_finding_add(findings, "format", "bag-info.txt", KG_CHAIN_LABEL " is '%.120s'", text);
}

/* The one file no manifest lists, because it comes after them: nothing but a signature may stand there. */
static enum kg_status check_signature(const char *dir, const struct kg_tree *tree, struct kg_bundle_findings *findings,
                                      struct kg_error *err) {
    static const char FILE_NAME[] = "tagmanifest-sha256.txt.sig", BEGIN[] = "-----BEGIN SSH SIGNATURE-----\n",
                      END[] = "\n-----END SSH SIGNATURE-----\n";
    char *text;
    size_t size_bytes;
    if (!kg_tree_find(tree, FILE_NAME)) return KG_OK;
    const enum kg_status status = read_tag(dir, tree, FILE_NAME, &text, &size_bytes, findings, err);
    if (status != KG_OK || !text) return status;
    const size_t n_begin = strlen(BEGIN), n_end = strlen(END);
    if (size_bytes < n_begin + n_end || memcmp(text, BEGIN, n_begin) != 0 ||
        memcmp(text + size_bytes - n_end, END, n_end) != 0)
        kg_finding_add(findings, "signature", FILE_NAME, "is no signature of ssh-keygen");
    free(text);
    return KG_OK;
}

/* The statement speaks of this manifest. */
static enum kg_status check_statement(const char *dir, const struct kg_tree *tree, struct kg_bundle_findings *findings,
                                      struct kg_error *err) {
    static const char FILE_NAME[] = "statement.intoto.json";
    const struct kg_tree_entry *manifest = kg_tree_find(tree, "manifest-sha256.txt");
    json_t *statement = NULL;
    struct kg_error why;
    char hex[KG_SHA256_HEX_SIZE];
    if (!manifest || manifest->kind != KG_TREE_FILE) return KG_OK; /* a finding already */
    if (kg_bundle_read_json(dir, FILE_NAME, &statement, &why) != KG_OK) {
        kg_finding_add(findings, why.status == KG_ERR_NOT_FOUND ? "missing" : "format", FILE_NAME, "%s", why.message);
        return KG_OK;
    }
    const enum kg_status status = kg_beneath_hash(dir, "manifest-sha256.txt", hex, err);
    const json_t *subject = json_array_get(json_object_get(statement, "subject"), 0);
    const char *digest = kg_json_text(json_object_get(subject, "digest"), "sha256");
    if (status == KG_OK && (!digest || strcmp(digest, hex) != 0))
        kg_finding_add(findings, "statement", FILE_NAME, "its subject is not this manifest");
    json_decref(statement);
    return status;
}

enum kg_status kg_verify_bag(const char *dir, const struct kg_tree *tree, json_t **info,
                             struct kg_bundle_findings *findings, struct kg_error *err) {
    char *bagit = NULL, *bag_info = NULL;
    size_t bagit_bytes = 0, info_bytes = 0;
    check_kinds(tree, findings);
    check_folders(tree, findings);
    enum kg_status status = read_tag(dir, tree, "bagit.txt", &bagit, &bagit_bytes, findings, err);
    if (status == KG_OK && bagit &&
        (bagit_bytes != strlen(KG_BAGIT_TXT) || memcmp(bagit, KG_BAGIT_TXT, bagit_bytes) != 0))
        kg_finding_add(findings, "format", "bagit.txt", "is not the declaration of BagIt 1.0 in UTF-8");
    if (status == KG_OK) status = read_tag(dir, tree, "bag-info.txt", &bag_info, &info_bytes, findings, err);
    *info = kg_bag_info_parse(bag_info ? bag_info : "", info_bytes, findings);
    if (status == KG_OK && bag_info) check_oxum(tree, *info, findings);
    check_chain_label(*info, findings);
    if (status == KG_OK)
        status = check_manifest(dir, tree, "manifest-sha256.txt", kg_manifest_is_payload, findings, err);
    if (status == KG_OK)
        status = check_manifest(dir, tree, "tagmanifest-sha256.txt", kg_manifest_is_tag, findings, err);
    if (status == KG_OK) status = check_signature(dir, tree, findings, err);
    if (status == KG_OK) status = check_statement(dir, tree, findings, err);
    free(bag_info);
    free(bagit);
    return status;
}
