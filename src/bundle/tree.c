#include "bundle/tree.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    if (lstat(path, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            kg_error_set(NULL, KG_ERR_IO, "cannot stat %s: %s", path, strerror(errno));
        return false;
    }
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

/* What the folder `fd` holds, whose path is `relative`; closes fd. */
static enum kg_status list_folder(int fd, const char *dir, const char *relative, int depth, struct kg_tree *tree,
                                  struct kg_error *err) {
    struct kg_dir_list list = { 0 };
    enum kg_status status = kg_fd_list(fd, dir, &list, err);
    if (depth > KG_MAX_DEPTH)
        status = kg_fail(err, KG_ERR_FORMAT, "%s: folders nested deeper than %d", dir, KG_MAX_DEPTH);
    else if (status == KG_OK && list.n_names > KG_MAX_ENTRIES - tree->n_entries)
        status = kg_fail(err, KG_ERR_FORMAT, "%s holds more than %d files and folders", dir, KG_MAX_ENTRIES);
    else if (strlen(relative) > KG_MAX_PATH_BYTES)
        status = kg_fail(err, KG_ERR_FORMAT, "%s: a path is longer than %d bytes", dir, KG_MAX_PATH_BYTES);
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        const char *name = list.names[i];
        char *child = *relative ? kg_path_join(relative, name) : kg_xstrdup(name);
        struct stat info;
        if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno != ENOENT) status = kg_fail(err, KG_ERR_IO, "cannot stat %s/%s: %s", dir, child, strerror(errno));
        } else {
            add_entry(tree, child, &info);
            const int inside =
                S_ISDIR(info.st_mode) ? openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
            if (inside >= 0) status = list_folder(inside, dir, child, depth + 1, tree, err);
            else if (S_ISDIR(info.st_mode))
                status = kg_fail(err, KG_ERR_IO, "cannot list %s/%s: %s", dir, child, strerror(errno));
        }
        free(child);
    }
    kg_dir_list_free(&list);
    close(fd);
    return status;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct kg_tree_entry *)a)->path, ((const struct kg_tree_entry *)b)->path);
}

enum kg_status kg_tree_list(const char *dir, struct kg_tree *tree, struct kg_error *err) {
    *tree = (struct kg_tree){ NULL, 0 };
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return kg_fail(err, errno == ENOENT || errno == ENOTDIR ? KG_ERR_NOT_FOUND : KG_ERR_IO, "cannot list %s: %s",
                       dir, strerror(errno));
    const enum kg_status status = list_folder(fd, dir, "", 0, tree, err);
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

/* The children of "a" begin at "a/", with other names ("a-b") between. */
bool kg_tree_is_empty(const struct kg_tree *tree, const struct kg_tree_entry *folder) {
    const size_t len = strlen(folder->path);
    char *inside = kg_xasprintf("%s/", folder->path);
    size_t low = 0, high = tree->n_entries;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(tree->entries[middle].path, inside) < 0) low = middle + 1;
        else high = middle;
    }
    const bool empty = low == tree->n_entries || strncmp(tree->entries[low].path, inside, len + 1) != 0;
    free(inside);
    return empty;
}
