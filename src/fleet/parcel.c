#include "fleet/parcel.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "bundle/records.h"
#include "bundle/verified.h"
#include "bundle/verify.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char TAGS[] = "tagmanifest-sha256.txt", SIGNATURE[] = "tagmanifest-sha256.txt.sig";

enum kg_status kg_parcel_open(const char *dir, struct kg_parcel *parcel, struct kg_pushed *pushed,
                              struct kg_error *err) {
    parcel->dir = realpath(dir, NULL);
    char *slash = parcel->dir ? strrchr(parcel->dir, '/') : NULL;
    if (!slash) return kg_fail(err, KG_ERR_NOT_FOUND, "%s: no such folder", dir);
    parcel->root = kg_xstrndup(parcel->dir, (size_t)(slash - parcel->dir));
    parcel->id = kg_xstrdup(slash + 1);
    snprintf(pushed->id, sizeof pushed->id, "%s", parcel->id);
    json_t *summary = NULL;
    enum kg_status status = kg_stamps_of_tree(parcel->dir, &parcel->before, err);
    if (status == KG_OK) status = kg_bundle_read_json(parcel->dir, "data/summary.json", &summary, err);
    const char *id = kg_json_text(summary, "bundle_id");
    if (status == KG_OK && (!id || strcmp(id, parcel->id) != 0))
        status =
            kg_fail(err, KG_ERR_INTEGRITY, "the folder is named otherwise than its bundle, %s", id ? id : "of no id");
    json_decref(summary);
    if (status != KG_OK) return status;
    parcel->is_signed = kg_beneath_check(parcel->dir, SIGNATURE, NULL) == KG_OK;
    return kg_beneath_hash(parcel->dir, TAGS, pushed->tagmanifest_sha256, err);
}

static void wait_for(struct kg_parcel_work *work) {
    if (work->begun) pthread_join(work->thread, NULL);
    work->begun = false;
}

void kg_parcel_close(struct kg_parcel *parcel) {
    wait_for(&parcel->verifying);
    wait_for(&parcel->packing);
    kg_history_close(parcel->index);
    kg_file_map_close(&parcel->archive);
    if (parcel->scratch)
        (void)!kg_path_remove(parcel->scratch, NULL); /* below $TMPDIR: what stays is in nobody's way */
    free(parcel->path);
    free(parcel->scratch);
    free(parcel->dir);
    free(parcel->id);
    free(parcel->root);
}

enum kg_status kg_parcel_check_signature(const struct kg_parcel *parcel, const struct kg_policy *policy,
                                         struct kg_error *err) {
    struct kg_signature signature;
    enum kg_status status = kg_signature_check(parcel->dir, &policy->trust, &signature, err);
    if (status != KG_OK) return status;
    if (kg_signature_is_wrong(&signature))
        return kg_fail(err, KG_ERR_INTEGRITY, "the signature is %s: %s", kg_signature_state_name(signature.state),
                       signature.why);
    if (signature.state == KG_SIGNATURE_NONE && kg_signature_was_required(parcel->dir))
        return kg_fail(err, KG_ERR_INTEGRITY, "the run was to be signed, and is not");
    if (kg_policy_takes(policy, KG_ROLE_BUNDLES, false, &signature)) return KG_OK;
    char *wanted = kg_policy_text(policy, KG_ROLE_BUNDLES);
    status = kg_fail(err, KG_ERR_INTEGRITY, "it is %s; the policy (%s) takes %s",
                     kg_signature_state_name(signature.state), policy->path, wanted);
    free(wanted);
    return status;
}

/* Every byte against the manifests. */
static enum kg_status check_bytes(const char *dir, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_tree tree;
    json_t *info = NULL;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    if (status == KG_OK) status = kg_verify_bag(dir, &tree, &info, &findings, err);
    if (status == KG_OK && findings.n_items > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s: %zu findings, first: %s %s: %s", dir,
                         kg_bundle_findings_count(&findings), findings.items[0].what, findings.items[0].path,
                         findings.items[0].detail);
    json_decref(info);
    kg_tree_free(&tree);
    kg_bundle_findings_free(&findings);
    return status;
}

