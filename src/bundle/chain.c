#include "bundle/chain.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "bundle/beside.h"
#include "bundle/internal.h"
#include "bundle/left_out.h"
#include "bundle/manifest.h"
#include "bundle/records.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static const char HEAD[] = ".chain";

bool kg_chain_parse(const char *text, struct kg_chain_link *link) {
    enum { HEX = KG_SHA256_HEX_SIZE - 1 };
    *link = (struct kg_chain_link){ "", "" };
    if (strcmp(text, "none") == 0) return true;
    const size_t id_len = strcspn(text, " ");
    int64_t started_us;
    if (id_len >= sizeof link->id || text[id_len] != ' ') return false;
    struct kg_chain_link read = { "", "" };
    memcpy(read.id, text, id_len);
    const char *hex = text + id_len + 1;
    if (!kg_bundle_id_parse(read.id, &started_us) || strchr(read.id, '/')) return false;
    if (strlen(hex) != HEX || strspn(hex, "0123456789abcdef") != HEX) return false;
    memcpy(read.sha256, hex, sizeof read.sha256);
    *link = read;
    return true;
}

char *kg_chain_text(const struct kg_chain_link *link) {
    return link->id[0] ? kg_xasprintf("%s %s", link->id, link->sha256) : kg_xstrdup("none");
}

void kg_chain_enter(const char *root, int *fd) {
    enum { PATIENCE_MS = 10000, PAUSE_MS = 5 };
    const struct timespec pause = { 0, PAUSE_MS * 1000000L };
    *fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int waited_ms = 0; *fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) != 0; waited_ms += PAUSE_MS) {
        if (errno == EWOULDBLOCK && waited_ms < PATIENCE_MS) {
            nanosleep(&pause, NULL);
            continue;
        }
        close(*fd);
        *fd = -1;
    }
}

void kg_chain_leave(int fd) {
    if (fd >= 0) close(fd);
}

/* The last link as it was kept; false where there is none or it makes no sense. */
static bool read_head(const char *root, struct kg_chain_link *link) {
    char *path = kg_path_join(root, HEAD), *text = NULL;
    size_t size_bytes = 0;
    bool good = kg_path_exists(path) && kg_file_read(path, &text, &size_bytes, NULL) == KG_OK;
    if (good && size_bytes > 0 && text[size_bytes - 1] == '\n') text[size_bytes - 1] = '\0';
    good = good && kg_chain_parse(text, link) && link->id[0];
    free(text);
    free(path);
    return good;
}

static enum kg_status hash_tags(const char *root, const char *id, char sha256[KG_SHA256_HEX_SIZE],
                                struct kg_error *err) {
    char *path = kg_xasprintf("%s/%s/tagmanifest-sha256.txt", root, id);
    const enum kg_status status = kg_sha256_file(path, sha256, err);
    free(path);
    return status;
}

static bool is_imported(const char *root, const char *id) {
    json_t *fact = kg_beside_read(root, KG_IMPORTS, id);
    const bool there = fact != NULL;
    json_decref(fact);
    return there;
}

/* The bundle of this root that was sealed last; one that cannot be read is no link. */
static enum kg_status find_last(const char *root, const char *without, struct kg_chain_link *last,
                                struct kg_error *err) {
    struct kg_dir_list ids = { 0 };
    int64_t last_us = -1;
    *last = (struct kg_chain_link){ "", "" };
    const enum kg_status status = kg_root_list(root, &ids, err);
    for (size_t i = 0; i < ids.n_names && status == KG_OK; i++) {
        char *dir = kg_path_join(root, ids.names[i]);
        json_t *summary = NULL;
        int64_t sealed_us = -1;
        if (strcmp(ids.names[i], without) != 0 && !is_imported(root, ids.names[i]) &&
            kg_bundle_read_json(dir, "data/summary.json", &summary, NULL) == KG_OK)
            sealed_us = kg_json_int(summary, "sealed_us", -1);
        json_decref(summary);
        free(dir);
        char sha256[KG_SHA256_HEX_SIZE];
        if (sealed_us <= last_us || hash_tags(root, ids.names[i], sha256, NULL) != KG_OK) continue;
        last_us = sealed_us;
        snprintf(last->id, sizeof last->id, "%s", ids.names[i]);
        memcpy(last->sha256, sha256, sizeof sha256);
    }
    kg_dir_list_free(&ids);
    return status;
}

