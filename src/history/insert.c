/* One bundle's folder as rows. */
#include "history/internal.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "bundle/manifest.h"
#include "bundle/records.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const STATEMENTS[KG_STMT_COUNT] = {
    [KG_STMT_ENV] = "INSERT OR IGNORE INTO env VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_BUILD] = "INSERT OR IGNORE INTO build VALUES(?,?,?,?,?,?,?,?)",
    [KG_STMT_BUNDLE] = "INSERT INTO bundle VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_CASE] = "INSERT OR IGNORE INTO tcase VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_RESULT] = "INSERT INTO result VALUES(?,?,?,?,?,?,?,?)",
    [KG_STMT_METRIC] = "INSERT INTO metric VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
};

/* A row under way: cells are bound one after another. */
struct row {
    struct kg_history *history;
    sqlite3_stmt *stmt;
    int n_bound;
};

static enum kg_status row_begin(struct kg_history *history, enum kg_history_stmt which, struct row *row,
                                struct kg_error *err) {
    sqlite3_stmt **stmt = &history->stmts[which];
    *row = (struct row){ history, NULL, 0 };
    if (!*stmt && sqlite3_prepare_v3(history->db, STATEMENTS[which], -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL) != 0)
        return kg_history_fail(history, "preparing an insert", err);
    row->stmt = *stmt;
    return KG_OK;
}

static void put_text(struct row *row, const char *text) {
    row->n_bound++;
    if (text) sqlite3_bind_text(row->stmt, row->n_bound, text, -1, SQLITE_TRANSIENT);
    else sqlite3_bind_null(row->stmt, row->n_bound);
}

static void put_int(struct row *row, int64_t value) {
    sqlite3_bind_int64(row->stmt, ++row->n_bound, value);
}

static void put_int_of(struct row *row, const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    row->n_bound++;
    if (json_is_integer(value)) sqlite3_bind_int64(row->stmt, row->n_bound, json_integer_value(value));
    else sqlite3_bind_null(row->stmt, row->n_bound);
}

static void put_real_of(struct row *row, const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    row->n_bound++;
    if (json_is_number(value)) sqlite3_bind_double(row->stmt, row->n_bound, json_number_value(value));
    else sqlite3_bind_null(row->stmt, row->n_bound);
}

static void put_text_of(struct row *row, const json_t *object, const char *name) {
    put_text(row, kg_json_text(object, name));
}

static enum kg_status row_end(struct row *row, struct kg_error *err) {
    const int code = sqlite3_step(row->stmt);
    const enum kg_status status = code == SQLITE_DONE ? KG_OK : kg_history_fail(row->history, "inserting", err);
    sqlite3_reset(row->stmt);
    sqlite3_clear_bindings(row->stmt);
    return status;
}

/* 63 bits of SHA-256 over text: the same id for the same content, whatever was indexed before. */
static int64_t hash_id(const char *text, size_t size_bytes, int n_bits) {
    char hex[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(text, size_bytes, hex);
    hex[16] = '\0';
    return (int64_t)(strtoull(hex, NULL, 16) >> (64 - n_bits));
}

/* SHA-256 over the canonical text of an object without the member that changes from run to run. */
static char *canonical(const json_t *object, const char *without, char hex[KG_SHA256_HEX_SIZE]) {
    json_t *stable = object ? json_copy((json_t *)(uintptr_t)object) : json_object();
    if (without) json_object_del(stable, without);
    char *text = json_dumps(stable, JSON_COMPACT | JSON_SORT_KEYS);
    kg_sha256_hex(text, strlen(text), hex);
    json_decref(stable);
    return text;
}

static enum kg_status insert_env(struct kg_history *history, const json_t *env, char env_id[KG_SHA256_HEX_SIZE],
                                 struct kg_error *err) {
    char *text = canonical(env, "run", env_id);
    const json_t *cpu = json_object_get(env, "cpu");
    const json_t *gpu = json_array_get(json_object_get(env, "gpus"), 0);
    struct row row;
    enum kg_status status = row_begin(history, KG_STMT_ENV, &row, err);
    if (status == KG_OK) {
        put_text(&row, env_id);
        put_text_of(&row, cpu, "model");
        put_int_of(&row, cpu, "n_usable");
        put_int_of(&row, env, "memory_bytes");
        put_text_of(&row, env, "os");
        put_text_of(&row, env, "kernel");
        put_text_of(&row, gpu, "name");
        put_int_of(&row, gpu, "driver");
        put_int_of(&row, gpu, "cuda_runtime");
        put_real_of(&row, gpu, "power_limit_w");
        put_text(&row, text);
        status = row_end(&row, err);
    }
    free(text);
    return status;
}

static enum kg_status insert_build(struct kg_history *history, const json_t *build, char build_id[KG_SHA256_HEX_SIZE],
                                   struct kg_error *err) {
    static const char *const COLUMNS[] = { "version", "compiler", "cflags", "sanitizers", "cuda", "program_sha256" };
    char *text = canonical(build, NULL, build_id);
    struct row row;
    enum kg_status status = row_begin(history, KG_STMT_BUILD, &row, err);
    if (status == KG_OK) {
        put_text(&row, build_id);
        for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++) put_text_of(&row, build, COLUMNS[i]);
        put_text(&row, text);
        status = row_end(&row, err);
    }
    free(text);
    return status;
}

