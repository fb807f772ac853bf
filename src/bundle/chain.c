#include "bundle/chain_links.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/io_errors.h"
#include "bundle/beside.h"
#include "bundle/internal.h"
#include "bundle/limits.h"
#include "bundle/records.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

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

/* Whether reading failed for what is not there or is no such thing; one that could not be read may be either. */
static bool is_none(enum kg_status status) {
    return status == KG_ERR_NOT_FOUND || status == KG_ERR_FORMAT;
}

/* *good: .chain is there, and names a run. */
static enum kg_status read_head(const char *root, struct kg_chain_link *link, bool *good, struct kg_error *err) {
    char *text = NULL;
    size_t size_bytes = 0;
    const enum kg_status status = kg_beneath_read(root, KG_CHAIN_HEAD, KG_MAX_HEAD_BYTES, &text, &size_bytes, err);
    if (status == KG_OK && size_bytes > 0 && text[size_bytes - 1] == '\n') text[size_bytes - 1] = '\0';
    *good = status == KG_OK && kg_chain_parse(text, link) && link->id[0];
    free(text);
    return is_none(status) ? KG_OK : status;
}

bool kg_chain_read_head(const char *root, struct kg_chain_link *link) {
    bool good;
    return read_head(root, link, &good, NULL) == KG_OK && good;
}

enum kg_status kg_chain_hash_tags(const char *root, const char *id, char sha256[KG_SHA256_HEX_SIZE],
                                  struct kg_error *err) {
    char *path = kg_path_join(id, "tagmanifest-sha256.txt");
    const enum kg_status status = kg_beneath_hash(root, path, sha256, err);
    free(path);
    return status;
}

bool kg_chain_is_imported(const char *root, const char *id) {
    char *note = kg_xasprintf(KG_IMPORTS "/%s.json", id);
    char *under_way =
        kg_xasprintf(KG_IMPORTS "/" KG_IMPORT_UNDER_WAY "%s.json", id); /* the import died once the bundle was here */
    const bool there =
        kg_beneath_is_folder(root, KG_IMPORTS) && (kg_beneath_check(root, note, NULL) != KG_ERR_NOT_FOUND ||
                                                   kg_beneath_check(root, under_way, NULL) != KG_ERR_NOT_FOUND);
    free(under_way);
    free(note);
    return there;
}

/* When a run of this root was sealed: -1 where it does not say, or came from another root. */
static enum kg_status sealed_here_us(const char *root, const char *id, int64_t *us, struct kg_error *err) {
    json_t *summary = NULL;
    *us = -1;
    if (kg_chain_is_imported(root, id)) return KG_OK;
    const enum kg_status status = kg_root_read_json(root, id, "data/summary.json", &summary, err);
    if (status == KG_OK) *us = kg_json_int(summary, "sealed_us", -1);
    json_decref(summary);
    return is_none(status) ? KG_OK : status;
}

/* The bundle of this root that was sealed last; a damaged one is no link, one that cannot be read might be the last. */
static enum kg_status find_last(const char *root, const char *without, struct kg_chain_link *last,
                                struct kg_error *err) {
    struct kg_dir_list ids = { 0 };
    int64_t last_us = -1;
    *last = (struct kg_chain_link){ "", "" };
    enum kg_status status = kg_root_list(root, &ids, err);
    for (size_t i = 0; i < ids.n_names && status == KG_OK; i++) {
        int64_t sealed_us = -1;
        if (strcmp(ids.names[i], without) != 0) status = sealed_here_us(root, ids.names[i], &sealed_us, err);
        char sha256[KG_SHA256_HEX_SIZE];
        if (status != KG_OK || sealed_us <= last_us) continue;
        const enum kg_status hashed = kg_chain_hash_tags(root, ids.names[i], sha256, err);
        if (hashed != KG_OK) {
            if (!is_none(hashed)) status = hashed;
            continue;
        }
        last_us = sealed_us;
        snprintf(last->id, sizeof last->id, "%s", ids.names[i]);
        memcpy(last->sha256, sha256, sizeof sha256);
    }
    kg_dir_list_free(&ids);
    return status;
}

enum kg_status kg_chain_previous(const char *root, const char *id, struct kg_chain_link *previous,
                                 struct kg_error *err) {
    bool good;
    const enum kg_status status = read_head(root, previous, &good, err);
    if (status != KG_OK || (good && strcmp(previous->id, id) != 0)) return status;
    return find_last(root, id, previous, err);
}

enum kg_status kg_chain_advance(const char *root, const struct kg_chain_link *last, struct kg_error *err) {
    char *text = kg_chain_text(last);
    const size_t len = strlen(text);
    text[len] = '\n'; /* in the place of the NUL */
    const enum kg_status status = kg_beneath_write(root, KG_CHAIN_HEAD, text, len + 1, err);
    free(text);
    return status;
}

/* Whether the chain leads to the run: its head, or a run that is here, was pruned, or is not published yet names it. */
static enum kg_status is_named(const char *root, const char *id, bool *named, struct kg_error *err) {
    struct kg_chain_links links = { 0 };
    struct kg_dir_list list = { 0 };
    const unsigned n_before = kg_io_errors_count();
    enum kg_status status = kg_chain_links_read(root, &links, NULL, err);
    *named = strcmp(links.head.id, id) == 0;
    for (size_t i = 0; i < links.n_nodes; i++) *named = *named || strcmp(links.nodes[i].previous.id, id) == 0;
    if (status == KG_OK) status = kg_dir_list(root, &list, err);
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        struct kg_chain_link link;
        if (strncmp(list.names[i], ".tmp-", 5) == 0 && kg_chain_read_link(root, list.names[i], &link))
            *named = *named || strcmp(link.id, id) == 0;
    }
    kg_dir_list_free(&list);
    kg_chain_links_free(&links);
    if (status == KG_OK && !*named && kg_io_errors_count() != n_before) /* what was not read may have named it */
        status = kg_fail(err, KG_ERR_IO, "not all of the chain in %s could be read: %s", root, kg_io_error_noted());
    return status;
}

enum kg_status kg_chain_join(const char *root, const char *id, bool *joined, struct kg_error *err) {
    struct kg_chain_link own = { "", "" }, last, previous;
    char *folder = kg_xasprintf(".tmp-%s", id);
    enum kg_status status = is_named(root, id, joined, err);
    if (status == KG_OK && !*joined) {
        status = kg_chain_previous(root, id, &last, err);
        *joined = status == KG_OK && kg_chain_read_link(root, folder, &previous) && strcmp(previous.id, last.id) == 0 &&
                  strcmp(previous.sha256, last.sha256) == 0;
        snprintf(own.id, sizeof own.id, "%s", id);
        if (*joined) status = kg_chain_hash_tags(root, folder, own.sha256, err);
        if (*joined && status == KG_OK) status = kg_chain_advance(root, &own, err);
    }
    free(folder);
    return status;
}
