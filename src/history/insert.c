/* What a bundle's folder holds, as rows. */
#include "history/row.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "history/comparison_key.h"
#include "history/folder.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* SHA-256 over the canonical text of an object without the member that changes from run to run. */
static char *canonical(const json_t *object, const char *without, char hex[KG_SHA256_HEX_SIZE]) {
    json_t *stable = object ? json_copy((json_t *)(uintptr_t)object) : json_object();
    if (without) json_object_del(stable, without);
    char *text = json_dumps(stable, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) kg_memory_exhausted(0); /* what was read from JSON can be written as JSON */
    kg_sha256_hex(text, strlen(text), hex);
    json_decref(stable);
    return text;
}

static enum kg_status insert_env(struct kg_history *history, const json_t *env, char env_id[KG_SHA256_HEX_SIZE],
                                 struct kg_error *err) {
    char *text = canonical(env, "run", env_id);
    const json_t *cpu = json_object_get(env, "cpu");
    const json_t *gpu = json_array_get(json_object_get(env, "gpus"), 0);
    struct kg_row row;
    enum kg_status status = kg_row_begin(history, KG_STMT_ENV, &row, err);
    if (status == KG_OK) {
        kg_row_text(&row, env_id);
        kg_row_text_of(&row, cpu, "model");
        kg_row_int_of(&row, cpu, "n_usable");
        kg_row_int_of(&row, env, "memory_bytes");
        kg_row_text_of(&row, env, "os");
        kg_row_text_of(&row, env, "kernel");
        kg_row_text_of(&row, gpu, "name");
        kg_row_int_of(&row, gpu, "driver");
        kg_row_int_of(&row, gpu, "cuda_runtime");
        kg_row_real_of(&row, gpu, "power_limit_w");
        kg_row_text(&row, text);
        status = kg_row_end(&row, err);
    }
    free(text);
    return status;
}

static enum kg_status insert_build(struct kg_history *history, const json_t *build, char build_id[KG_SHA256_HEX_SIZE],
                                   struct kg_error *err) {
    static const char *const COLUMNS[] = { "version", "compiler", "cflags", "sanitizers", "cuda", "program_sha256" };
    char *text = canonical(build, NULL, build_id);
    struct kg_row row;
    enum kg_status status = kg_row_begin(history, KG_STMT_BUILD, &row, err);
    if (status == KG_OK) {
        kg_row_text(&row, build_id);
        for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++) kg_row_text_of(&row, build, COLUMNS[i]);
        kg_row_text(&row, text);
        status = kg_row_end(&row, err);
    }
    free(text);
    return status;
}

static const char *const CASE_COLUMNS[] = { "key",     "suite", "layer", "op",   "name",
                                            "backend", "dtype", "shape", "spec", "def_sha" };

static void put_case(struct kg_row *row, const void *plan) {
    for (size_t i = 0; i < sizeof CASE_COLUMNS / sizeof *CASE_COLUMNS; i++)
        kg_row_node_text(row, plan, CASE_COLUMNS[i]);
}

static enum kg_status insert_case(struct kg_history *history, const struct kg_node *plan, int64_t *case_id,
                                  struct kg_error *err) {
    struct kg_buffer identity = KG_BUFFER_INIT;
    for (size_t i = 0; i < sizeof CASE_COLUMNS / sizeof *CASE_COLUMNS; i++) {
        const char *text = kg_node_text(plan, CASE_COLUMNS[i]);
        kg_buffer_append(&identity, text ? "1" : "0", 1);
        if (text) kg_buffer_append(&identity, text, strlen(text) + 1);
    }
    enum kg_status status = KG_OK;
    if (!kg_id_cache_find(&history->cases, identity.data, identity.len, case_id)) {
        int64_t ids[2];
        kg_hash_ids(identity.data, identity.len, 63, ids);
        status = kg_row_name(history, KG_STMT_FIND_CASE, KG_STMT_CASE, put_case, plan, ids, case_id, err);
        if (status == KG_OK) kg_id_cache_add(&history->cases, identity.data, identity.len, *case_id);
    }
    kg_buffer_free(&identity);
    return status;
}

