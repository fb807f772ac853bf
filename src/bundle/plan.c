/* plan.ndjson: every case of the run, written before anything runs. */
#include "bundle/internal.h"
#include "base/beneath.h"
#include "base/clock.h"
#include "base/file.h"
#include "bundle/records.h"

static enum kg_status append_plan(struct kg_bundle *bundle, const json_t *line, struct kg_error *err) {
    if (bundle->plan_done) return kg_fail(err, KG_ERR_USAGE, "bundle %s: a case planned after plan_done", bundle->id);
    char why[KG_RECORD_WHY_SIZE];
    if (!kg_record_plan_ok(line, why)) return kg_fail(err, KG_ERR_USAGE, "plan line: %s", why);
    const char *key = kg_json_text(line, "key");
    if (json_object_get(bundle->plan, key)) return kg_fail(err, KG_ERR_USAGE, "case '%s' is planned twice", key);
    const enum kg_status status = kg_ndjson_append(bundle->plan_fd, line, false, "plan.ndjson", err);
    if (status != KG_OK) return status;
    json_object_set_new(bundle->plan, key, json_deep_copy(line));
    json_object_set_new(bundle->state, key, json_integer(KG_CASE_PLANNED));
    return KG_OK;
}

enum kg_status kg_bundle_plan(struct kg_bundle *bundle, const kg_json *plan_line, struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK) status = append_plan(bundle, plan_line, err);
    return kg_bundle_leave(bundle, status, err);
}

/* The event that ends the plan, with the hash of it: what results leave out, since the plan has it, stays as it was. */
static enum kg_status append_planned(struct kg_bundle *bundle, struct kg_error *err) {
    char sha256[KG_SHA256_HEX_SIZE];
    enum kg_status status = kg_beneath_hash(bundle->dir, "data/plan.ndjson", sha256, err);
    if (status == KG_OK) {
        json_t *event = json_pack("{s:s, s:I, s:I, s:s}", "event", "planned", "utc_us", (json_int_t)kg_clock_utc_us(),
                                  "n", (json_int_t)json_object_size(bundle->plan), "plan_sha256", sha256);
        status = kg_ndjson_append(bundle->journal_fd, event, true, "journal.ndjson", err);
        json_decref(event);
    }
    return status;
}

enum kg_status kg_bundle_plan_done(struct kg_bundle *bundle, struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK && bundle->plan_done)
        status = kg_fail(err, KG_ERR_USAGE, "bundle %s: plan_done called twice", bundle->id);
    /* Plan, what describes the run, and their names: "planned" in the journal says that recover finds them. */
    if (status == KG_OK) status = kg_bag_sync(bundle->dir, err);
    if (status == KG_OK) status = kg_dir_sync(bundle->root, err);
    if (status == KG_OK) status = append_planned(bundle, err);
    if (status == KG_OK) bundle->plan_done = true;
    return kg_bundle_leave(bundle, status, err);
}
