#include "bundle/tree.h"
#include "base/buffer.h"
#include "base/file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 };

static enum kg_tree_kind kind_of(mode_t mode) {
    return S_ISREG(mode) ? KG_TREE_FILE : S_ISDIR(mode) ? KG_TREE_DIR : S_ISLNK(mode) ? KG_TREE_LINK : KG_TREE_OTHER;
}

static struct kg_tree_entry entry_of(const struct stat *info) {
    const enum kg_tree_kind kind = kind_of(info->st_mode);
    return (struct kg_tree_entry){ .kind = kind,
                                   .size_bytes = kind == KG_TREE_FILE ? (uint64_t)info->st_size : 0,
                                   .inode = info->st_ino,
                                   .mtime_ns = info->st_mtim.tv_sec * INT64_C(1000000000) + info->st_mtim.tv_nsec,
                                   .ctime_ns = info->st_ctim.tv_sec * INT64_C(1000000000) + info->st_ctim.tv_nsec };
}

bool kg_tree_stat(const char *path, struct kg_tree_entry *entry) {
    struct stat info;
    if (lstat(path, &info) != 0) return false;
    *entry = entry_of(&info);
    return true;
}

static void add_entry(struct kg_tree *tree, const char *path, const struct stat *info) {
    if ((tree->n_entries & (tree->n_entries + 1)) == 0) /* full at 2^n - 1 */
        tree->entries = kg_xrealloc(tree->entries, (tree->n_entries + 1) * 2 * sizeof *tree->entries);
    struct kg_tree_entry *entry = &tree->entries[tree->n_entries++];
    *entry = entry_of(info);
    entry->path = kg_xstrdup(path);
}

static enum kg_status list_folder(const char *dir, const char *relative, int depth, struct kg_tree *tree,
                                  struct kg_error *err) {
    char *path = *relative ? kg_path_join(dir, relative) : kg_xstrdup(dir);
    struct kg_dir_list list = { 0 };
    enum kg_status status = depth > MAX_DEPTH
                                ? kg_fail(err, KG_ERR_FORMAT, "%s: folders nested deeper than %d", dir, MAX_DEPTH)
                                : kg_dir_list(path, &list, err);
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        char *child = *relative ? kg_path_join(relative, list.names[i]) : kg_xstrdup(list.names[i]);
        char *full = kg_path_join(dir, child);
        struct stat info;
        if (lstat(full, &info) != 0) {
            if (errno != ENOENT) status = kg_fail(err, KG_ERR_IO, "cannot stat %s: %s", full, strerror(errno));
        } else {
            add_entry(tree, child, &info);
            if (S_ISDIR(info.st_mode)) status = list_folder(dir, child, depth + 1, tree, err);
        }
        free(full);
        free(child);
    }
    kg_dir_list_free(&list);
    free(path);
    return status;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct kg_tree_entry *)a)->path, ((const struct kg_tree_entry *)b)->path);
}

enum kg_status kg_tree_list(const char *dir, struct kg_tree *tree, struct kg_error *err) {
    *tree = (struct kg_tree){ NULL, 0 };
    const enum kg_status status = list_folder(dir, "", 0, tree, err);
    if (status != KG_OK) kg_tree_free(tree);
    else if (tree->n_entries > 1) qsort(tree->entries, tree->n_entries, sizeof *tree->entries, by_path);
    return status;
}

void kg_tree_free(struct kg_tree *tree) {
    for (size_t i = 0; i < tree->n_entries; i++) free(tree->entries[i].path);
    free(tree->entries);
    *tree = (struct kg_tree){ NULL, 0 };
}

const struct kg_tree_entry *kg_tree_find(const struct kg_tree *tree, const char *path) {
    if (tree->n_entries == 0) return NULL;
    const struct kg_tree_entry key = { .path = (char *)(uintptr_t)path };
    return bsearch(&key, tree->entries, tree->n_entries, sizeof *tree->entries, by_path);
}

bool kg_tree_is_empty(const struct kg_tree *tree, const struct kg_tree_entry *folder) {
    const size_t len = strlen(folder->path);
    for (size_t i = 0; i < tree->n_entries; i++)
        if (strncmp(tree->entries[i].path, folder->path, len) == 0 && tree->entries[i].path[len] == '/') return false;
    return true;
}
