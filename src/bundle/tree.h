/* Every entry below a folder, links never followed. */
#ifndef KIGO_BUNDLE_TREE_H
#define KIGO_BUNDLE_TREE_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kg_tree_kind { KG_TREE_FILE, KG_TREE_DIR, KG_TREE_LINK, KG_TREE_OTHER };

struct kg_tree_entry {
    char *path; /* relative to the folder, parts divided by '/' */
    enum kg_tree_kind kind;
    uint64_t size_bytes; /* of a regular file */
    uint64_t inode;
    int64_t mtime_ns, ctime_ns; /* since 1970 UTC */
};

struct kg_tree {
    struct kg_tree_entry *entries; /* sorted bytewise by path */
    size_t n_entries;
};

/* What is at a path, links not followed; false if nothing is, or it cannot be seen. Leaves entry->path NULL. */
bool kg_tree_stat(const char *path, struct kg_tree_entry *entry);

/* Past a cap of limits.h is KG_ERR_FORMAT. */
KG_WARN_UNUSED enum kg_status kg_tree_list(const char *dir, struct kg_tree *tree, struct kg_error *err);
void kg_tree_free(struct kg_tree *tree);

/* True for a folder of the tree with nothing in it. */
bool kg_tree_is_empty(const struct kg_tree *tree, const struct kg_tree_entry *folder);

/* The entry of that path, or NULL. */
const struct kg_tree_entry *kg_tree_find(const struct kg_tree *tree, const char *path);

#endif
