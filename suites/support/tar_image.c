#include "suites/support/tar_image.h"
#include "base/file.h"
#include "bundle/tree.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, NAME = 100, PREFIX = 155 };

struct header {
    char name[NAME], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[NAME], magic[6], version[2],
        user[32], group[32], device_major[8], device_minor[8], prefix[PREFIX], unused[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

/* Sizes past eight octal digits of GiB are written in base 256, as GNU tar does. */
static void put_size(char field[12], uint64_t size) {
    if (size < 077777777777ull) {
        snprintf(field, 12, "%011llo", (unsigned long long)size);
        return;
    }
    memset(field, 0, 12);
    field[0] = (char)0x80;
    for (int i = 11; size > 0; i--, size >>= 8) field[i] = (char)(size & 0xFF);
}

/* Copies without the NUL where the field is full, as the format has it. */
static void put_text(char *field, size_t size, const char *text, size_t len) {
    ck_assert_uint_le(len, size);
    memcpy(field, text, len);
}

static void put_name(struct header *h, const char *name) {
    const size_t len = strlen(name);
    if (len <= NAME) return put_text(h->name, NAME, name, len);
    size_t cut = len - NAME - 1;
    while (name[cut] != '/') cut++;
    put_text(h->prefix, PREFIX, name, cut);
    put_text(h->name, NAME, name + cut + 1, len - cut - 1);
}

void kg_tar_add(struct kg_buffer *tar, const struct kg_tar_entry *entry) {
    static const char ZEROS[BLOCK];
    struct header h = { .type = entry->type ? entry->type : '0', .version = { '0', '0' } };
    put_name(&h, entry->name);
    memcpy(h.mode, "0000644", 8);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    memcpy(h.mtime, "00000000000", 12);
    memcpy(h.magic, "ustar", 6);
    put_size(h.size, entry->claimed_bytes ? entry->claimed_bytes : entry->data_bytes);
    if (entry->link) put_text(h.link, NAME, entry->link, strlen(entry->link));
    memset(h.checksum, ' ', sizeof h.checksum);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof h; i++) sum += ((const unsigned char *)&h)[i];
    snprintf(h.checksum, sizeof h.checksum, "%06o", sum);
    kg_buffer_append(tar, &h, sizeof h);
    if (entry->data_bytes > 0) kg_buffer_append(tar, entry->data, entry->data_bytes);
    if (entry->data_bytes % BLOCK) kg_buffer_append(tar, ZEROS, BLOCK - entry->data_bytes % BLOCK);
}

void kg_tar_add_dir(struct kg_buffer *tar, const char *dir, const char *id) {
    struct kg_tree tree;
    struct kg_error err;
    EXPECT_OK(kg_tree_list(dir, &tree, &err), err);
    for (size_t i = 0; i < tree.n_entries; i++) {
        if (tree.entries[i].kind != KG_TREE_FILE) continue;
        char *path = kg_path_join(dir, tree.entries[i].path), *name = kg_path_join(id, tree.entries[i].path), *data;
        size_t size_bytes;
        EXPECT_OK(kg_file_read(path, &data, &size_bytes, &err), err);
        kg_tar_add(tar, &(struct kg_tar_entry){ .name = name, .data = data, .data_bytes = size_bytes });
        free(data);
        free(name);
        free(path);
    }
    kg_tree_free(&tree);
}

void kg_tar_end(struct kg_buffer *tar) {
    static const char END[2 * BLOCK];
    kg_buffer_append(tar, END, sizeof END);
}
