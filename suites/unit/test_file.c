/* Files: whole or not at all, folders made and removed, and nothing followed or replaced that should not be. */
#include "base/file.h"
#include "base/draft.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char *path_in(const struct kg_record *rec, const char *name) {
    return kg_path_join(kg_scratch_dir(rec), name);
}

static void must_write(const char *path, const char *text) {
    struct kg_error err = { 0 };
    ck_assert_msg(kg_file_write(path, text, strlen(text), &err) == KG_OK, "%s", err.message);
}

static void expect_text(const char *path, const char *want) {
    struct kg_error err = { 0 };
    char *text;
    size_t len;
    ck_assert_msg(kg_file_read(path, &text, &len, &err) == KG_OK, "%s", err.message);
    ck_assert_uint_eq(len, strlen(want));
    ck_assert_str_eq(text, want);
    free(text);
}

static size_t n_entries(const char *dir) {
    struct kg_error err = { 0 };
    struct kg_dir_list list;
    ck_assert_int_eq(kg_dir_list(dir, &list, &err), KG_OK);
    const size_t n = list.n_names;
    kg_dir_list_free(&list);
    return n;
}

/* As root a rename would put a file in a device's place; a pipe stands for one here. */
static void only_files_are_replaced(struct kg_record *rec, const void *arg) {
    char *pipe_path = path_in(rec, "pipe"), *folder = path_in(rec, "folder"), *link = path_in(rec, "link"),
         *file = path_in(rec, "file");
    const char *const paths[] = { pipe_path, folder, "/dev/full", link }, *const says[] = { "pipe", "folder", "device",
                                                                                            "link" };
    (void)arg;
    must_write(file, "kept");
    ck_assert_int_eq(symlink(file, link), 0);
    ck_assert_int_eq(mkfifo(pipe_path, 0600), 0);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    for (size_t i = 0; i < KG_COUNT_OF(paths); i++) {
        struct kg_draft draft;
        struct kg_error err = { 0 };
        struct stat before, after;
        ck_assert_int_eq(lstat(paths[i], &before), 0);
        ck_assert_int_eq(kg_draft_open(paths[i], &draft, &err), KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, paths[i]) && strstr(err.message, says[i]), "'%s'", err.message);
        ck_assert_int_eq(lstat(paths[i], &after), 0);
        ck_assert(before.st_ino == after.st_ino);
    }
    ck_assert_uint_eq(n_entries(kg_scratch_dir(rec)), 4);
    free(file);
    free(link);
    free(folder);
    free(pipe_path);
}

static void write_read_replace(struct kg_record *rec, const void *arg) {
    char *path = path_in(rec, "f");
    struct kg_error err = { 0 };
    char *data;
    size_t len;
    (void)arg;
    must_write(path, "first, and longer");
    must_write(path, "second");
    expect_text(path, "second");
    ck_assert_int_eq(kg_file_write(path, "a\0b", 3, &err), KG_OK);
    ck_assert_int_eq(kg_file_read(path, &data, &len, &err), KG_OK);
    ck_assert_uint_eq(len, 3);
    ck_assert_mem_eq(data, "a\0b\0", 4); /* with one NUL behind it */
    free(data);
    must_write(path, "");
    expect_text(path, "");
    ck_assert_uint_eq(n_entries(kg_scratch_dir(rec)), 1); /* no temporary is left */
    free(path);
}

static void large_file_comes_back(struct kg_record *rec, const void *arg) {
    enum { N = 1 << 20 };
    char *path = path_in(rec, "large"), *data = malloc(N + 17), *again;
    struct kg_error err = { 0 };
    struct kg_file_map map;
    size_t len;
    (void)arg;
    for (size_t i = 0; i < N + 17; i++) data[i] = (char)(i * 31 + i / 251);
    ck_assert_int_eq(kg_file_write(path, data, N + 17, &err), KG_OK);
    ck_assert_int_eq(kg_file_read(path, &again, &len, &err), KG_OK);
    ck_assert_uint_eq(len, N + 17);
    ck_assert(memcmp(data, again, len) == 0);
    ck_assert_int_eq(kg_file_map_open(path, &map, &err), KG_OK);
    ck_assert_uint_eq(map.size_bytes, N + 17);
    ck_assert(memcmp(data, map.data, len) == 0);
    kg_file_map_close(&map);
    kg_file_map_close(&map); /* closed already: nothing */
    free(again);
    free(data);
    free(path);
}

static void errors_name_the_path(struct kg_record *rec, const void *arg) {
    struct kg_error err = { 0 };
    struct kg_file_map map;
    struct kg_dir_list list;
    char *data;
    size_t len;
    const char *missing = "/nowhere/at/all";
    (void)rec, (void)arg;
    ck_assert_int_eq(kg_file_map_open(missing, &map, &err), KG_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, missing));
    ck_assert_int_eq(kg_file_read(missing, &data, &len, &err), KG_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, missing));
    ck_assert_int_eq(kg_file_write(missing, "x", 1, &err), KG_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, missing));
    ck_assert_int_eq(kg_dir_list(missing, &list, &err), KG_ERR_NOT_FOUND);
    ck_assert_int_eq(kg_file_map_open("/dev/null", &map, &err), KG_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "not a regular file"));
    ck_assert_int_eq(kg_file_write("/dev/null/x", "x", 1, NULL), KG_ERR_NOT_FOUND); /* err may be NULL */
}

