#include "bundle/transfer.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "bundle/beside.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "bundle/verified.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IS_HERE "%s is here already; nothing was replaced"
static const char STAGING[] = ".import-", TAGS[] = "tagmanifest-sha256.txt";
enum { STAGING_ATTEMPTS = 100 };

enum kg_status kg_bundle_pack(const char *dir, const char *path, struct kg_error *err) {
    json_t *summary = NULL;
    if (kg_archive_missing()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_archive_missing());
    enum kg_status status = kg_bundle_read_json(dir, "data/summary.json", &summary, err);
    const char *id = kg_json_text(summary, "bundle_id");
    if (status == KG_OK && !id) status = kg_fail(err, KG_ERR_INTEGRITY, "%s: its summary names no bundle", dir);
    if (status == KG_OK) status = kg_archive_write(dir, id, kg_json_int(summary, "sealed_us", 0) / 1000000, path, err);
    json_decref(summary);
    return status;
}

enum kg_status kg_bundle_export(const char *dir, const char *path, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    if (kg_archive_missing()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_archive_missing());
    const enum kg_status status = kg_bundle_verify(dir, &findings, err);
    kg_bundle_findings_free(&findings);
    return status == KG_OK ? kg_bundle_pack(dir, path, err) : status;
}

/* Folders that an import which died left; one that is at work holds its lock. */
static void remove_dead_staging(const char *root) {
    struct kg_dir_list list = { 0 };
    if (kg_dir_list(root, &list, NULL) != KG_OK) return;
    for (size_t i = 0; i < list.n_names; i++) {
        if (strncmp(list.names[i], STAGING, strlen(STAGING)) != 0) continue;
        char *dir = kg_path_join(root, list.names[i]);
        int fd = -1;
        if (kg_bundle_lock(dir, &fd, NULL) == KG_OK && fd >= 0) {
            (void)!kg_path_remove(dir, NULL); /* what stays is tried again next time */
            close(fd);
        }
        free(dir);
    }
    kg_dir_list_free(&list);
}

/* malloc'ed folder, locked, for this import alone. Another import that came between making and locking takes the empty
 * folder for a dead one's; then the next is tried. */
static enum kg_status make_staging(const char *root, char **staging, int *lock_fd, struct kg_error *err) {
    *lock_fd = -1;
    for (int attempt = 0; attempt < STAGING_ATTEMPTS; attempt++) {
        char *dir = kg_xasprintf("%s/%sXXXXXX", root, STAGING);
        enum kg_status status = KG_OK;
        if (!mkdtemp(dir)) status = kg_fail(err, KG_ERR_IO, "cannot make %s: %s", dir, strerror(errno));
        if (status == KG_OK) status = kg_bundle_lock(dir, lock_fd, err);
        if (status == KG_OK && *lock_fd >= 0) {
            *staging = dir;
            return KG_OK;
        }
        free(dir);
        if (status != KG_OK) return status;
    }
    return kg_fail(err, KG_ERR_BUSY, "%s: %d folders to unpack in were taken away at once", root, STAGING_ATTEMPTS);
}

/* As the trust of the import asks. */
static enum kg_status check_signature(const struct kg_import *import, const char *dir, const char *where,
                                      struct kg_imported *imported, struct kg_error *err) {
    struct kg_signature *signature = &imported->signature;
    enum kg_status status = kg_signature_check(dir, import->trust, signature, err);
    if (status == KG_OK &&
        (kg_signature_is_wrong(signature) || (import->require_signature && signature->state != KG_SIGNATURE_GOOD)))
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s: the signature of %s is %s%s%s", where, imported->id,
                         signature->state == KG_SIGNATURE_NONE ? "missing" : kg_signature_state_name(signature->state),
                         signature->why[0] ? ": " : "", signature->why);
    return status;
}

/* Verifies the bundle in `dir`; `where` names it to people. Fills in tag manifest and signature. */
static enum kg_status check_bundle(const struct kg_import *import, const char *dir, const char *where,
                                   struct kg_imported *imported, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    enum kg_status status = kg_bundle_verify(dir, &findings, err);
    if (status == KG_ERR_INTEGRITY)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s: bundle %s does not verify, %zu findings, first: %s %s: %s", where,
                         imported->id, kg_bundle_findings_count(&findings), findings.items[0].what,
                         findings.items[0].path, findings.items[0].detail);
    else if (status != KG_OK) kg_error_prefix(err, "%s", where);
    kg_bundle_findings_free(&findings);
    if (status == KG_OK) status = kg_beneath_hash(dir, TAGS, imported->tagmanifest_sha256, err);
    return status == KG_OK ? check_signature(import, dir, where, imported, err) : status;
}

/* What is in the root under the id has to be this bundle. */
static enum kg_status compare_here(const char *here, const char *where, const char *tagmanifest_sha256,
                                   struct kg_imported *found, struct kg_error *err) {
    if (kg_beneath_hash(here, TAGS, found->tagmanifest_sha256, NULL) != KG_OK)
        return kg_fail(err, KG_ERR_INTEGRITY, "%s: it holds no sealed bundle", where);
    if (strcmp(found->tagmanifest_sha256, tagmanifest_sha256) != 0)
        return kg_fail(err, KG_ERR_INTEGRITY, "%s: it is another bundle of this id", where);
    return KG_OK;
}

static void note_signature(const char *here, bool other_is_signed, struct kg_imported *found) {
    if (found->signature.state == KG_SIGNATURE_NONE && other_is_signed)
        snprintf(found->note, sizeof found->note, "%s is not signed, the archive's copy is; nothing was written", here);
}