enum kg_status kg_chain_previous(const char *root, const char *id, struct kg_chain_link *previous,
                                 struct kg_error *err) {
    if (read_head(root, previous) && strcmp(previous->id, id) != 0) return KG_OK;
    return find_last(root, id, previous, err);
}

enum kg_status kg_chain_advance(const char *root, const struct kg_chain_link *last, struct kg_error *err) {
    char *path = kg_path_join(root, HEAD), *text = kg_chain_text(last);
    const size_t len = strlen(text);
    text[len] = '\n'; /* in the place of the NUL */
    const enum kg_status status = kg_file_write(path, text, len + 1, err);
    free(text);
    free(path);
    return status;
}

/* A chain that is followed. */
struct following {
    const char *root;
    struct kg_left_out left_out;
    struct kg_chain_report *report;
    struct kg_bundle_findings *findings;
};

/* A link's bundle, in the root, in the making, pruned, or left out; what is wrong with it is a finding of `from`. */
static bool check_link(struct following *f, const char *from, const struct kg_chain_link *link) {
    const char *root = f->root;
    struct kg_bundle_findings *findings = f->findings;
    const struct kg_chain_link *left_out = kg_left_out_find(&f->left_out, link->id);
    char sha256[KG_SHA256_HEX_SIZE];
    char *unfinished = kg_xasprintf("%s/.tmp-%s", root, link->id), *dir = kg_path_join(root, link->id);
    json_t *tombstone = kg_beside_read(root, KG_TOMBSTONES, link->id);
    const char *buried = kg_json_text(tombstone, "tagmanifest_sha256");
    const size_t n_before = findings->n_items;
    if (kg_path_is_dir(dir)) {
        if (hash_tags(root, link->id, sha256, NULL) != KG_OK)
            kg_finding_add(findings, "replaced", from, "names %s, whose tag manifest cannot be read", link->id);
        else if (strcmp(sha256, link->sha256) != 0)
            kg_finding_add(findings, "replaced", from, "names %s with tag manifest %s; the one here is %s", link->id,
                           link->sha256, sha256);
    } else if (tombstone) {
        if (!buried || strcmp(buried, link->sha256) != 0)
            kg_finding_add(findings, "replaced", from, "names %s with tag manifest %s; the one pruned was %s", link->id,
                           link->sha256, buried ? buried : "not recorded");
    } else if (left_out) {
        if (strcmp(left_out->sha256, link->sha256) != 0)
            kg_finding_add(findings, "replaced", from,
                           "names %s with tag manifest %s; the one in " KG_LEFT_OUT " had %s", link->id, link->sha256,
                           left_out->sha256);
        f->report->n_left_out += findings->n_items == n_before;
    } else if (!kg_path_is_dir(unfinished)) {
        kg_finding_add(findings, "removed", from,
                       "names %s %s, which is not here, was not pruned and is not in " KG_LEFT_OUT, link->id,
                       link->sha256);
    }
    json_decref(tombstone);
    free(dir);
    free(unfinished);
    return findings->n_items == n_before;
}

/* The labels of a bundle's bag-info.txt; an empty object where it cannot be read (verify says that). */
static json_t *read_info(const char *root, const char *id) {
    struct kg_bundle_findings unheard = { NULL, 0 };
    char *path = kg_xasprintf("%s/%s/bag-info.txt", root, id), *text = NULL;
    size_t size_bytes = 0;
    json_t *info = NULL;
    if (kg_file_read(path, &text, &size_bytes, NULL) == KG_OK) info = kg_bag_info_parse(text, size_bytes, &unheard);
    kg_bundle_findings_free(&unheard);
    free(text);
    free(path);
    return info;
}