static enum kg_status insert_metric(struct kg_history *history, int64_t result_id, int64_t *seq, const char *name,
                                    const char *unit, const json_t *value, const json_t *tol, const json_t *stats,
                                    bool valid, struct kg_error *err) {
    static const char *const STATS[] = { "median", "mad", "ci_lo", "ci_hi" };
    struct row row;
    enum kg_status status = row_begin(history, KG_STMT_METRIC, &row, err);
    if (status != KG_OK) return status;
    put_int(&row, result_id);
    put_int(&row, (*seq)++);
    put_text(&row, name);
    put_text(&row, unit);
    const json_t *const reals[] = { value, tol };
    for (size_t i = 0; i < 2; i++) {
        row.n_bound++;
        if (json_is_number(reals[i])) sqlite3_bind_double(row.stmt, row.n_bound, json_number_value(reals[i]));
        else sqlite3_bind_null(row.stmt, row.n_bound);
    }
    put_int_of(&row, stats, "n");
    for (size_t i = 0; i < sizeof STATS / sizeof *STATS; i++) put_real_of(&row, stats, STATS[i]);
    put_int(&row, valid && json_is_number(value));
    return row_end(&row, err);
}

struct metric_sink {
    struct kg_history *history;
    int64_t result_id, seq;
};

static enum kg_status insert_error(struct metric_sink *sink, const json_t *error, struct kg_error *err) {
    static const struct {
        const char *limit, *figure;
    } RULES[] = {
        { "max_abs", "max_abs" },
        { "nmse", "nmse" },
        { "one_minus_cos", "one_minus_cos" },
        { "mixed_abs", "max_abs" },
    };
    const json_t *tolerance = json_object_get(error, "tolerance");
    const char *comparison = kg_json_text(error, "name");
    const bool finite = kg_json_int(error, "n_nonfinite", 0) == 0;
    bool limited = false;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES && status == KG_OK; i++) {
        const json_t *limit = json_object_get(tolerance, RULES[i].limit);
        const bool last_chance = i + 1 == sizeof RULES / sizeof *RULES && !limited;
        if (!json_is_number(limit) && !last_chance) continue;
        limited = true;
        char *name = kg_xasprintf("%s.%s", comparison ? comparison : "", RULES[i].figure);
        status = insert_metric(sink->history, sink->result_id, &sink->seq, name, "abs",
                               json_object_get(error, RULES[i].figure), limit, error, finite, err);
        free(name);
    }
    if (status == KG_OK && json_is_true(json_object_get(error, "judged"))) {
        char *name = kg_xasprintf("%s.margin", comparison ? comparison : "");
        status = insert_metric(sink->history, sink->result_id, &sink->seq, name, "ratio",
                               json_object_get(error, "margin"), NULL, error, finite, err);
        free(name);
    }
    return status;
}

static enum kg_status insert_timing(struct metric_sink *sink, const json_t *timing, struct kg_error *err) {
    const char *name = kg_json_text(timing, "name"), *kind = kg_json_text(timing, "kind");
    const char *state = kg_json_text(timing, "state");
    char *full = kg_xasprintf("%s.%s.%s", name ? name : "", kind ? kind : "", state ? state : "");
    const bool valid = !json_is_false(json_object_get(timing, "valid"));
    const enum kg_status status = insert_metric(sink->history, sink->result_id, &sink->seq, full, "ns",
                                                json_object_get(timing, "median"), NULL, timing, valid, err);
    free(full);
    return status;
}

static enum kg_status insert_plain(struct metric_sink *sink, const json_t *metric, struct kg_error *err) {
    const char *name = kg_json_text(metric, "name"), *unit = kg_json_text(metric, "unit");
    return insert_metric(sink->history, sink->result_id, &sink->seq, name ? name : "", unit ? unit : "",
                         json_object_get(metric, "value"), NULL, NULL, true, err);
}