/* The bundle that came is in the root, and stands up to the same checks. */
static enum kg_status check_here(const struct kg_import *import, const char *here, struct kg_imported *imported,
                                 struct kg_error *err) {
    struct kg_imported found = { .was_here = true };
    char *where = kg_xasprintf(IS_HERE, here);
    snprintf(found.id, sizeof found.id, "%s", imported->id);
    enum kg_status status = compare_here(here, where, imported->tagmanifest_sha256, &found, err);
    if (status == KG_OK) status = check_bundle(import, here, where, &found, err);
    if (status == KG_OK) {
        note_signature(here, imported->signature.state != KG_SIGNATURE_NONE, &found);
        *imported = found;
    }
    free(where);
    return status;
}

enum kg_status kg_bundle_find_here(const struct kg_import *import, const char *id, const char *tagmanifest_sha256,
                                   bool is_signed, struct kg_imported *found, struct kg_error *err) {
    char *here = kg_path_join(import->root, id), *where = kg_xasprintf(IS_HERE, here);
    *found = (struct kg_imported){ .was_here = true };
    snprintf(found->id, sizeof found->id, "%s", id);
    enum kg_status status = KG_OK;
    if (!kg_path_exists(here)) status = kg_fail(err, KG_ERR_NOT_FOUND, "%s is not here", id);
    if (status == KG_OK) status = compare_here(here, where, tagmanifest_sha256, found, err);
    if (status == KG_OK) {
        status = kg_verified_check_folder(here, err);
        if (status != KG_OK) kg_error_prefix(err, "%s", where);
    }
    if (status == KG_OK) status = check_signature(import, here, where, found, err);
    if (status == KG_OK) note_signature(here, is_signed, found);
    free(where);
    free(here);
    return status;
}

static enum kg_status note_import(const struct kg_import *import, const struct kg_imported *imported,
                                  struct kg_error *err) {
    char utc[KG_UTC_TEXT_SIZE];
    kg_clock_utc_text(kg_clock_utc_us(), utc);
    const char *slash = strrchr(import->path, '/');
    json_t *file = json_string(slash ? slash + 1 : import->path);
    json_t *fact =
        json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "bundle_id", imported->id, "tagmanifest_sha256",
                  imported->tagmanifest_sha256, "imported_utc", utc, "file", file ? file : json_null(), "signature",
                  kg_signature_state_name(imported->signature.state), "signer", imported->signature.signer);
    char *name = kg_xasprintf(KG_IMPORT_UNDER_WAY "%s", imported->id);
    const enum kg_status status = kg_beside_write(import->root, KG_IMPORTS, name, fact, err);
    free(name);
    json_decref(fact);
    return status;
}

/* The note that was put under a name that says "under way" is one of a bundle that is here. */
static enum kg_status finish_note(const char *root, const char *id, struct kg_error *err) {
    char *notes = kg_path_join(root, KG_IMPORTS);
    char *from = kg_xasprintf("%s/" KG_IMPORT_UNDER_WAY "%s.json", notes, id),
         *to = kg_xasprintf("%s/%s.json", notes, id);
    enum kg_status status = KG_OK;
    if (rename(from, to) != 0 && errno != ENOENT) /* another import of it may have renamed it */
        status = kg_fail(err, KG_ERR_IO, "cannot rename to %s: %s", to, strerror(errno));
    if (status == KG_OK && kg_path_is_dir(notes)) status = kg_dir_sync(notes, err);
    free(to);
    free(from);
    free(notes);
    return status;
}

/* A note first: a bundle without one would pass for a link of this root's chain. It is under way until the bundle is
 * here: a note of a bundle that is not here says that one was removed. */
static enum kg_status publish(const struct kg_import *import, const char *dir, const char *to,
                              const struct kg_imported *imported, struct kg_error *err) {
    enum kg_status status = kg_bag_sync(dir, err);
    if (status == KG_OK) status = note_import(import, imported, err);
    if (status == KG_OK) status = kg_path_rename_new(dir, to, err);
    if (status == KG_OK) status = kg_dir_sync(import->root, err);
    return status == KG_OK ? finish_note(import->root, imported->id, err) : status;
}

/* Publishes what was checked, unless it is there: before, or since another import of it came first. */
static enum kg_status settle(const struct kg_import *import, const char *dir, struct kg_imported *imported,
                             struct kg_error *err) {
    char *to = kg_path_join(import->root, imported->id);
    enum kg_status status = KG_ERR_EXISTS;
    if (!kg_path_exists(to)) status = publish(import, dir, to, imported, err);
    if (status == KG_ERR_EXISTS && kg_path_exists(to)) status = check_here(import, to, imported, err);
    if (status == KG_OK && imported->was_here) status = finish_note(import->root, imported->id, err);
    free(to);
    return status;
}

enum kg_status kg_bundle_import(const struct kg_import *import, struct kg_imported *imported, struct kg_error *err) {
    char *staging = NULL, *dir = NULL;
    int lock_fd = -1;
    *imported = (struct kg_imported){ .id = "" };
    if (kg_archive_missing()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_archive_missing());
    enum kg_status status = kg_dir_make_synced(import->root, err);
    if (status == KG_OK) remove_dead_staging(import->root);
    if (status == KG_OK) status = make_staging(import->root, &staging, &lock_fd, err);
    if (status == KG_OK) status = kg_archive_unpack(import->path, staging, &import->limits, imported->id, err);
    if (status == KG_OK) {
        dir = kg_path_join(staging, imported->id);
        status = check_bundle(import, dir, import->path, imported, err);
    }
    if (status == KG_OK) status = settle(import, dir, imported, err);
    if (staging) (void)!kg_path_remove(staging, NULL); /* the next import tries again */
    if (lock_fd >= 0) close(lock_fd);
    free(dir);
    free(staging);
    return status;
}
