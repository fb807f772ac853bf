#include "suites/integration/fault_world.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/tree.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct kg_fault_world {
    char *dir, *copy;
    struct kg_tree tree; /* of dir, as it was; inodes and times are those of now */
    int64_t last_ns;     /* when the last of its files was made */
};

static void copy_whole(const char *from, const char *to) {
    struct kg_error err;
    kg_must(kg_path_remove(to, &err), &err);
    const struct kg_process process = { .argv = ARGS("/bin/cp", "-a", from, to) };
    struct kg_process_result result;
    kg_must(kg_process_run(&process, &result, &err), &err);
    ck_assert_msg(result.exit_code == 0, "cp: %s", result.err);
    kg_process_result_free(&result);
}

/* Times of files are those of the kernel's last tick: a file made and written in the same one would look untouched. */
static void let_time_pass(const struct kg_fault_world *w) {
    const struct timespec pause = { .tv_nsec = 500000 };
    struct timespec now;
    while (clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 &&
           (int64_t)now.tv_sec * 1000000000 + now.tv_nsec <= w->last_ns)
        nanosleep(&pause, NULL);
}

struct kg_fault_world *kg_fault_world_keep(const char *dir, const char *copy) {
    struct kg_fault_world *w = kg_xcalloc(1, sizeof *w);
    struct kg_error err;
    w->dir = kg_xstrdup(dir);
    w->copy = kg_xstrdup(copy);
    copy_whole(dir, copy);
    kg_must(kg_tree_list(dir, &w->tree, &err), &err);
    for (size_t i = 0; i < w->tree.n_entries; i++)
        if (w->tree.entries[i].ctime_ns > w->last_ns) w->last_ns = w->tree.entries[i].ctime_ns;
    let_time_pass(w);
    return w;
}

void kg_fault_world_free(struct kg_fault_world *w) {
    if (!w) return;
    kg_tree_free(&w->tree);
    free(w->copy);
    free(w->dir);
    free(w);
}

/* Whatever writes a file changes its time of change, and what kigo writes anew is another file besides. */
static bool is_same(const struct kg_tree_entry *was, const struct kg_tree_entry *is) {
    if (was->kind != is->kind) return false;
    return was->kind == KG_TREE_DIR ||
           (was->inode == is->inode && was->ctime_ns == is->ctime_ns && was->size_bytes == is->size_bytes);
}

static void copy_file(const char *from, const char *to) {
    struct stat info;
    struct kg_error err;
    char *text;
    size_t size_bytes;
    kg_must(kg_file_read(from, &text, &size_bytes, &err), &err);
    kg_must(kg_file_write(to, text, size_bytes, &err), &err);
    ck_assert_int_eq(stat(from, &info), 0);
    ck_assert_int_eq(chmod(to, info.st_mode & 07777), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, to, (const struct timespec[]){ info.st_atim, info.st_mtim }, 0), 0);
    free(text);
}

/* Removes what is new or other, the inside of folders before them. */
static void remove_other(const struct kg_fault_world *w, const struct kg_tree *now) {
    struct kg_error err;
    for (size_t i = now->n_entries; i-- > 0;) {
        const struct kg_tree_entry *was = kg_tree_find(&w->tree, now->entries[i].path);
        if (was && is_same(was, &now->entries[i])) continue;
        char *path = kg_path_join(w->dir, now->entries[i].path);
        kg_must(kg_path_remove(path, &err), &err);
        free(path);
    }
}

static void make_again(struct kg_fault_world *w, struct kg_tree_entry *entry) {
    char *from = kg_path_join(w->copy, entry->path), *to = kg_path_join(w->dir, entry->path);
    struct kg_tree_entry made;
    struct kg_error err;
    if (entry->kind == KG_TREE_DIR) kg_must(kg_dir_make(to, &err), &err);
    else if (entry->kind == KG_TREE_FILE) copy_file(from, to);
    else copy_whole(from, to);
    ck_assert(kg_tree_stat(to, &made));
    if (made.ctime_ns > w->last_ns) w->last_ns = made.ctime_ns;
    entry->inode = made.inode;
    entry->ctime_ns = made.ctime_ns;
    free(to);
    free(from);
}

void kg_fault_world_put_back(struct kg_fault_world *w) {
    struct kg_tree now;
    struct kg_error err;
    kg_must(kg_tree_list(w->dir, &now, &err), &err);
    remove_other(w, &now);
    for (size_t i = 0; i < w->tree.n_entries; i++) {
        struct kg_tree_entry *entry = &w->tree.entries[i];
        const struct kg_tree_entry *is = kg_tree_find(&now, entry->path);
        if (!is || !is_same(entry, is)) make_again(w, entry);
    }
    kg_tree_free(&now);
    let_time_pass(w);
}

bool kg_fault_world_is_same(const struct kg_fault_world *w) {
    struct kg_tree now;
    struct kg_error err;
    kg_must(kg_tree_list(w->dir, &now, &err), &err);
    bool same = now.n_entries == w->tree.n_entries;
    for (size_t i = 0; i < now.n_entries && same; i++) /* both are sorted */
        same =
            strcmp(now.entries[i].path, w->tree.entries[i].path) == 0 && is_same(&w->tree.entries[i], &now.entries[i]);
    kg_tree_free(&now);
    return same;
}

static void add_bytes(const struct kg_fault_world *w, const struct kg_tree_entry *entry, struct kg_buffer *text) {
    char hex[KG_SHA256_HEX_SIZE], *path = kg_path_join(w->dir, entry->path);
    struct kg_error err;
    kg_must(kg_sha256_file(path, hex, &err), &err);
    kg_buffer_puts(text, hex);
    free(path);
}

void kg_fault_world_digest(const struct kg_fault_world *w, char hex[KG_SHA256_HEX_SIZE]) {
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_tree now;
    struct kg_error err;
    kg_must(kg_tree_list(w->dir, &now, &err), &err);
    for (size_t i = 0; i < now.n_entries; i++) {
        const struct kg_tree_entry *was = kg_tree_find(&w->tree, now.entries[i].path);
        if (was && is_same(was, &now.entries[i])) continue;
        kg_buffer_printf(&text, "%d %s ", (int)now.entries[i].kind, now.entries[i].path);
        if (now.entries[i].kind == KG_TREE_FILE) add_bytes(w, &now.entries[i], &text);
        kg_buffer_puts(&text, "\n");
    }
    for (size_t i = 0; i < w->tree.n_entries; i++)
        if (!kg_tree_find(&now, w->tree.entries[i].path)) kg_buffer_printf(&text, "gone %s\n", w->tree.entries[i].path);
    kg_sha256_hex(kg_buffer_text(&text), text.len, hex);
    kg_buffer_free(&text);
    kg_tree_free(&now);
}
