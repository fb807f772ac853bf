/* Archives of bundles. Checksums of headers are made right again, so that changes get past them; what comes out must
 * lie in the folder named, which lies in a separate folder. */
#include "suites/fuzz/readers.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/archive.h"
#include "bundle/internal.h"
#include "bundle/tree.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 512, MAGIC_AT = 257, CHECKSUM_AT = 148, CHECKSUM_BYTES = 8, MAX_BYTES = 1 << 20, MAX_FILES = 64 };

static void mend_checksums(uint8_t *tar, size_t size) {
    for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
        uint8_t *head = tar + at;
        unsigned sum = 0;
        if (memcmp(head + MAGIC_AT, "ustar", 5) != 0) continue;
        memset(head + CHECKSUM_AT, ' ', CHECKSUM_BYTES);
        for (size_t i = 0; i < BLOCK; i++) sum += head[i];
        snprintf((char *)head + CHECKSUM_AT, CHECKSUM_BYTES, "%06o", sum);
    }
}

static void expect_one_name(const char *dir, const char *name) {
    struct kg_dir_list list;
    if (kg_dir_list(dir, &list, NULL) != KG_OK) kg_fuzz_give_up("%s cannot be listed", dir);
    if (list.n_names != 1 || strcmp(list.names[0], name) != 0)
        kg_fuzz_give_up("%s holds %zu files, not %s alone", dir, list.n_names, name);
    kg_dir_list_free(&list);
}

/* Only regular files of names that a manifest can hold, within the limits. */
static void expect_plain_files(const char *dir) {
    struct kg_tree tree;
    uint64_t n_bytes = 0;
    if (kg_tree_list(dir, &tree, NULL) != KG_OK || tree.n_entries == 0) kg_fuzz_give_up("nothing came out");
    for (size_t i = 0; i < tree.n_entries; i++) {
        if (tree.entries[i].kind > KG_TREE_DIR || !kg_bundle_path_ok(tree.entries[i].path))
            kg_fuzz_give_up("\"%s\" came out, which no bundle can hold", tree.entries[i].path);
        n_bytes += tree.entries[i].size_bytes;
    }
    if (n_bytes > MAX_BYTES) kg_fuzz_give_up("%" PRIu64 " bytes came out, %d are allowed", n_bytes, MAX_BYTES);
    kg_tree_free(&tree);
}

KG_FUZZ_READER(archive) {
    (void)target;
    static const struct kg_archive_limits LIMITS = { MAX_BYTES, MAX_FILES };
    /* many folders in a short time: in memory, where there is such a file system */
    char *around = kg_xasprintf("%s/kigo-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    char id[KG_ARCHIVE_ID_SIZE];
    struct kg_error err = { .message = "" };
    const int fd = memfd_create("archive", MFD_CLOEXEC);
    uint8_t *copy = malloc(size ? size : 1);
    if (fd < 0 || !copy || !mkdtemp(around)) kg_fuzz_give_up("no room to work in: %s", strerror(errno));
    if (size > 0) memcpy(copy, data, size);
    mend_checksums(copy, size);
    char *path = kg_xasprintf("/proc/self/fd/%d", fd), *to = kg_path_join(around, "to");
    if (kg_fd_write(fd, copy, size, &err) != KG_OK || kg_dir_make(to, &err) != KG_OK)
        kg_fuzz_give_up("%s", err.message);
    const enum kg_status status = kg_archive_unpack(path, to, &LIMITS, id, &err);
    expect_one_name(around, "to");
    if (status == KG_OK) {
        expect_one_name(to, id);
        expect_plain_files(to);
    } else {
        kg_fuzz_expect_error(&err);
    }
    if (kg_path_remove(around, &err) != KG_OK) kg_fuzz_give_up("%s", err.message);
    free(around);
    free(to);
    free(path);
    free(copy);
    close(fd);
    return status;
}
