/* From the records on disk to a whole bag: what seal and recover share. Every step can be run again from the start, so
 * a process that dies in any of them loses nothing. */
#include "bundle/internal.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "bundle/chain.h"
#include "bundle/derived.h"
#include "bundle/manifest.h"
#include "bundle/sign.h"
#include "bundle/stored.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bag {
    const struct kg_bag_job *job;
    struct kg_records records;
    struct kg_export exports;
    int64_t started_us, sealed_us;
    struct kg_bundle_summary counts;
};

/* Appends a result for every planned case that has none. */
static enum kg_status fill_results(const struct bag *bag, struct kg_error *err) {
    int fd = -1;
    enum kg_status status = kg_bundle_open_append(bag->job->dir, "data/results.ndjson", &fd, err);
    for (size_t i = 0; i < bag->records.n_cases && status == KG_OK; i++) {
        const struct kg_case_records *c = &bag->records.cases[i];
        if (!c->plan || c->result) continue;
        const bool crashed = bag->job->partial && (c->started || c->ended);
        const char *reason = crashed && c->ended ? "the run died before the result of this case was on the disk"
                             : crashed           ? "the run died while this case was in flight"
                             : c->started        ? "started, but no result was recorded"
                             : bag->job->partial ? "the run died before this case"
                                                 : "the run ended before this case";
        json_t *record =
            json_pack("{s:s, s:s, s:s, s:O, s:n, s:n, s:[], s:[], s:[], s:[]}", "key", c->key, "status",
                      crashed ? "crash" : "norun", "reason", reason, "seed", json_object_get(c->plan, "seed"),
                      "started_us", "duration_ns", "errors", "timings", "metrics", "memory");
        /* a run that died before the journal had the hash of its plan */
        for (size_t k = 0; k < KG_N_RECORD_PLANNED && !bag->records.plan_said; k++)
            json_object_set(record, KG_RECORD_PLANNED[k], json_object_get(c->plan, KG_RECORD_PLANNED[k]));
        status = kg_ndjson_append(fd, record, false, "results.ndjson", err);
        json_decref(record);
    }
    if (fd >= 0) close(fd);
    return status;
}

/* Loads the records; any finding but one of a partial run's journal is an error: what is sealed must be sound. */
static enum kg_status load(struct bag *bag, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    enum kg_status status = kg_records_load(bag->job->dir, &bag->records, &findings, err);
    if (status == KG_OK && findings.n_items > 0 && !bag->job->partial)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s/%s: %s", bag->job->dir, findings.items[0].path,
                         findings.items[0].detail);
    kg_bundle_findings_free(&findings);
    return status;
}

static enum kg_status reload_filled(struct bag *bag, struct kg_error *err) {
    enum kg_status status = load(bag, err);
    if (status == KG_OK) status = fill_results(bag, err);
    if (status != KG_OK) return status;
    kg_records_free(&bag->records);
    return load(bag, err);
}

static enum kg_status put_summary(struct bag *bag, struct kg_error *err) {
    const json_t *open_event = kg_records_opening(&bag->records);
    if (!kg_bundle_id_parse(bag->job->id, &bag->started_us)) bag->started_us = 0;
    bag->started_us = kg_json_int(open_event, "utc_us", bag->started_us);
    bag->sealed_us = kg_clock_utc_us();
    if (bag->sealed_us < bag->started_us) bag->sealed_us = bag->started_us; /* the clock was set back meanwhile */
    const char *seed = kg_json_text(open_event, "seed");
    const struct kg_bundle_summary *n = &bag->counts;
    kg_records_summary(&bag->records, bag->job->partial, &bag->counts);
    json_t *summary =
        json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "bundle_id", bag->job->id,
                  "state", bag->job->partial ? "partial" : "complete", "verdict", n->verdict, "exit_code", n->exit_code,
                  "seed", seed ? seed : "0", "started_us", (json_int_t)bag->started_us, "sealed_us",
                  (json_int_t)bag->sealed_us, "n_planned", (json_int_t)n->n_planned, "n_pass", (json_int_t)n->n_pass,
                  "n_fail", (json_int_t)n->n_fail, "n_skip", (json_int_t)n->n_skip, "n_crash", (json_int_t)n->n_crash,
                  "n_timeout", (json_int_t)n->n_timeout, "n_norun", (json_int_t)n->n_norun);
    const enum kg_status status = kg_bundle_put_json(bag->job->dir, "data/summary.json", summary, err);
    json_decref(summary);
    return status;
}

static enum kg_status put_documents(const struct bag *bag, const struct kg_bundle_document *documents,
                                    struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (const struct kg_bundle_document *d = documents; d && d->file && status == KG_OK; d++) {
        if (d->until) continue;
        struct kg_buffer text = KG_BUFFER_INIT;
        d->make(&bag->exports, &text);
        status = kg_bundle_put(bag->job->dir, d->file, text.data, text.len, err);
        kg_buffer_free(&text);
    }
    return status;
}