/* Result ids are the bundle's 43 bits and 20 bits of place in the plan: a bundle's rows lie side by side. */
enum { BUNDLE_BITS = 43, PLACE_BITS = 20 };

static enum kg_status insert_results(struct kg_history *history, const char *bundle_id, int64_t bundle_no,
                                     const struct kg_history_folder *folder, struct kg_error *err) {
    if (folder->n_cases >= (size_t)1 << PLACE_BITS)
        return kg_fail(err, KG_ERR_FORMAT, "%s has %zu cases; the index holds fewer than %d", bundle_id,
                       folder->n_cases, 1 << PLACE_BITS);
    const int64_t first = bundle_no << PLACE_BITS;
    struct kg_metrics metrics = { .history = history };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < folder->n_cases && status == KG_OK; i++) {
        const struct kg_history_case *c = &folder->cases[i];
        int64_t case_id = 0;
        struct kg_row row;
        status = insert_case(history, c->plan, &case_id, err);
        if (status == KG_OK) status = kg_row_begin(history, KG_STMT_RESULT, &row, err);
        if (status != KG_OK) break;
        kg_row_int(&row, first + (int64_t)i);
        kg_row_int(&row, bundle_no);
        kg_row_int(&row, case_id);
        kg_row_node_text(&row, c->result, "status");
        kg_row_node_text(&row, c->result, "reason");
        kg_row_node_text(&row, c->plan, "seed"); /* a result may leave it out */
        kg_row_node_int(&row, c->result, "started_us");
        kg_row_node_int(&row, c->result, "duration_ns");
        status = kg_row_end(&row, err);
        if (status == KG_OK) status = kg_metrics_add(&metrics, first + (int64_t)i, c->result, err);
    }
    return kg_metrics_end(&metrics, status, err);
}

/* Counts of a run, from its records; of a head from its summary, which follows from them in a bundle that verifies. */
static struct kg_bundle_summary counts_of(const struct kg_history_folder *folder, bool partial) {
    struct kg_bundle_summary n = { 0 };
    const struct {
        const char *name;
        size_t *n;
    } said[] = { { "n_planned", &n.n_planned }, { "n_pass", &n.n_pass },   { "n_fail", &n.n_fail },
                 { "n_skip", &n.n_skip },       { "n_crash", &n.n_crash }, { "n_timeout", &n.n_timeout },
                 { "n_norun", &n.n_norun } };
    for (size_t i = 0; i < sizeof said / sizeof *said && folder->head_only; i++)
        *said[i].n = (size_t)kg_json_int(folder->summary, said[i].name, 0);
    for (size_t i = 0; i < folder->n_cases; i++) kg_summary_count(&n, kg_node_text(folder->cases[i].result, "status"));
    kg_summary_conclude(&n, partial);
    return n;
}

