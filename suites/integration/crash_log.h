/* What a program does to the files below a folder, in order: enough to make the folder again as it was after each
 * step, and as a disk may have it that lost power there (crash_disk.h). */
#ifndef KIGO_SUITES_CRASH_LOG_H
#define KIGO_SUITES_CRASH_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum kg_disk_op_kind {
    KG_DISK_MKDIR,  /* node: the folder, named `name` in `dir` */
    KG_DISK_CREATE, /* node: the file; dir KG_NO_NODE: it has no name yet (O_TMPFILE) */
    KG_DISK_LINK,   /* node gets a name */
    KG_DISK_UNLINK, /* a file's or a folder's name goes */
    KG_DISK_RENAME, /* of node, from name in dir to to_name in to_dir */
    KG_DISK_WRITE,  /* bytes at `at` */
    KG_DISK_CUT,    /* node has `at` bytes */
    KG_DISK_SYNC,   /* fsync, fdatasync: of a file its bytes, of a folder its entries */
    KG_DISK_SAY,    /* bytes on standard output */
};

#define KG_NO_NODE SIZE_MAX

struct kg_disk_op {
    enum kg_disk_op_kind kind;
    size_t node, dir, to_dir; /* numbers of nodes */
    char *name, *to_name;
    uint64_t at;
    char *bytes;
    size_t n_bytes;
};

/* A file or a folder, whatever its names; node 0 is the folder itself. */
struct kg_disk_node {
    ino_t inode;
    bool is_dir, gone; /* gone: the inode's number may be another file's */
};

struct kg_disk_log {
    char *top; /* the folder's real path */
    dev_t device;
    struct kg_disk_op *ops;
    size_t n_ops, n_before; /* n_before: what was there when the log began; all of it is on the disk */
    struct kg_disk_node *nodes;
    size_t n_nodes;
};

/* Begins with what the folder holds: ops that make it, all synced. Fails the running case if it cannot be read. */
void kg_disk_log_open(struct kg_disk_log *log, const char *top);
void kg_disk_log_close(struct kg_disk_log *log);

/* Takes over the op's texts and bytes. */
void kg_disk_log_add(struct kg_disk_log *log, struct kg_disk_op op);
size_t kg_disk_log_node(struct kg_disk_log *log, ino_t inode, bool is_dir);        /* a new one */
size_t kg_disk_log_find(const struct kg_disk_log *log, dev_t device, ino_t inode); /* KG_NO_NODE: not ours */

#endif
