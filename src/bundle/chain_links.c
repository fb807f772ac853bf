#include "bundle/chain_links.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "bundle/beside.h"
#include "bundle/limits.h"
#include "bundle/manifest.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The labels of a bundle's bag-info.txt; an empty object where it cannot be read (verify says that). */
static json_t *read_info(const char *root, const char *id) {
    struct kg_bundle_findings unheard = { NULL, 0 };
    char *path = kg_path_join(id, "bag-info.txt"), *text = NULL;
    size_t size_bytes = 0;
    json_t *info = NULL;
    if (kg_beneath_read(root, path, KG_MAX_INFO_BYTES, &text, &size_bytes, NULL) == KG_OK)
        info = kg_bag_info_parse(text, size_bytes, &unheard);
    kg_bundle_findings_free(&unheard);
    free(text);
    free(path);
    return info;
}

/* False if a label is there and is no link. */
static bool take_label(struct kg_chain_node *node, const json_t *info, struct kg_bundle_findings *findings) {
    const char *text = kg_json_text(info, KG_CHAIN_LABEL);
    node->has_label = text && kg_chain_parse(text, &node->previous);
    if (text && !node->has_label && findings)
        kg_finding_add(findings, "format", node->id, "%s is '%.120s'", KG_CHAIN_LABEL, text);
    return !text || node->has_label;
}

static int by_id(const void *a, const void *b) {
    return strcmp(((const struct kg_chain_node *)a)->id, ((const struct kg_chain_node *)b)->id);
}

struct kg_chain_node *kg_chain_links_find(const struct kg_chain_links *links, const char *id) {
    const struct kg_chain_node key = { .id = (char *)(uintptr_t)id };
    return links->n_nodes ? bsearch(&key, links->nodes, links->n_nodes, sizeof key, by_id) : NULL;
}

static struct kg_chain_node *add_node(struct kg_chain_links *links, const char *id) {
    links->nodes = kg_xrealloc(links->nodes, (links->n_nodes + 1) * sizeof *links->nodes);
    struct kg_chain_node *node = &links->nodes[links->n_nodes++];
    *node = (struct kg_chain_node){ .id = kg_xstrdup(id) };
    return node;
}

static enum kg_status read_bundles(const char *root, struct kg_chain_links *links, struct kg_bundle_findings *findings,
                                   struct kg_error *err) {
    struct kg_dir_list ids = { 0 };
    const enum kg_status status = kg_root_list(root, &ids, err);
    for (size_t i = 0; i < ids.n_names && status == KG_OK; i++) {
        struct kg_chain_node *node = add_node(links, ids.names[i]);
        if (!kg_beneath_is_folder(root, node->id) && findings)
            kg_finding_add(findings, "format", node->id, "is no folder: a bundle is one, and no link to one");
        json_t *info = read_info(root, node->id);
        take_label(node, info, findings);
        if (kg_chain_hash_tags(root, node->id, node->sha256, NULL) != KG_OK) node->sha256[0] = '\0';
        node->ours = !kg_chain_is_imported(root, node->id);
        json_decref(info);
    }
    kg_dir_list_free(&ids);
    return status;
}