/* What this user's kigo found out about it before holds for what its records say. Its bytes are read anew: nobody may
 * look at the folder again once a fleet has the run. */
static void *verify(void *arg) {
    struct kg_parcel *const parcel = arg;
    struct kg_parcel_work *const work = &parcel->verifying;
    work->status = check_bytes(parcel->dir, &work->err);
    if (work->status == KG_OK) work->status = kg_verified_check_folder(parcel->dir, &work->err);
    return NULL;
}

static void *pack(void *arg) {
    struct kg_parcel *const parcel = arg;
    struct kg_parcel_work *const work = &parcel->packing;
    work->status = kg_bundle_pack(parcel->dir, parcel->path, &work->err);
    return NULL;
}

/* Where the system has no room for a thread, it is done at once. */
static void begin(struct kg_parcel *parcel, struct kg_parcel_work *work, void *(*run)(void *)) {
    work->begun = pthread_create(&work->thread, NULL, run, parcel) == 0;
    if (!work->begun) run(parcel);
}

static enum kg_status end(struct kg_parcel_work *work, struct kg_error *err) {
    wait_for(work);
    if (work->status != KG_OK && err) *err = work->err;
    return work->status;
}

/* The month in which it started; a time that no calendar has lies in the last. */
static void put_month(int64_t started_us, char month[16]) {
    const time_t seconds = (time_t)(started_us / 1000000);
    struct tm utc;
    if (started_us < 0 || !gmtime_r(&seconds, &utc) || utc.tm_year + 1900 > 9999) snprintf(month, 16, "9999-12-01");
    else strftime(month, 16, "%Y-%m-01", &utc);
}

/* Where it belongs: its month, and the run that it follows. */
static enum kg_status read_place(struct kg_parcel *parcel, struct kg_error *err) {
    json_t *summary = NULL;
    const enum kg_status status = kg_bundle_read_json(parcel->dir, "data/summary.json", &summary, err);
    if (status == KG_OK) put_month(kg_json_int(summary, "started_us", 0), parcel->place.month);
    if (!kg_chain_read_link(parcel->root, parcel->id, &parcel->previous)) parcel->previous.id[0] = '\0';
    json_decref(summary);
    return status;
}

enum kg_status kg_parcel_pack(struct kg_parcel *parcel, struct kg_pushed *pushed, struct kg_error *err) {
    enum kg_status status = kg_fleet_scratch(&parcel->scratch, err);
    if (status != KG_OK) return status;
    parcel->path = kg_xasprintf("%s/%s.tar.zst", parcel->scratch, parcel->id);
    begin(parcel, &parcel->verifying, verify);
    begin(parcel, &parcel->packing, pack);
    status = read_place(parcel, err);
    if (status == KG_OK) status = kg_fleet_read_rows(parcel->root, parcel->id, &parcel->index, err);
    if (status == KG_OK) status = end(&parcel->packing, err);
    if (status == KG_OK) status = kg_file_map_open(parcel->path, &parcel->archive, err);
    if (status != KG_OK) return status;
    kg_sha256_hex(parcel->archive.data, parcel->archive.size_bytes, pushed->archive_sha256);
    pushed->archive_bytes = parcel->archive.size_bytes;
    return KG_OK;
}

enum kg_status kg_parcel_wait(struct kg_parcel *parcel, struct kg_error *err) {
    struct kg_stamps after;
    enum kg_status status = end(&parcel->verifying, err);
    if (status != KG_OK || parcel->is_verified) return status;
    status = kg_stamps_of_tree(parcel->dir, &after, err);
    if (status == KG_OK && !kg_stamps_equal(&parcel->before, &after))
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s was changed while it was pushed", parcel->dir);
    parcel->is_verified = status == KG_OK;
    return status;
}
