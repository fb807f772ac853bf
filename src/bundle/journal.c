/* journal.ndjson and results.ndjson: what happens, as it happens. A result is written before the journal says "end". */
#include "bundle/internal.h"
#include "base/clock.h"
#include "bundle/records.h"
#include <string.h>

static enum kg_status find_case(struct kg_bundle *bundle, const char *key, json_t **state, struct kg_error *err) {
    if (!bundle->plan_done) return kg_fail(err, KG_ERR_USAGE, "case '%s' before plan_done", key);
    *state = json_object_get(bundle->state, key);
    return *state ? KG_OK : kg_fail(err, KG_ERR_USAGE, "case '%s' was not planned", key);
}

static enum kg_status append_start(struct kg_bundle *bundle, const char *key, struct kg_error *err) {
    json_t *state;
    enum kg_status status = find_case(bundle, key, &state, err);
    if (status != KG_OK) return status;
    if (json_integer_value(state) != KG_CASE_PLANNED)
        return kg_fail(err, KG_ERR_USAGE, "case '%s' is started twice", key);
    json_t *event = json_pack("{s:s, s:s, s:I}", "event", "start", "key", key, "utc_us", (json_int_t)kg_clock_utc_us());
    status = kg_ndjson_append(bundle->journal_fd, event, false, "journal.ndjson", err);
    bundle->journal_unsynced = true;
    json_decref(event);
    if (status == KG_OK) json_integer_set(state, KG_CASE_STARTED);
    return status;
}

enum kg_status kg_bundle_start(struct kg_bundle *bundle, const char *key, struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK) status = append_start(bundle, key, err);
    return kg_bundle_leave(bundle, status, err);
}

/* The record with the fields the caller left out: the plan's seed, lists empty; and without what the plan's line has as
 * well. The caller's reference. */
static enum kg_status complete_result(const json_t *plan_line, const json_t *result, json_t **out,
                                      struct kg_error *err) {
    static const char *const LISTS[] = { "errors", "timings", "metrics", "memory" };
    json_t *record = json_copy((json_t *)(uintptr_t)result);
    if (!json_object_get(record, "seed")) json_object_set(record, "seed", json_object_get(plan_line, "seed"));
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++)
        if (!json_object_get(record, LISTS[i])) json_object_set_new(record, LISTS[i], json_array());
    if (!json_object_get(record, "reason")) json_object_set_new(record, "reason", json_null());
    char why[KG_RECORD_WHY_SIZE];
    if (!kg_record_result_ok(record, why) || !kg_record_same_definition(plan_line, record, why)) {
        json_decref(record);
        return kg_fail(err, KG_ERR_USAGE, "result of '%s': %s", kg_json_text(plan_line, "key"), why);
    }
    for (size_t i = 0; i < KG_N_RECORD_PLANNED; i++) json_object_del(record, KG_RECORD_PLANNED[i]);
    *out = record;
    return KG_OK;
}

static enum kg_status append_end(struct kg_bundle *bundle, const json_t *result, struct kg_error *err) {
    const char *key = kg_json_text(result, "key");
    if (!key) return kg_fail(err, KG_ERR_USAGE, "a result without a key");
    json_t *state;
    enum kg_status status = find_case(bundle, key, &state, err);
    if (status != KG_OK) return status;
    const json_int_t was = json_integer_value(state);
    if (was == KG_CASE_ENDED) return kg_fail(err, KG_ERR_USAGE, "case '%s' has a result already", key);

    json_t *record = NULL, *event = NULL;
    status = complete_result(json_object_get(bundle->plan, key), result, &record, err);
    if (status != KG_OK) return status;
    const char *outcome = kg_json_text(record, "status");
    const bool ran = strcmp(outcome, "skip") != 0 && strcmp(outcome, "norun") != 0;
    if (ran && was != KG_CASE_STARTED) {
        status = kg_fail(err, KG_ERR_USAGE, "case '%s' ends with %s but was never started", key, outcome);
        goto cleanup;
    }
    event = json_pack("{s:s, s:s, s:I, s:s}", "event", "end", "key", key, "utc_us", (json_int_t)kg_clock_utc_us(),
                      "status", outcome);
    status = kg_ndjson_append(bundle->results_fd, record, false, "results.ndjson", err);
    if (status == KG_OK) status = kg_ndjson_append(bundle->journal_fd, event, false, "journal.ndjson", err);
    bundle->results_unsynced = bundle->journal_unsynced = true;
    if (status == KG_OK) json_integer_set(state, KG_CASE_ENDED);
cleanup:
    json_decref(event);
    json_decref(record);
    return status;
}

enum kg_status kg_bundle_end(struct kg_bundle *bundle, const kg_json *result, struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK) status = append_end(bundle, result, err);
    return kg_bundle_leave(bundle, status, err);
}

static enum kg_status sync_one(int fd, bool *unsynced, const char *what, struct kg_error *err) {
    if (!*unsynced) return KG_OK;
    const enum kg_status status = kg_fd_sync(fd, what, err);
    if (status == KG_OK) *unsynced = false;
    return status;
}

enum kg_status kg_bundle_sync(struct kg_bundle *bundle, struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK) status = sync_one(bundle->samples_fd, &bundle->samples_unsynced, "samples.bin", err);
    if (status == KG_OK) status = sync_one(bundle->results_fd, &bundle->results_unsynced, "results.ndjson", err);
    if (status == KG_OK) status = sync_one(bundle->journal_fd, &bundle->journal_unsynced, "journal.ndjson", err);
    return kg_bundle_leave(bundle, status, err);
}