static void empty_file_maps_to_nothing(struct kg_record *rec, const void *arg) {
    char *path = path_in(rec, "empty");
    struct kg_error err = { 0 };
    struct kg_file_map map;
    (void)arg;
    must_write(path, "");
    ck_assert_int_eq(kg_file_map_open(path, &map, &err), KG_OK);
    ck_assert(map.data == NULL && map.size_bytes == 0);
    kg_file_map_close(&map);
    free(path);
}

/* A named pipe without a writer: opening it must not wait. */
static void pipe_is_refused_at_once(struct kg_record *rec, const void *arg) {
    char *path = path_in(rec, "pipe");
    struct kg_error err = { 0 };
    struct kg_file_map map;
    (void)arg;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(kg_file_map_open(path, &map, &err), KG_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "not a regular file"));
    char *data;
    size_t len;
    const char *const endless[] = { path, "/dev/zero", kg_scratch_dir(rec) };
    for (size_t i = 0; i < KG_COUNT_OF(endless); i++) {
        ck_assert_int_eq(kg_file_read_regular(endless[i], &data, &len, &err), KG_ERR_USAGE);
        ck_assert_ptr_nonnull(strstr(err.message, "not a regular file"));
    }
    free(path);
}

/* A disk that is full, by a limit on the size of files: the old file stays, no temporary is left. */
/* What stands in a folder's place is no folder to list or to sync; a pipe is not waited for. */
static void no_folder_in_its_place(struct kg_record *rec, const void *arg) {
    char *pipe_path = kg_path_join(kg_scratch_dir(rec), "pipe"), *file = kg_path_join(kg_scratch_dir(rec), "file");
    struct kg_dir_list list;
    struct kg_error err;
    (void)arg;
    ck_assert_int_eq(mkfifo(pipe_path, 0600), 0);
    must_write(file, "x");
    ck_assert_int_eq(kg_dir_list(pipe_path, &list, &err), KG_ERR_NOT_FOUND);
    ck_assert_int_eq(kg_dir_list(file, &list, &err), KG_ERR_NOT_FOUND);
    ck_assert_int_eq(kg_dir_sync(file, &err), KG_ERR_NOT_FOUND);
    free(file);
    free(pipe_path);
}

static void full_disk_keeps_the_old_file(struct kg_record *rec, const void *arg) {
    enum { N = 1 << 20 };
    char *path = path_in(rec, "f"), *big = calloc(1, N);
    struct kg_error err = { 0 };
    struct rlimit old;
    (void)arg;
    must_write(path, "old");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    const struct rlimit small = { 1000, old.rlim_max };
    setrlimit(RLIMIT_FSIZE, &small);
    const enum kg_status status = kg_file_write(path, big, N, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    ck_assert_int_eq(status, KG_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.message, path));
    expect_text(path, "old");
    ck_assert_uint_eq(n_entries(kg_scratch_dir(rec)), 1);
    free(big);
    free(path);
}

static void draft_appears_only_when_published(struct kg_record *rec, const void *arg) {
    char *path = path_in(rec, "f");
    struct kg_error err = { 0 };
    struct kg_draft draft;
    struct stat info;
    (void)arg;
    ck_assert_int_eq(kg_draft_open(path, &draft, &err), KG_OK);
    ck_assert_int_eq(kg_fd_write(draft.fd, "half", 4, &err), KG_OK);
    ck_assert(!kg_path_exists(path));
    /* Nothing to be left by who is killed here, where the file system has files without names. */
    ck_assert_uint_eq(n_entries(kg_scratch_dir(rec)), draft.temporary ? 1 : 0);
    kg_draft_discard(&draft);
    kg_draft_discard(&draft); /* gone already: nothing */
    ck_assert_uint_eq(n_entries(kg_scratch_dir(rec)), 0);
    ck_assert_int_eq(kg_draft_open(path, &draft, &err), KG_OK);
    ck_assert_int_eq(kg_fd_write(draft.fd, "whole", 5, &err), KG_OK);
    ck_assert_int_eq(kg_draft_publish(&draft, &err), KG_OK);
    kg_draft_discard(&draft);
    expect_text(path, "whole");
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_uint_eq(info.st_mode & 0777, 0644);
    free(path);
}

