#include "suites/integration/crash_disk.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096 };

struct entry {
    char *name;
    size_t node;
};
struct node {
    bool is_dir;
    struct entry *entries; /* sorted by name */
    size_t n_entries;
    char *bytes;
    size_t n_bytes;
};
struct kg_disk_image {
    struct node *nodes;
    size_t n_nodes;
};

static bool is_name(const struct kg_disk_op *op) {
    return op->kind <= KG_DISK_RENAME;
}

static bool is_bytes(const struct kg_disk_op *op) {
    return op->kind == KG_DISK_WRITE || op->kind == KG_DISK_CUT;
}

static bool synced_later(const struct kg_disk_log *log, size_t n, size_t from, size_t node) {
    for (size_t i = from + 1; i < n; i++)
        if (log->ops[i].kind == KG_DISK_SYNC && log->ops[i].node == node) return true;
    return false;
}

bool kg_disk_op_is_open(const struct kg_disk_log *log, size_t n, size_t at) {
    const struct kg_disk_op *op = &log->ops[at];
    if (at < log->n_before) return false;
    if (is_bytes(op)) return !synced_later(log, n, at, op->node);
    if (!is_name(op) || op->dir == KG_NO_NODE) return false;
    return !synced_later(log, n, at, op->kind == KG_DISK_RENAME ? op->to_dir : op->dir);
}

static struct entry *find(const struct node *dir, const char *name) {
    for (size_t i = 0; i < dir->n_entries; i++)
        if (strcmp(dir->entries[i].name, name) == 0) return &dir->entries[i];
    return NULL;
}

static void put_entry(struct node *dir, const char *name, size_t node) {
    struct entry *there = find(dir, name);
    if (there) {
        there->node = node;
        return;
    }
    dir->entries = kg_xrealloc(dir->entries, (dir->n_entries + 1) * sizeof *dir->entries);
    size_t at = dir->n_entries++;
    for (; at > 0 && strcmp(dir->entries[at - 1].name, name) > 0; at--) dir->entries[at] = dir->entries[at - 1];
    dir->entries[at] = (struct entry){ kg_xstrdup(name), node };
}

/* A name that was lost before leads to another node, or is not there. */
static void take_entry(struct node *dir, const char *name, size_t node) {
    struct entry *there = find(dir, name);
    if (!there || there->node != node) return;
    free(there->name);
    const size_t at = (size_t)(there - dir->entries);
    memmove(there, there + 1, (--dir->n_entries - at) * sizeof *there);
}

static void apply_name(struct kg_disk_image *image, const struct kg_disk_op *op) {
    if (op->dir == KG_NO_NODE) return;
    struct node *dir = &image->nodes[op->dir];
    if (op->kind == KG_DISK_UNLINK || op->kind == KG_DISK_RENAME) take_entry(dir, op->name, op->node);
    if (op->kind == KG_DISK_RENAME) put_entry(&image->nodes[op->to_dir], op->to_name, op->node);
    else if (op->kind != KG_DISK_UNLINK) put_entry(dir, op->name, op->node);
}

static void resize(struct node *file, size_t n_bytes) {
    file->bytes = kg_xrealloc(file->bytes, n_bytes + 1);
    if (n_bytes > file->n_bytes) memset(file->bytes + file->n_bytes, 0, n_bytes - file->n_bytes);
    file->n_bytes = n_bytes;
}

/* Page by page: what of a write came to the disk. The size follows. */
static void write_part(struct node *file, const struct kg_disk_op *op, enum kg_disk_part part) {
    const size_t end = (size_t)op->at + op->n_bytes, from = file->n_bytes;
    if (part == KG_DISK_ZEROS) {
        if (end > from) resize(file, end);
        return;
    }
    for (size_t at = (size_t)op->at; at < end;) {
        size_t to = (at / PAGE + 1) * PAGE;
        const bool whole_page = to <= end;
        if (to > end) to = end;
        const bool kept = part == KG_DISK_ALL || (part == KG_DISK_PAGES && whole_page);
        if (kept) {
            if (to > file->n_bytes) resize(file, to);
            memcpy(file->bytes + at, op->bytes + (at - op->at), to - at);
        }
        at = to;
    }
}

static void apply_bytes(struct kg_disk_image *image, const struct kg_disk_op *op, enum kg_disk_part part) {
    struct node *file = &image->nodes[op->node];
    if (part == KG_DISK_NONE) return;
    if (op->kind == KG_DISK_WRITE) write_part(file, op, part);
    else resize(file, (size_t)op->at);
}

/* What of an op that is not synced came to the disk. A file's bytes come in the order in which they were written, up to
 * one of the writes: a page is written whole, with all that came before. */
