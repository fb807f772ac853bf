#include "suites/integration/crash_log.h"
#include "base/buffer.h"
#include "base/file.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void kg_disk_log_add(struct kg_disk_log *log, struct kg_disk_op op) {
    if ((log->n_ops & (log->n_ops + 1)) == 0) /* full at 2^n - 1 */
        log->ops = kg_xrealloc(log->ops, (log->n_ops + 1) * 2 * sizeof *log->ops);
    log->ops[log->n_ops++] = op;
}

size_t kg_disk_log_node(struct kg_disk_log *log, ino_t inode, bool is_dir) {
    if ((log->n_nodes & (log->n_nodes + 1)) == 0)
        log->nodes = kg_xrealloc(log->nodes, (log->n_nodes + 1) * 2 * sizeof *log->nodes);
    log->nodes[log->n_nodes] = (struct kg_disk_node){ .inode = inode, .is_dir = is_dir };
    return log->n_nodes++;
}

size_t kg_disk_log_find(const struct kg_disk_log *log, dev_t device, ino_t inode) {
    if (device != log->device) return KG_NO_NODE;
    for (size_t i = log->n_nodes; i-- > 0;)
        if (log->nodes[i].inode == inode && !log->nodes[i].gone) return i;
    return KG_NO_NODE;
}

static struct stat look_at(const char *path) {
    struct stat info;
    ck_assert_msg(lstat(path, &info) == 0, "no %s", path);
    return info;
}

static void add_file(struct kg_disk_log *log, const char *path, size_t node) {
    struct kg_disk_op op = { .kind = KG_DISK_WRITE, .node = node };
    struct kg_error err;
    EXPECT_OK(kg_file_read_regular(path, &op.bytes, &op.n_bytes, &err), err);
    kg_disk_log_add(log, op);
}

static void add_folder(struct kg_disk_log *log, const char *path, size_t dir) {
    struct kg_dir_list list;
    struct kg_error err;
    EXPECT_OK(kg_dir_list(path, &list, &err), err);
    for (size_t i = 0; i < list.n_names; i++) {
        char *child = kg_path_join(path, list.names[i]);
        const struct stat info = look_at(child);
        const bool is_dir = S_ISDIR(info.st_mode);
        const size_t node = kg_disk_log_node(log, info.st_ino, is_dir);
        kg_disk_log_add(log, (struct kg_disk_op){ .kind = is_dir ? KG_DISK_MKDIR : KG_DISK_CREATE,
                                                  .node = node,
                                                  .dir = dir,
                                                  .name = kg_xstrdup(list.names[i]) });
        if (is_dir) add_folder(log, child, node);
        else add_file(log, child, node);
        kg_disk_log_add(log, (struct kg_disk_op){ .kind = KG_DISK_SYNC, .node = node });
        free(child);
    }
    kg_dir_list_free(&list);
}

void kg_disk_log_open(struct kg_disk_log *log, const char *top) {
    *log = (struct kg_disk_log){ .top = realpath(top, NULL) };
    ck_assert_msg(log->top != NULL, "no folder %s", top);
    const struct stat info = look_at(log->top);
    log->device = info.st_dev;
    kg_disk_log_node(log, info.st_ino, true);
    add_folder(log, log->top, 0);
    kg_disk_log_add(log, (struct kg_disk_op){ .kind = KG_DISK_SYNC, .node = 0 });
    log->n_before = log->n_ops;
}

void kg_disk_log_close(struct kg_disk_log *log) {
    for (size_t i = 0; i < log->n_ops; i++) {
        free(log->ops[i].name);
        free(log->ops[i].to_name);
        free(log->ops[i].bytes);
    }
    free(log->ops);
    free(log->nodes);
    free(log->top);
    *log = (struct kg_disk_log){ 0 };
}