static enum kg_status insert_memory(struct metric_sink *sink, const json_t *memory, struct kg_error *err) {
    static const struct {
        const char *suffix, *figure;
    } FIGURES[] = { { "peak", "peak_bytes" }, { "left", "left_bytes" } };
    const char *tag = kg_json_text(memory, "tag");
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof FIGURES / sizeof *FIGURES && status == KG_OK; i++) {
        char *name = kg_xasprintf("%s.%s", tag ? tag : "", FIGURES[i].suffix);
        status = insert_metric(sink->history, sink->result_id, &sink->seq, name, "bytes",
                               json_object_get(memory, FIGURES[i].figure), NULL, NULL, true, err);
        free(name);
    }
    return status;
}

static enum kg_status insert_metrics(struct kg_history *history, int64_t result_id, const json_t *result,
                                     struct kg_error *err) {
    static const struct {
        const char *list;
        enum kg_status (*insert)(struct metric_sink *sink, const json_t *item, struct kg_error *err);
    } LISTS[] = {
        { "errors", insert_error },
        { "timings", insert_timing },
        { "metrics", insert_plain },
        { "memory", insert_memory },
    };
    struct metric_sink sink = { history, result_id, 0 };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        const json_t *list = json_object_get(result, LISTS[i].list);
        for (size_t k = 0; k < json_array_size(list) && status == KG_OK; k++)
            status = LISTS[i].insert(&sink, json_array_get(list, k), err);
    }
    return status;
}

static enum kg_status insert_case(struct kg_history *history, const json_t *plan, int64_t *case_id,
                                  struct kg_error *err) {
    static const char *const COLUMNS[] = { "key",     "suite", "layer", "op",   "name",
                                           "backend", "dtype", "shape", "spec", "def_sha" };
    struct kg_buffer identity = KG_BUFFER_INIT;
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++) {
        const char *text = kg_json_text(plan, COLUMNS[i]);
        kg_buffer_append(&identity, text ? "1" : "0", 1);
        if (text) kg_buffer_append(&identity, text, strlen(text) + 1);
    }
    *case_id = hash_id(identity.data, identity.len, 63);
    kg_buffer_free(&identity);
    struct row row;
    const enum kg_status status = row_begin(history, KG_STMT_CASE, &row, err);
    if (status != KG_OK) return status;
    put_int(&row, *case_id);
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++) put_text_of(&row, plan, COLUMNS[i]);
    return row_end(&row, err);
}

/* Result ids are the bundle's 43 bits and 20 bits of place in the plan: a bundle's rows lie side by side. */
enum { BUNDLE_BITS = 43, PLACE_BITS = 20 };

static enum kg_status insert_results(struct kg_history *history, const char *bundle_id,
                                     const struct kg_records *records, struct kg_error *err) {
    if (records->n_cases >= (size_t)1 << PLACE_BITS)
        return kg_fail(err, KG_ERR_FORMAT, "%s has %zu cases; the index holds fewer than %d", bundle_id,
                       records->n_cases, 1 << PLACE_BITS);
    const int64_t first = hash_id(bundle_id, strlen(bundle_id), BUNDLE_BITS) << PLACE_BITS;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < records->n_cases && status == KG_OK; i++) {
        const struct kg_case_records *c = &records->cases[i];
        int64_t case_id = 0;
        struct row row;
        status = insert_case(history, c->plan, &case_id, err);
        if (status == KG_OK) status = row_begin(history, KG_STMT_RESULT, &row, err);
        if (status != KG_OK) break;
        put_int(&row, first + (int64_t)i);
        put_text(&row, bundle_id);
        put_int(&row, case_id);
        put_text_of(&row, c->result, "status");
        put_text_of(&row, c->result, "reason");
        put_text_of(&row, c->result, "seed");
        put_int_of(&row, c->result, "started_us");
        put_int_of(&row, c->result, "duration_ns");
        status = row_end(&row, err);
        if (status == KG_OK) status = insert_metrics(history, first + (int64_t)i, c->result, err);
    }
    return status;
}

/* What a bundle's rows are made from. */
struct folder {
    struct kg_records records;
    json_t *summary, *env, *build, *source, *info;
    char manifest_sha256[KG_SHA256_HEX_SIZE];
    bool is_signed;
};

static enum kg_status read_info(const char *dir, json_t **info, struct kg_bundle_findings *findings,
                                struct kg_error *err) {
    char *path = kg_path_join(dir, "bag-info.txt"), *text = NULL;
    size_t size_bytes = 0;
    const enum kg_status status = kg_file_read(path, &text, &size_bytes, err);
    *info = kg_bag_info_parse(text ? text : "", size_bytes, findings);
    free(text);
    free(path);
    return status;
}