static enum kg_status put_exports(struct bag *bag, struct kg_error *err) {
    const struct kg_bag_job *job = bag->job;
    enum kg_status status = kg_derived_open(job->dir, job->partial, &bag->records, &bag->exports, err);
    if (status == KG_OK) status = put_documents(bag, KG_DERIVED, err);
    return status == KG_OK ? put_documents(bag, job->documents, err) : status;
}

static enum kg_status put_bag_info(const struct bag *bag, const struct kg_tree *tree, struct kg_error *err) {
    struct kg_buffer info = KG_BUFFER_INIT;
    struct kg_chain_link previous;
    uint64_t n_bytes = 0;
    size_t n_files = 0;
    for (size_t i = 0; i < tree->n_entries; i++) {
        if (!kg_manifest_is_payload(tree->entries[i].path) || tree->entries[i].kind != KG_TREE_FILE) continue;
        n_bytes += tree->entries[i].size_bytes;
        n_files++;
    }
    char date[KG_UTC_TEXT_SIZE];
    kg_clock_utc_text(bag->sealed_us, date);
    date[10] = '\0'; /* YYYY-MM-DD */
    const json_t *git = json_object_get(bag->exports.source, "git");
    const char *commit = kg_json_text(git, "commit");
    kg_buffer_puts(&info, "Bag-Software-Agent: kigo " PACKAGE_VERSION "\n");
    kg_buffer_printf(&info, "Bagging-Date: %s\n", date);
    kg_buffer_printf(&info, "External-Identifier: %s\n", bag->job->id);
    kg_buffer_printf(&info, "Payload-Oxum: %llu.%zu\n", (unsigned long long)n_bytes, n_files);
    kg_buffer_printf(&info, "Kigo-Source-Commit: %s\n", commit ? commit : "nogit");
    kg_buffer_printf(&info, "Kigo-State: %s\n", bag->job->partial ? "partial" : "complete");
    kg_buffer_printf(&info, "Kigo-Verdict: %s\n", bag->counts.verdict);
    kg_buffer_printf(&info, KG_FORMAT_LABEL ": %d\n", KG_FORMAT);
    enum kg_status status = kg_chain_previous(bag->job->root, bag->job->id, &previous, err);
    if (status == KG_OK) {
        char *link = kg_chain_text(&previous);
        kg_buffer_printf(&info, KG_CHAIN_LABEL ": %s\n", link);
        free(link);
    }
    if (bag->job->run && bag->job->run->sign_key) kg_buffer_puts(&info, KG_SIGNATURE_LABEL ": required\n");
    if (bag->job->run) {
        const struct kg_bundle *run = bag->job->run;
        const uint64_t now = kg_clock_monotonic_ns();
        const uint64_t wall_ns = now - run->begun_ns;
        const uint64_t in_calls_ns = run->spent_ns + now - run->entered_ns;
        const uint64_t spent_ns =
            run->in_cases_ns > 0 && run->in_cases_ns < wall_ns ? wall_ns - run->in_cases_ns : in_calls_ns;
        kg_buffer_printf(&info, "Kigo-Run-Ns: %llu\nKigo-Overhead-Ns: %llu\nKigo-Overhead-Share: %.6f\n",
                         (unsigned long long)wall_ns, (unsigned long long)spent_ns,
                         (double)spent_ns / (double)(wall_ns ? wall_ns : 1));
    }
    if (status == KG_OK) status = kg_bundle_put(bag->job->dir, "bag-info.txt", info.data, info.len, err);
    kg_buffer_free(&info);
    return status;
}

/* Hashes and syncs what wanted says and writes the manifest of it; its text is added to lines. */
static enum kg_status put_manifest(const char *dir, const char *file, bool (*wanted)(const char *path),
                                   struct kg_buffer *lines, struct kg_error *err) {
    struct kg_tree tree;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    if (status == KG_OK) status = kg_manifest_make(dir, &tree, wanted, lines, err);
    if (status == KG_OK) status = kg_manifest_sync(dir, &tree, wanted, err);
    if (status == KG_OK) status = kg_bundle_put(dir, file, kg_buffer_text(lines), lines->len, err);
    kg_tree_free(&tree);
    return status;
}

static enum kg_status put_statement(const struct bag *bag, const struct kg_buffer *manifest, struct kg_error *err) {
    struct kg_buffer text = KG_BUFFER_INIT;
    enum kg_status status = kg_derived_statement(&bag->exports, kg_buffer_text(manifest), manifest->len, &text, err);
    if (status == KG_OK) status = kg_bundle_put(bag->job->dir, "statement.intoto.json", text.data, text.len, err);
    kg_buffer_free(&text);
    return status;
}