static enum kg_disk_part part_of(const struct kg_disk_log *log, size_t at, const struct kg_disk_choice *choice,
                                 bool *cut, struct kg_rng *rng) {
    const struct kg_disk_op *op = &log->ops[at];
    const enum kg_disk_part part = is_name(op) ? choice->names : choice->bytes;
    const size_t other = choice->other;
    if (is_name(op) && part == KG_DISK_RANDOM) return kg_rng_below(rng, 2) ? KG_DISK_ALL : KG_DISK_NONE;
    if (is_name(op)) return at != other ? part : part == KG_DISK_ALL ? KG_DISK_NONE : KG_DISK_ALL;
    if (part == KG_DISK_RANDOM) {
        cut[op->node] = cut[op->node] || kg_rng_below(rng, 3) == 0;
        return cut[op->node] ? KG_DISK_NONE : KG_DISK_ALL;
    }
    const bool same = other != KG_NO_NODE && is_bytes(&log->ops[other]) && log->ops[other].node == op->node;
    if (!same) return part;
    return part == KG_DISK_ALL ? (at < other ? KG_DISK_ALL : KG_DISK_NONE) : at <= other ? KG_DISK_ALL : KG_DISK_NONE;
}

struct kg_disk_image *kg_disk_image_make(const struct kg_disk_log *log, size_t n, const struct kg_disk_choice *choice) {
    struct kg_disk_image *image = kg_xcalloc(1, sizeof *image);
    bool *cut = kg_xcalloc(log->n_nodes, sizeof *cut); /* nothing that was written later came to the disk */
    struct kg_rng rng;
    image->n_nodes = log->n_nodes;
    image->nodes = kg_xcalloc(log->n_nodes, sizeof *image->nodes);
    kg_rng_init(&rng, choice->seed, n);
    for (size_t i = 0; i < log->n_nodes; i++) image->nodes[i].is_dir = log->nodes[i].is_dir;
    for (size_t i = 0; i < n; i++) {
        const struct kg_disk_op *op = &log->ops[i];
        if (!is_name(op) && !is_bytes(op)) continue;
        const enum kg_disk_part part = kg_disk_op_is_open(log, n, i) ? part_of(log, i, choice, cut, &rng) : KG_DISK_ALL;
        if (is_bytes(op)) apply_bytes(image, op, part);
        else if (part == KG_DISK_ALL) apply_name(image, op);
    }
    free(cut);
    return image;
}

void kg_disk_image_free(struct kg_disk_image *image) {
    for (size_t i = 0; i < image->n_nodes; i++) {
        struct node *node = &image->nodes[i];
        for (size_t k = 0; k < node->n_entries; k++) free(node->entries[k].name);
        free(node->entries);
        free(node->bytes);
    }
    free(image->nodes);
    free(image);
}

/* Calls `each` for every path, folders before what is in them. */
static void traverse(const struct kg_disk_image *image, size_t dir, const char *above,
                     void (*each)(void *arg, const char *path, const struct node *node), void *arg) {
    for (size_t i = 0; i < image->nodes[dir].n_entries; i++) {
        const struct entry *entry = &image->nodes[dir].entries[i];
        const struct node *node = &image->nodes[entry->node];
        char *path = *above ? kg_xasprintf("%s/%s", above, entry->name) : kg_xstrdup(entry->name);
        each(arg, path, node);
        if (node->is_dir) traverse(image, entry->node, path, each, arg);
        free(path);
    }
}

static void hash_one(void *arg, const char *path, const struct node *node) {
    const uint64_t head[] = { strlen(path), node->is_dir, node->n_bytes };
    kg_sha256_update(arg, head, sizeof head);
    kg_sha256_update(arg, path, strlen(path));
    kg_sha256_update(arg, node->bytes, node->n_bytes);
}

void kg_disk_image_hash(const struct kg_disk_image *image, char hex[KG_SHA256_HEX_SIZE]) {
    struct kg_sha256 *h = kg_sha256_new();
    traverse(image, 0, "", hash_one, h);
    kg_sha256_finish(h, hex);
}

static void write_one(void *arg, const char *path, const struct node *node) {
    char *full = kg_path_join(arg, path);
    if (node->is_dir) {
        ck_assert_msg(mkdir(full, 0755) == 0, "cannot make %s", full);
    } else {
        struct kg_error err;
        const int fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        ck_assert_msg(fd >= 0, "cannot make %s", full);
        EXPECT_OK(kg_fd_write(fd, node->bytes, node->n_bytes, &err), err);
        close(fd);
    }
    free(full);
}

void kg_disk_image_write(const struct kg_disk_image *image, const char *dir) {
    ck_assert_msg(mkdir(dir, 0755) == 0, "cannot make %s", dir);
    traverse(image, 0, "", write_one, (void *)(uintptr_t)dir);
}

struct gathering {
    const char *pattern;
    struct kg_buffer text;
};

static void gather_one(void *arg, const char *path, const struct node *node) {
    struct gathering *g = arg;
    if (!node->is_dir && fnmatch(g->pattern, path, FNM_PATHNAME) == 0)
        kg_buffer_append(&g->text, node->bytes ? node->bytes : "", node->n_bytes);
}

char *kg_disk_image_text(const struct kg_disk_image *image, const char *pattern) {
    struct gathering g = { pattern, KG_BUFFER_INIT };
    traverse(image, 0, "", gather_one, &g);
    return g.text.data ? g.text.data : kg_xstrdup("");
}