static enum kg_status insert_bundle(struct kg_history *history, const char *bundle_id, int64_t bundle_no,
                                    const struct kg_history_folder *folder, const char *env_id, const char *build_id,
                                    struct kg_error *err) {
    const json_t *git = json_object_get(folder->source, "git");
    const char *share = kg_json_text(folder->info, "Kigo-Overhead-Share"),
               *seed = kg_json_text(folder->summary, "seed");
    const bool partial = strcmp(kg_json_text(folder->summary, "state"), "partial") == 0;
    const struct kg_bundle_summary n = counts_of(folder, partial);
    struct kg_row row;
    const enum kg_status status = kg_row_begin(history, KG_STMT_BUNDLE, &row, err);
    if (status != KG_OK) return status;
    kg_row_text(&row, bundle_id);
    kg_row_text(&row, bundle_id); /* path, below the root */
    kg_row_text(&row, partial ? "partial" : "complete");
    kg_row_text(&row, n.verdict);
    kg_row_int(&row, n.exit_code);
    kg_row_int(&row, kg_json_int(folder->summary, "started_us", 0));
    kg_row_int(&row, kg_json_int(folder->summary, "sealed_us", 0));
    kg_row_text_of(&row, git, "commit");
    kg_row_text_of(&row, git, "branch");
    if (git) kg_row_int(&row, json_is_true(json_object_get(git, "dirty")));
    else kg_row_text(&row, NULL);
    kg_row_text_of(&row, folder->source, "content_sha256");
    kg_row_text(&row, env_id);
    kg_row_text(&row, build_id);
    kg_row_text(&row, seed ? seed : "0");
    const size_t counts[] = { n.n_planned, n.n_pass, n.n_fail, n.n_skip, n.n_crash, n.n_timeout, n.n_norun };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) kg_row_int(&row, (int64_t)counts[i]);
    if (share && isfinite(strtod(share, NULL))) kg_row_real(&row, strtod(share, NULL));
    else kg_row_text(&row, NULL);
    kg_row_text(&row, folder->manifest_sha256);
    kg_row_text(&row, folder->is_signed ? "unchecked" : "unsigned");
    kg_row_int(&row, bundle_no);
    char *key = kg_comparison_key(folder->env, folder->build);
    kg_row_text(&row, key);
    free(key);
    return kg_row_end(&row, err);
}

enum kg_status kg_history_bundle_no(struct kg_history *history, const char *bundle_id, int64_t *bundle_no,
                                    struct kg_error *err) {
    static const int64_t LAST = (INT64_C(1) << BUNDLE_BITS) - 1;
    enum kg_status status = KG_OK;
    int64_t no = kg_hash_id(bundle_id, strlen(bundle_id), BUNDLE_BITS), other;
    for (bool taken = true; taken && status == KG_OK;) {
        struct kg_row row;
        *bundle_no = no;
        no = no < LAST ? no + 1 : 0;
        status = kg_row_begin(history, KG_STMT_BUNDLE_NO, &row, err);
        if (status != KG_OK) break;
        kg_row_int(&row, *bundle_no);
        kg_row_text(&row, bundle_id);
        status = kg_row_find(&row, &other, &taken, err);
    }
    return status;
}

/* Rows that no run's are, in an index that somebody edited, make room. */
static enum kg_status clear_results(struct kg_history *history, int64_t bundle_no, struct kg_error *err) {
    static const enum kg_history_stmt CLEAR[] = { KG_STMT_CLEAR_METRICS, KG_STMT_CLEAR_RESULTS };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof CLEAR / sizeof *CLEAR && status == KG_OK; i++) {
        struct kg_row row;
        status = kg_row_begin(history, CLEAR[i], &row, err);
        if (status != KG_OK) break;
        kg_row_int(&row, bundle_no << PLACE_BITS);
        kg_row_int(&row, (bundle_no << PLACE_BITS) + (1 << PLACE_BITS) - 1);
        status = kg_row_end(&row, err);
    }
    return status;
}

enum kg_status kg_history_insert(struct kg_history *history, const char *bundle_id,
                                 const struct kg_history_folder *folder, struct kg_error *err) {
    char env_id[KG_SHA256_HEX_SIZE], build_id[KG_SHA256_HEX_SIZE];
    int64_t bundle_no = 0;
    enum kg_status status = kg_history_bundle_no(history, bundle_id, &bundle_no, err);
    if (status == KG_OK) status = clear_results(history, bundle_no, err);
    if (status == KG_OK) status = insert_env(history, folder->env, env_id, err);
    if (status == KG_OK) status = insert_build(history, folder->build, build_id, err);
    if (status == KG_OK) status = insert_bundle(history, bundle_id, bundle_no, folder, env_id, build_id, err);
    if (status == KG_OK) status = insert_results(history, bundle_id, bundle_no, folder, err);
    return status;
}