static bool every_path(const char *path) {
    (void)path;
    return true;
}

static bool is_tag_manifest(const char *path) {
    return strcmp(path, "tagmanifest-sha256.txt") == 0;
}

static enum kg_status sync_tree(const char *dir, bool (*files)(const char *path), struct kg_error *err) {
    struct kg_tree tree;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    if (status == KG_OK) status = kg_manifest_sync(dir, &tree, files, err);
    for (size_t i = 0; i < tree.n_entries && status == KG_OK; i++) {
        if (tree.entries[i].kind != KG_TREE_DIR) continue;
        char *path = kg_path_join(dir, tree.entries[i].path);
        status = kg_dir_sync(path, err);
        free(path);
    }
    if (status == KG_OK) status = kg_dir_sync(dir, err);
    kg_tree_free(&tree);
    return status;
}

/* The tag manifest comes last: a bag that has it, and that it covers, is whole. */
static enum kg_status put_tags(const struct bag *bag, int *chain_fd, struct kg_error *err) {
    const char *dir = bag->job->dir;
    struct kg_chain_link own = { "", "" };
    struct kg_buffer payload = KG_BUFFER_INIT, tags = KG_BUFFER_INIT;
    struct kg_tree tree = { 0 };
    enum kg_status status = put_manifest(dir, "manifest-sha256.txt", kg_manifest_is_payload, &payload, err);
    if (status == KG_OK) status = put_statement(bag, &payload, err);
    if (status == KG_OK) status = kg_bundle_put(dir, "bagit.txt", KG_BAGIT_TXT, strlen(KG_BAGIT_TXT), err);
    if (status == KG_OK) status = kg_tree_list(dir, &tree, err);
    if (status == KG_OK) kg_chain_enter(bag->job->root, chain_fd);
    if (status == KG_OK) status = put_bag_info(bag, &tree, err);
    if (status == KG_OK) status = put_manifest(dir, "tagmanifest-sha256.txt", kg_manifest_is_tag, &tags, err);
    snprintf(own.id, sizeof own.id, "%s", bag->job->id);
    kg_sha256_hex(kg_buffer_text(&tags), tags.len, own.sha256);
    /* What manifests list is synced; left are the tag manifest and the folders. All of it is on the disk before .chain
     * names it: later runs name what .chain does, and a bundle that is made again has another hash. */
    if (status == KG_OK) status = sync_tree(dir, is_tag_manifest, err);
    if (status == KG_OK) status = kg_chain_advance(bag->job->root, &own, err);
    kg_buffer_free(&tags);
    kg_buffer_free(&payload);
    kg_tree_free(&tree);
    return status;
}

/* A death between making a folder and its first file leaves one that no manifest could list. From the last to the
 * first: what a folder holds comes after it. */
static enum kg_status remove_empty_folders(const char *dir, struct kg_error *err) {
    struct kg_tree tree;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    for (size_t i = tree.n_entries; i-- > 0 && status == KG_OK;) {
        if (tree.entries[i].kind != KG_TREE_DIR) continue;
        char *path = kg_path_join(dir, tree.entries[i].path);
        if (rmdir(path) != 0 && errno != ENOTEMPTY && errno != EEXIST)
            status = kg_fail(err, KG_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
        free(path);
    }
    kg_tree_free(&tree);
    return status;
}

enum kg_status kg_bag_sync(const char *dir, struct kg_error *err) {
    return sync_tree(dir, every_path, err);
}

enum kg_status kg_bag_finish(const struct kg_bag_job *job, struct kg_bundle_summary *summary, int *chain_fd,
                             struct kg_error *err) {
    struct bag bag = { .job = job };
    *chain_fd = -1;
    enum kg_status status = reload_filled(&bag, err);
    if (status == KG_OK) status = put_summary(&bag, err);
    if (status == KG_OK) status = put_exports(&bag, err);
    if (status == KG_OK && job->run && job->run->compress) status = kg_stored_compress(job->dir, err);
    if (status == KG_OK) status = remove_empty_folders(job->dir, err);
    if (status == KG_OK) status = put_tags(&bag, chain_fd, err);
    if (status == KG_OK) *summary = bag.counts;
    kg_derived_close(&bag.exports);
    kg_records_free(&bag.records);
    return status;
}

enum kg_status kg_bag_publish(const char *root, const char *id, struct kg_error *err) {
    char *from = kg_xasprintf("%s/.tmp-%s", root, id);
    char *to = kg_path_join(root, id);
    enum kg_status status = kg_path_rename_new(from, to, err);
    if (status == KG_OK) status = kg_dir_sync(root, err);
    free(to);
    free(from);
    return status;
}
