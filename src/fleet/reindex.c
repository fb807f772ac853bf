/* The rows made again from the archives. */
#include "fleet/internal.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/records.h"
#include "bundle/transfer.h"
#include <kigo/history.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run of the fleet, and a folder that it is unpacked in. */
struct archived {
    const char *id, *tagmanifest_sha256;
    struct kg_fleet_place place;
    char *scratch;
};

/* Unpacks and verifies; anything but a sound bundle of this name and manifest is an error. */
static enum kg_status unpack(struct kg_fleet *fleet, const struct archived *run, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    char *dir = NULL;
    enum kg_status status = kg_fleet_unpack(fleet, run->id, run->tagmanifest_sha256, run->scratch, &dir, err);
    if (status == KG_OK) status = kg_bundle_verify(dir, &findings, err);
    kg_bundle_findings_free(&findings);
    free(dir);
    return status;
}

static enum kg_status put_again(struct kg_fleet *fleet, const struct archived *run, struct kg_error *err) {
    char *root = kg_path_join(run->scratch, "bundles");
    struct kg_history *index = NULL;
    enum kg_status status = unpack(fleet, run, err);
    if (status == KG_OK) status = kg_fleet_read_rows(root, run->id, &index, err);
    if (status == KG_OK) status = kg_fleet_put_rows(fleet, index, &run->place, err);
    kg_history_close(index);
    free(root);
    return status;
}

/* What of it was put before an error is taken back, and the error is a finding; one of the server ends all. */
static enum kg_status put_whole(struct kg_fleet *fleet, struct archived *run, size_t *n_indexed,
                                struct kg_bundle_findings *problems, struct kg_error *err) {
    struct kg_error why;
    enum kg_status status = kg_fleet_scratch(&run->scratch, err);
    if (status == KG_OK) status = kg_fleet_exec(fleet, "marking", "SAVEPOINT one", err);
    if (status != KG_OK) return status;
    status = put_again(fleet, run, &why);
    (void)!kg_path_remove(run->scratch, NULL);
    if (status == KG_OK) {
        ++*n_indexed;
        return kg_fleet_exec(fleet, "releasing", "RELEASE one", err);
    }
    if (kg_fleet_is_lost(fleet) || (status != KG_ERR_INTEGRITY && status != KG_ERR_FORMAT))
        return kg_fail(err, status, "%s", why.message);
    kg_finding_add(problems, "unreadable", run->id, "%s", why.message);
    return kg_fleet_exec(fleet, "taking back", "ROLLBACK TO one; RELEASE one", err);
}

static enum kg_status put_all(struct kg_fleet *fleet, const struct kg_fleet_watch *watch, size_t *n_indexed,
                              struct kg_bundle_findings *problems, struct kg_error *err) {
    static const char SQL[] = "SELECT bundle_id, tagmanifest_sha256, runner_no, month FROM archive"
                              " ORDER BY bundle_id COLLATE \"C\"";
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_ask(fleet, "listing the archives", SQL, NULL, 0, &rows, err);
    for (int i = 0; i < rows.n && status == KG_OK; i++) {
        struct archived run = { .id = kg_fleet_cell(&rows, i, 0), .tagmanifest_sha256 = kg_fleet_cell(&rows, i, 1) };
        snprintf(run.place.runner_no, sizeof run.place.runner_no, "%s", kg_fleet_cell(&rows, i, 2));
        snprintf(run.place.month, sizeof run.place.month, "%s", kg_fleet_cell(&rows, i, 3));
        if (watch && watch->progress) watch->progress(watch->user, (uint64_t)i, (uint64_t)rows.n);
        status = put_whole(fleet, &run, n_indexed, problems, err);
        free(run.scratch);
    }
    kg_fleet_rows_free(&rows);
    return status;
}

enum kg_status kg_fleet_reindex(struct kg_fleet *fleet, const struct kg_fleet_watch *watch, size_t *n_indexed,
                                struct kg_bundle_findings *problems, struct kg_error *err) {
    if (kg_archive_missing()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_archive_missing());
    *n_indexed = 0;
    enum kg_status status =
        kg_fleet_exec(fleet, "waiting for pushes", "BEGIN; SELECT pg_advisory_xact_lock(" KG_FLEET_LOCK ")", err);
    if (status == KG_OK) status = kg_fleet_delete_rows(fleet, err);
    if (status == KG_OK) status = put_all(fleet, watch, n_indexed, problems, err);
    if (status == KG_OK) status = kg_fleet_exec(fleet, "committing", "COMMIT", err);
    if (status != KG_OK) kg_fleet_roll_back(fleet);
    return status;
}