/* Whether the tag manifest's text has that hash and lists the other text as bag-info.txt. */
static bool copies_belong(const char *tags, const char *info, const char *sha256) {
    char hex[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(tags, strlen(tags), hex);
    if (strcmp(hex, sha256) != 0) return false;
    kg_sha256_hex(info, strlen(info), hex);
    char *line = kg_xasprintf("%s  bag-info.txt\n", hex);
    const char *at = strstr(tags, line);
    const bool listed = at && (at == tags || at[-1] == '\n');
    free(line);
    return listed;
}

/* A tombstone is the run it names as far as the chain goes: what it says of the run before it counts if the copies of
 * its tag manifest and bag-info.txt have the hash that its successor names. */
static void read_tombstone(const char *root, const char *id, struct kg_chain_links *links,
                           struct kg_bundle_findings *findings) {
    json_t *fact = kg_beside_read(root, KG_TOMBSTONES, id);
    const char *sha256 = kg_json_text(fact, "tagmanifest_sha256"), *tags = kg_json_text(fact, "tagmanifest"),
               *text = kg_json_text(fact, "bag_info");
    struct kg_chain_node *node = add_node(links, id);
    node->pruned = node->ours = true;
    if (sha256 && strlen(sha256) < sizeof node->sha256) memcpy(node->sha256, sha256, strlen(sha256) + 1);
    if (sha256 && tags && text && copies_belong(tags, text, sha256)) {
        struct kg_bundle_findings unheard = { NULL, 0 };
        json_t *info = kg_bag_info_parse(text, strlen(text), &unheard);
        take_label(node, info, findings);
        json_decref(info);
        kg_bundle_findings_free(&unheard);
    } else if ((tags || text) && findings) {
        kg_finding_add(findings, "tombstone", id, "its copies of tag manifest and bag-info.txt are not of %s",
                       sha256 ? sha256 : "any run");
    }
    json_decref(fact);
}

static void read_tombstones(const char *root, struct kg_chain_links *links, struct kg_bundle_findings *findings) {
    struct kg_dir_list list = { 0 };
    if (kg_beneath_list(root, KG_TOMBSTONES, &list, NULL) != KG_OK) list.n_names = 0;
    for (size_t i = 0; i < list.n_names; i++) {
        const size_t len = strlen(list.names[i]);
        if (len < 5 || strcmp(list.names[i] + len - 5, ".json") != 0) continue;
        list.names[i][len - 5] = '\0';
        char *folder = kg_path_join(root, list.names[i]);
        if (!kg_path_exists(folder)) read_tombstone(root, list.names[i], links, findings);
        free(folder);
    }
    kg_dir_list_free(&list);
}

/* A run that one of ours names is ours, and so are all that it leads to. */
static void claim(struct kg_chain_links *links, const struct kg_chain_link *link) {
    while (link->id[0]) {
        struct kg_chain_node *node = kg_chain_links_find(links, link->id);
        if (!node || node->ours) return;
        node->ours = true;
        link = &node->previous;
    }
}

enum kg_status kg_chain_links_read(const char *root, struct kg_chain_links *links, struct kg_bundle_findings *findings,
                                   struct kg_error *err) {
    *links = (struct kg_chain_links){ 0 };
    enum kg_status status = kg_beside_check(root, err);
    if (status == KG_OK) status = read_bundles(root, links, findings, err);
    if (status != KG_OK) return status;
    read_tombstones(root, links, findings);
    if (links->n_nodes) qsort(links->nodes, links->n_nodes, sizeof *links->nodes, by_id);
    char *head = kg_path_join(root, KG_CHAIN_HEAD);
    links->head_there = kg_path_exists(head);
    free(head);
    if (!kg_chain_read_head(root, &links->head)) links->head = (struct kg_chain_link){ "", "" };
    for (size_t i = 0; i < links->n_nodes; i++)
        if (links->nodes[i].ours) claim(links, &links->nodes[i].previous);
    claim(links, &links->head);
    for (size_t i = 0; i < links->n_nodes; i++) {
        struct kg_chain_node *named = kg_chain_links_find(links, links->nodes[i].previous.id);
        if (named && links->nodes[i].ours) named->followed = true;
    }
    return KG_OK;
}

void kg_chain_links_free(struct kg_chain_links *links) {
    for (size_t i = 0; i < links->n_nodes; i++) free(links->nodes[i].id);
    free(links->nodes);
    *links = (struct kg_chain_links){ 0 };
}

size_t kg_chain_links_count(const struct kg_chain_links *links, const struct kg_chain_node *node) {
    size_t n = 0;
    while (node && n <= links->n_nodes) { /* a circle of links is no chain of hashes, and ends here */
        n++;
        if (!node->previous.id[0]) return n;
        node = kg_chain_links_find(links, node->previous.id);
    }
    return n + 1;
}

bool kg_chain_read_link(const char *root, const char *id, struct kg_chain_link *link) {
    json_t *info = read_info(root, id);
    const char *text = kg_json_text(info, KG_CHAIN_LABEL);
    const bool good = text && kg_chain_parse(text, link);
    json_decref(info);
    return good;
}

enum kg_status kg_chain_foreign(const char *root, struct kg_dir_list *ids, struct kg_error *err) {
    struct kg_chain_links links = { 0 };
    int fd = -1;
    *ids = (struct kg_dir_list){ NULL, 0 };
    enum kg_status status = kg_beneath_open_folder(root, KG_IMPORTS, &fd, err);
    if (fd >= 0) close(fd);
    if (status == KG_OK) status = kg_chain_links_read(root, &links, NULL, err);
    else if (status == KG_ERR_NOT_FOUND) status = KG_OK; /* none came */
    for (size_t i = 0; i < links.n_nodes; i++) {
        if (links.nodes[i].ours) continue;
        ids->names = kg_xrealloc(ids->names, (ids->n_names + 1) * sizeof *ids->names);
        ids->names[ids->n_names++] = kg_xstrdup(links.nodes[i].id);
    }
    kg_chain_links_free(&links);
    return status;
}