static enum kg_status read_folder(const char *dir, struct folder *folder, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    char *manifest = kg_path_join(dir, "manifest-sha256.txt");
    char *signature = kg_path_join(dir, "tagmanifest-sha256.txt.sig");
    enum kg_status status = kg_bundle_read_json(dir, "data/summary.json", &folder->summary, err);
    if (status == KG_OK) status = kg_sha256_file(manifest, folder->manifest_sha256, err);
    if (status == KG_OK) status = read_info(dir, &folder->info, &findings, err);
    if (status == KG_OK) status = kg_records_load_results(dir, &folder->records, &findings, err);
    for (size_t i = 0; i < folder->records.n_cases && status == KG_OK; i++)
        if (!folder->records.cases[i].plan || !folder->records.cases[i].result)
            status = kg_fail(err, KG_ERR_INTEGRITY, "%s: '%s' is not both planned and recorded", dir,
                             folder->records.cases[i].key);
    if (status == KG_OK && findings.n_items > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s/%s: %s", dir, findings.items[0].path, findings.items[0].detail);
    /* A run that died early may have no description of itself. */
    if (kg_bundle_read_json(dir, "data/env.json", &folder->env, NULL) != KG_OK) folder->env = NULL;
    if (kg_bundle_read_json(dir, "data/build.json", &folder->build, NULL) != KG_OK) folder->build = NULL;
    if (kg_bundle_read_json(dir, "data/source.json", &folder->source, NULL) != KG_OK) folder->source = NULL;
    folder->is_signed = kg_path_exists(signature);
    kg_bundle_findings_free(&findings);
    free(signature);
    free(manifest);
    return status;
}

static void free_folder(struct folder *folder) {
    kg_records_free(&folder->records);
    json_decref(folder->summary);
    json_decref(folder->env);
    json_decref(folder->build);
    json_decref(folder->source);
    json_decref(folder->info);
}

static enum kg_status insert_bundle(struct kg_history *history, const char *bundle_id, const struct folder *folder,
                                    const char *env_id, const char *build_id, struct kg_error *err) {
    const json_t *git = json_object_get(folder->source, "git");
    const char *share = kg_json_text(folder->info, "Kigo-Overhead-Share"),
               *seed = kg_json_text(folder->summary, "seed");
    const bool partial = strcmp(kg_json_text(folder->summary, "state"), "partial") == 0;
    struct kg_bundle_summary n;
    kg_records_summary(&folder->records, partial, &n);
    struct row row;
    const enum kg_status status = row_begin(history, KG_STMT_BUNDLE, &row, err);
    if (status != KG_OK) return status;
    put_text(&row, bundle_id);
    put_text(&row, bundle_id); /* path, below the root */
    put_text(&row, partial ? "partial" : "complete");
    put_text(&row, n.verdict);
    put_int(&row, n.exit_code);
    put_int(&row, kg_json_int(folder->summary, "started_us", 0));
    put_int(&row, kg_json_int(folder->summary, "sealed_us", 0));
    put_text_of(&row, git, "commit");
    put_text_of(&row, git, "branch");
    if (git) put_int(&row, json_is_true(json_object_get(git, "dirty")));
    else put_text(&row, NULL);
    put_text_of(&row, folder->source, "content_sha256");
    put_text(&row, env_id);
    put_text(&row, build_id);
    put_text(&row, seed ? seed : "0");
    const size_t counts[] = { n.n_planned, n.n_pass, n.n_fail, n.n_skip, n.n_crash, n.n_timeout, n.n_norun };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) put_int(&row, (int64_t)counts[i]);
    row.n_bound++;
    if (share && isfinite(strtod(share, NULL))) sqlite3_bind_double(row.stmt, row.n_bound, strtod(share, NULL));
    put_text(&row, folder->manifest_sha256);
    put_text(&row, folder->is_signed ? "unchecked" : "unsigned");
    return row_end(&row, err);
}

enum kg_status kg_history_insert(struct kg_history *history, const char *bundle_id, struct kg_error *err) {
    struct folder folder = { 0 };
    char env_id[KG_SHA256_HEX_SIZE], build_id[KG_SHA256_HEX_SIZE];
    char *dir = kg_path_join(history->root, bundle_id);
    enum kg_status status = read_folder(dir, &folder, err);
    const char *state = kg_json_text(folder.summary, "state");
    if (status == KG_OK && !state) status = kg_fail(err, KG_ERR_FORMAT, "%s/data/summary.json has no state", dir);
    if (status == KG_ERR_NOT_FOUND || status == KG_ERR_IO) {
        if (err) err->status = KG_ERR_INTEGRITY;
        status = KG_ERR_INTEGRITY;
    }
    if (status == KG_OK) status = insert_env(history, folder.env, env_id, err);
    if (status == KG_OK) status = insert_build(history, folder.build, build_id, err);
    if (status == KG_OK) status = insert_bundle(history, bundle_id, &folder, env_id, build_id, err);
    if (status == KG_OK) status = insert_results(history, bundle_id, &folder.records, err);
    free_folder(&folder);
    free(dir);
    return status;
}