/* A petabyte is more than any disk here has; a file system that cannot tell says nothing. */
static void room_is_reserved(struct kg_record *rec, const void *arg) {
    const uint64_t petabyte = UINT64_C(1) << 50;
    char *path = path_in(rec, "f");
    struct kg_error err = { 0 };
    struct kg_draft draft;
    struct stat info;
    (void)arg;
    ck_assert_int_eq(kg_draft_open(path, &draft, &err), KG_OK);
    ck_assert_msg(kg_fd_reserve(draft.fd, 100000, &err) == KG_OK, "%s", err.message);
    ck_assert_int_eq(fstat(draft.fd, &info), 0);
    ck_assert_int_eq(info.st_size, 0);
    if (kg_fd_reserve(draft.fd, petabyte, &err) != KG_OK) {
        ck_assert_int_eq(err.status, KG_ERR_IO);
        ck_assert_msg(strstr(err.message, "1125899906842624 bytes (") != NULL, "%s", err.message);
    }
    kg_draft_discard(&draft);
    free(path);
}

static void folders(struct kg_record *rec, const void *arg) {
    char *deep = path_in(rec, "a/b/c"), *top = path_in(rec, "a"), *file = path_in(rec, "a/file");
    struct kg_error err = { 0 };
    struct kg_dir_list list;
    (void)arg;
    ck_assert_int_eq(kg_dir_make(deep, &err), KG_OK);
    ck_assert_int_eq(kg_dir_make(deep, &err), KG_OK); /* there already: good */
    must_write(file, "x");
    ck_assert_int_ne(kg_dir_make(file, &err), KG_OK);
    ck_assert_ptr_nonnull(strstr(err.message, file));
    ck_assert(kg_path_is_dir(deep) && !kg_path_is_dir(file) && kg_path_exists(file));
    ck_assert_int_eq(kg_dir_list(top, &list, &err), KG_OK);
    ck_assert_uint_eq(list.n_names, 2);
    ck_assert_str_eq(list.names[0], "b"); /* sorted */
    ck_assert_str_eq(list.names[1], "file");
    kg_dir_list_free(&list);
    ck_assert_int_eq(kg_dir_sync(top, &err), KG_OK);
    ck_assert_int_eq(kg_path_remove(top, &err), KG_OK);
    ck_assert(!kg_path_exists(top));
    ck_assert_int_eq(kg_path_remove(top, &err), KG_OK); /* gone already: good */
    free(file);
    free(top);
    free(deep);
}

static void links_are_removed_not_followed(struct kg_record *rec, const void *arg) {
    char *kept = path_in(rec, "kept"), *kept_file = path_in(rec, "kept/file"), *doomed = path_in(rec, "doomed"),
         *link = path_in(rec, "doomed/link"), *dangling = path_in(rec, "dangling");
    struct kg_error err = { 0 };
    (void)arg;
    ck_assert_int_eq(kg_dir_make(kept, &err), KG_OK);
    ck_assert_int_eq(kg_dir_make(doomed, &err), KG_OK);
    must_write(kept_file, "x");
    ck_assert_int_eq(symlink(kept, link), 0);
    ck_assert_int_eq(symlink("/nowhere", dangling), 0);
    ck_assert(kg_path_exists(dangling));
    ck_assert_int_eq(kg_path_remove(doomed, &err), KG_OK);
    ck_assert(!kg_path_exists(doomed) && kg_path_exists(kept_file));
    free(dangling);
    free(link);
    free(doomed);
    free(kept_file);
    free(kept);
}

static void rename_does_not_replace(struct kg_record *rec, const void *arg) {
    char *a = path_in(rec, "a"), *b = path_in(rec, "b"), *c = path_in(rec, "c");
    struct kg_error err = { 0 };
    (void)arg;
    must_write(a, "a");
    must_write(b, "b");
    ck_assert_int_eq(kg_path_rename_new(a, b, &err), KG_ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.message, b));
    expect_text(b, "b");
    ck_assert_int_eq(kg_path_rename_new(a, c, &err), KG_OK);
    expect_text(c, "a");
    ck_assert_int_eq(kg_path_rename_new(a, c, &err), KG_ERR_NOT_FOUND);
    free(c);
    free(b);
    free(a);
}

static void build(struct kg_case_list *list) {
    const struct kg_case cases[] = {
        { .name = "write_read_replace", .run = write_read_replace },
        { .name = "only_files_are_replaced", .run = only_files_are_replaced },
        { .name = "large_file_comes_back", .run = large_file_comes_back },
        { .name = "errors_name_the_path", .run = errors_name_the_path },
        { .name = "empty_file_maps_to_nothing", .run = empty_file_maps_to_nothing },
        { .name = "pipe_is_refused_at_once", .run = pipe_is_refused_at_once, .timeout_s = 10 },
        { .name = "no_folder_in_its_place", .run = no_folder_in_its_place, .timeout_s = 10 },
        { .name = "full_disk_keeps_the_old_file", .run = full_disk_keeps_the_old_file },
        { .name = "draft_appears_only_when_published", .run = draft_appears_only_when_published },
        { .name = "room_is_reserved", .run = room_is_reserved },
        { .name = "folders", .run = folders },
        { .name = "links_are_removed_not_followed", .run = links_are_removed_not_followed },
        { .name = "rename_does_not_replace", .run = rename_does_not_replace },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "unit", c.op = "file";
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