/* What was imported is named by no chain of this root; that it came is kept, so its removal shows too. */
static void check_imports(struct following *f) {
    const char *root = f->root;
    char *dir = kg_path_join(root, KG_IMPORTS);
    struct kg_dir_list list = { 0 };
    if (kg_dir_list(dir, &list, NULL) != KG_OK) list.n_names = 0;
    for (size_t i = 0; i < list.n_names; i++) {
        const size_t len = strlen(list.names[i]);
        if (len < 5 || strcmp(list.names[i] + len - 5, ".json") != 0) continue;
        list.names[i][len - 5] = '\0';
        json_t *fact = kg_beside_read(root, KG_IMPORTS, list.names[i]);
        struct kg_chain_link link = { "", "" };
        const char *sha256 = kg_json_text(fact, "tagmanifest_sha256");
        snprintf(link.id, sizeof link.id, "%s", list.names[i]);
        snprintf(link.sha256, sizeof link.sha256, "%s", sha256 ? sha256 : "");
        check_link(f, KG_IMPORTS, &link);
        json_decref(fact);
    }
    kg_dir_list_free(&list);
    free(dir);
}

/* The links of a root's bundles, and which of them are this root's: all but those of imported bundles that no such link
 * names. (A bundle that is exported, lost and imported again is a part of the chain as before; and whoever calls a
 * bundle imported that another names hides nothing by it.) */
struct links {
    struct kg_dir_list ids;
    struct kg_chain_link *links; /* of each bundle; id "" where it has none */
    bool *ours;
    struct kg_chain_link head;
};

static void read_links(const char *root, struct links *l, struct kg_bundle_findings *findings) {
    const size_t n = l->ids.n_names;
    l->links = kg_xcalloc(n + 1, sizeof *l->links);
    l->ours = kg_xcalloc(n + 1, sizeof *l->ours);
    for (size_t i = 0; i < n; i++) {
        json_t *info = read_info(root, l->ids.names[i]);
        const char *text = kg_json_text(info, KG_CHAIN_LABEL);
        if (text && !kg_chain_parse(text, &l->links[i]))
            kg_finding_add(findings, "format", l->ids.names[i], "%s is '%.120s'", KG_CHAIN_LABEL, text);
        l->ours[i] = !is_imported(root, l->ids.names[i]);
        json_decref(info);
    }
    if (!read_head(root, &l->head)) l->head = (struct kg_chain_link){ "", "" };
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A bundle that one of ours names is ours, and so are all that it leads to. */
static void claim(struct links *l, const struct kg_chain_link *link) {
    while (link->id[0]) {
        const char *id = link->id;
        char **found = bsearch(&id, l->ids.names, l->ids.n_names, sizeof *l->ids.names, by_name);
        if (!found || l->ours[found - l->ids.names]) return;
        l->ours[found - l->ids.names] = true;
        link = &l->links[found - l->ids.names];
    }
}

enum kg_status kg_chain_verify(const char *root, struct kg_chain_report *report, struct kg_bundle_findings *findings,
                               struct kg_error *err) {
    struct links l = { 0 };
    struct following f = { .root = root, .report = report, .findings = findings };
    size_t n = 0;
    *report = (struct kg_chain_report){ 0, 0 };
    enum kg_status status = kg_left_out_read(root, &f.left_out, findings, err);
    if (status == KG_OK) status = kg_root_list(root, &l.ids, err);
    if (status != KG_OK) return kg_left_out_free(&f.left_out), status;
    read_links(root, &l, findings);
    for (size_t i = 0; i < l.ids.n_names; i++)
        if (l.ours[i]) claim(&l, &l.links[i]);
    claim(&l, &l.head);
    for (size_t i = 0; i < l.ids.n_names; i++)
        if (l.ours[i] && l.links[i].id[0]) n += check_link(&f, l.ids.names[i], &l.links[i]);
    if (l.head.id[0]) n += check_link(&f, HEAD, &l.head);
    report->n_links = n - report->n_left_out;
    check_imports(&f);
    kg_left_out_free(&f.left_out);
    free(l.links);
    free(l.ours);
    kg_dir_list_free(&l.ids);
    return KG_OK;
}
