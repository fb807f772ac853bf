/* Archives of a fleet, unpacked into a folder. */
#include "fleet/internal.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/internal.h"
#include "bundle/transfer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char TAGS[] = "tagmanifest-sha256.txt";

enum kg_status kg_fleet_unpack(struct kg_fleet *fleet, const char *id, const char *tagmanifest_sha256,
                               const char *scratch, char **dir, struct kg_error *err) {
    const struct kg_archive_limits limits = KG_IMPORT_LIMITS;
    char found[KG_ARCHIVE_ID_SIZE], tags[KG_SHA256_HEX_SIZE];
    char *path = kg_path_join(scratch, "run.tar.zst"), *to = kg_path_join(scratch, "bundles");
    *dir = kg_path_join(to, id);
    enum kg_status status = kg_fleet_fetch(fleet, id, path, NULL, err);
    if (status == KG_OK) status = kg_dir_make(to, err);
    if (status == KG_OK) status = kg_archive_unpack(path, to, &limits, found, err);
    if (status == KG_OK && strcmp(found, id) != 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s: the archive of %s is one of %s", fleet->where, id, found);
    if (status == KG_OK) status = kg_beneath_hash(*dir, TAGS, tags, err);
    if (status == KG_OK && strcmp(tags, tagmanifest_sha256) != 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s: the archive of %s has another tag manifest", fleet->where, id);
    free(to);
    free(path);
    return status;
}

static bool lies_there(const char *root, const char *id, const char *tagmanifest_sha256) {
    char tags[KG_SHA256_HEX_SIZE];
    char *dir = kg_path_join(root, id);
    const bool does = kg_beneath_is_folder(root, id) && kg_beneath_hash(dir, TAGS, tags, NULL) == KG_OK &&
                      strcmp(tags, tagmanifest_sha256) == 0;
    free(dir);
    return does;
}

/* Another reader may put it there meanwhile: that is as good. */
static enum kg_status bring_one(struct kg_fleet *fleet, const char *root, const char *id,
                                const char *tagmanifest_sha256, bool *any_new, struct kg_error *err) {
    if (lies_there(root, id, tagmanifest_sha256)) return KG_OK;
    char *scratch = kg_path_join(root, ".bring-XXXXXX"), *from = NULL, *to = kg_path_join(root, id);
    struct kg_error why;
    enum kg_status status = KG_OK;
    if (!mkdtemp(scratch)) {
        status = kg_fail(err, KG_ERR_IO, "cannot make %s: %s", scratch, strerror(errno));
    } else {
        status = kg_fleet_unpack(fleet, id, tagmanifest_sha256, scratch, &from, err);
        if (status == KG_OK) status = kg_path_remove(to, err);
        if (status == KG_OK && kg_path_rename_new(from, to, &why) != KG_OK && !lies_there(root, id, tagmanifest_sha256))
            status = kg_fail(err, why.status, "%s", why.message);
        if (kg_path_remove(scratch, &why) != KG_OK && status == KG_OK)
            status = kg_fail(err, why.status, "%s", why.message);
        *any_new = true;
    }
    free(to);
    free(from);
    free(scratch);
    return status;
}

static enum kg_status bring_row(const struct kg_fleet_rows *rows, int row, const char *root, bool *any_new,
                                struct kg_error *err) {
    enum { ID, HAS_ROW, TAG, PREVIOUS, PREVIOUS_TAG };
    struct kg_fleet *fleet = (struct kg_fleet *)(uintptr_t)rows->fleet;
    const char *id = kg_fleet_cell(rows, row, ID);
    int64_t unused;
    if (!kg_bundle_id_parse(id, &unused) || strchr(id, '/')) /* one that leads elsewhere, by somebody's SQL */
        return kg_fail(err, KG_ERR_INTEGRITY, "%s has a run of no run's name: %s", fleet->where, id);
    if (!*kg_fleet_cell(rows, row, TAG))
        return *kg_fleet_cell(rows, row, HAS_ROW) == 't'
                   ? kg_fail(err, KG_ERR_INTEGRITY,
                             "%s has rows of %s, and no archive of it: what they say is no "
                             "evidence; 'kigo fleet reindex' makes rows again",
                             fleet->where, id)
                   : kg_fail(err, KG_ERR_NOT_FOUND, "%s has no run %s", fleet->where, id);
    enum kg_status status = bring_one(fleet, root, id, kg_fleet_cell(rows, row, TAG), any_new, err);
    if (status == KG_OK && *kg_fleet_cell(rows, row, PREVIOUS_TAG) &&
        kg_bundle_id_parse(kg_fleet_cell(rows, row, PREVIOUS), &unused) &&
        !strchr(kg_fleet_cell(rows, row, PREVIOUS), '/'))
        status = bring_one(fleet, root, kg_fleet_cell(rows, row, PREVIOUS), kg_fleet_cell(rows, row, PREVIOUS_TAG),
                           any_new, err);
    return status;
}

enum kg_status kg_fleet_bring(void *place, const char *root, const char *const *ids, size_t n_ids, bool *any_new,
                              struct kg_error *err) {
    /* The run before is looked at where the rows say that it was sealed long after (bundle/standing.h). */
    static const char SQL[] =
        "SELECT w.id, b.bundle_id IS NOT NULL, a.tagmanifest_sha256, p.bundle_id, pa.tagmanifest_sha256"
        " FROM unnest(string_to_array($1, E'\\n')) AS w(id) LEFT JOIN archive a ON a.bundle_id = w.id"
        " LEFT JOIN bundle b ON b.bundle_id = w.id LEFT JOIN bundle p ON p.bundle_id = a.previous_id"
        " AND p.sealed_us > b.sealed_us LEFT JOIN archive pa ON pa.bundle_id = p.bundle_id";
    struct kg_fleet *fleet = place;
    struct kg_fleet_rows rows;
    struct kg_buffer lines = KG_BUFFER_INIT;
    if (n_ids == 0) return KG_OK;
    for (size_t i = 0; i < n_ids; i++) kg_buffer_printf(&lines, "%s%s", i > 0 ? "\n" : "", ids[i]);
    const char *const args[] = { kg_buffer_text(&lines) };
    enum kg_status status = kg_fleet_ask(fleet, "looking for archives", SQL, args, 1, &rows, err);
    for (int i = 0; i < rows.n && status == KG_OK; i++) status = bring_row(&rows, i, root, any_new, err);
    kg_fleet_rows_free(&rows);
    kg_buffer_free(&lines);
    return status;
}
