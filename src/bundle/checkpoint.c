#include "bundle/checkpoint.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "bundle/chain_links.h"
#include "bundle/records.h"
#include "bundle/standing.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_head(const struct kg_chain_node *node) {
    return node->ours && !node->followed;
}

static size_t count_runs(const struct kg_chain_links *links) {
    size_t n = 0;
    for (size_t i = 0; i < links->n_nodes; i++)
        if (is_head(&links->nodes[i])) n += kg_chain_links_count(links, &links->nodes[i]);
    return n;
}

enum kg_status kg_checkpoint_make(const char *root, int64_t now_us, json_t **checkpoint, struct kg_error *err) {
    struct kg_chain_links links;
    char utc[KG_UTC_TEXT_SIZE];
    const enum kg_status status = kg_chain_links_read(root, &links, NULL, err);
    if (status != KG_OK) return kg_chain_links_free(&links), status;
    json_t *heads = json_array();
    for (size_t i = 0; i < links.n_nodes; i++) {
        const struct kg_chain_node *node = &links.nodes[i];
        if (!is_head(node)) continue;
        json_array_append_new(heads, json_pack("{s:s, s:s, s:I}", "bundle_id", node->id, "tagmanifest_sha256",
                                               node->sha256, "n_runs", (json_int_t)kg_chain_links_count(&links, node)));
    }
    kg_clock_utc_text(now_us, utc);
    *checkpoint = json_pack("{s:i, s:s, s:I, s:o}", "kigo_checkpoint", 1, "utc", utc, "n_runs",
                            (json_int_t)count_runs(&links), "heads", heads);
    kg_chain_links_free(&links);
    return KG_OK;
}

static void compare_head(const struct kg_chain_links *links, const json_t *head, struct kg_bundle_findings *findings) {
    const char *id = kg_json_text(head, "bundle_id"), *sha256 = kg_json_text(head, "tagmanifest_sha256");
    const int64_t n_then = kg_json_int(head, "n_runs", -1);
    const struct kg_chain_node *node = id ? kg_chain_links_find(links, id) : NULL;
    if (!id || !sha256 || n_then < 1) {
        kg_finding_add(findings, "format", id ? id : "",
                       "a head of the checkpoint lacks its id, hash or number of runs");
    } else if (!node || !node->ours) {
        kg_finding_add(findings, "removed", id, "was a head at the checkpoint, the last of %lld runs, and is not here",
                       (long long)n_then);
    } else if (strcmp(node->sha256, sha256) != 0) {
        kg_finding_add(findings, "replaced", id, "had tag manifest %s at the checkpoint; the one here has %s", sha256,
                       node->sha256);
    } else {
        const int64_t n = (int64_t)kg_chain_links_count(links, node);
        if (n != n_then)
            kg_finding_add(findings, n < n_then ? "removed" : "added", id,
                           "%lld runs lead to it, %lld did at the checkpoint", (long long)n, (long long)n_then);
    }
}

/* "2026-11-23T03:41:50..." in the order of time is the order of texts. */
static bool is_after(const char *utc, int64_t now_us) {
    char latest[KG_UTC_TEXT_SIZE];
    kg_clock_utc_text(now_us + (int64_t)KG_TIME_SLACK_S * 1000000, latest);
    return strcmp(utc, latest) > 0;
}

static enum kg_status check_form(const json_t *checkpoint, const char *path, struct kg_error *err) {
    if (kg_json_int(checkpoint, "kigo_checkpoint", 0) != 1 || !kg_json_text(checkpoint, "utc") ||
        !json_is_array(json_object_get(checkpoint, "heads")))
        return kg_fail(err, KG_ERR_FORMAT, "%s is no checkpoint ('kigo checkpoint' writes one)", path);
    const int64_t n_runs = kg_json_int(checkpoint, "n_runs", -1);
    if (n_runs < 0)
        return kg_fail(err, KG_ERR_FORMAT, "%s is no checkpoint: \"n_runs\" is no number of 0 or more", path);
    const json_t *head;
    size_t i;
    int64_t left = n_runs; /* a head that was taken out of the file would not be missed */
    json_array_foreach(json_object_get(checkpoint, "heads"), i, head) {
        const int64_t n = kg_json_int(head, "n_runs", 0);
        if (n > 0 && left >= 0) left = n <= left ? left - n : -1;
    }
    if (left != 0)
        return kg_fail(err, KG_ERR_FORMAT, "%s is no checkpoint: \"n_runs\" is %" PRId64 ", and its heads' are not",
                       path, n_runs);
    return KG_OK;
}

enum kg_status kg_checkpoint_compare(const char *root, const char *path, int64_t now_us, int64_t *n_runs,
                                     struct kg_bundle_findings *findings, struct kg_error *err) {
    struct kg_chain_links links = { 0 };
    json_t *then = NULL;
    const json_t *head;
    size_t i;
    enum kg_status status = kg_json_read_named(path, &then, err);
    if (status != KG_OK) return status;
    status = check_form(then, path, err);
    if (status == KG_OK) status = kg_chain_links_read(root, &links, NULL, err);
    if (status == KG_OK) {
        const char *utc = kg_json_text(then, "utc");
        if (is_after(utc, now_us))
            kg_finding_add(findings, "time", path, "is of %s, which is after the present time", utc);
        json_array_foreach(json_object_get(then, "heads"), i, head) compare_head(&links, head, findings);
        *n_runs = (int64_t)count_runs(&links) - kg_json_int(then, "n_runs", -1);
    }
    kg_chain_links_free(&links);
    json_decref(then);
    return status;
}
