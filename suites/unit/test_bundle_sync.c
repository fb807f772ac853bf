/* What is on the disk, and when. A killed process leaves the kernel's cache behind and cannot show it; the calls that
 * ask for the disk can: this program defines fsync, fdatasync and unlink, which take precedence over the C library's.
 */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/stored.h"
#include "bundle/tree.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_SYNCS = 1024 };

/* Files as they were when they were synced last, in the order of that. */
static struct stat synced[MAX_SYNCS];
static size_t n_synced;

static int note(int fd, long call) {
    ck_assert_uint_lt(n_synced, MAX_SYNCS);
    ck_assert_int_eq(fstat(fd, &synced[n_synced++]), 0);
    return (int)syscall(call, fd);
}

int fsync(int fd) {
    return note(fd, SYS_fsync);
}

int fdatasync(int fd) {
    return note(fd, SYS_fdatasync);
}

/* Number of the last sync of a file with all that it holds; fails the case if there was none. */
static size_t last_sync(const char *dir, const char *relative) {
    char *path = *relative ? kg_path_join(dir, relative) : strdup(dir);
    struct stat now;
    ck_assert_int_eq(lstat(path, &now), 0);
    size_t i = n_synced;
    while (i > 0 && !(synced[i - 1].st_dev == now.st_dev && synced[i - 1].st_ino == now.st_ino)) i--;
    ck_assert_msg(i > 0, "%s was never synced", path);
    if (S_ISREG(now.st_mode))
        ck_assert_msg(synced[i - 1].st_size == now.st_size, "%s: %lld of %lld bytes are on the disk", path,
                      (long long)synced[i - 1].st_size, (long long)now.st_size);
    free(path);
    return i - 1;
}

static bool of_compressed_files; /* whether files are removed because their compressed form is there */
static size_t n_removed;

int unlink(const char *path) {
    if (of_compressed_files) {
        char *folder = kg_xstrndup(path, (size_t)(strrchr(path, '/') - path)),
             *compressed = kg_xasprintf("%s.zst", path);
        of_compressed_files = false; /* a case that fails here removes what it made */
        ck_assert_msg(last_sync(folder, "") > last_sync(compressed, ""), "%s has no name on the disk", compressed);
        of_compressed_files = true;
        n_removed++;
        free(compressed);
        free(folder);
    }
    return unlinkat(AT_FDCWD, path, 0);
}

static void plan_before_anything_runs(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_bundle *bundle;
    struct kg_error err;
    (void)arg;
    n_synced = 0;
    EXPECT_OK(kg_maker_open(root, 3, &bundle, &err), err);
    const char *dir = kg_bundle_dir(bundle);
    const size_t plan = last_sync(dir, "data/plan.ndjson");
    /* "planned" is journalled only once the plan is on disk. */
    ck_assert_uint_gt(last_sync(dir, "data/journal.ndjson"), plan);
    last_sync(dir, "data");
    last_sync(dir, "");
    last_sync(root, "");
    kg_bundle_close(bundle);
}

static void records_as_they_happen(struct kg_record *rec, const void *arg) {
    struct kg_bundle *bundle;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_maker_open(kg_scratch_dir(rec), 3, &bundle, &err), err);
    for (size_t i = 0; i < 3; i++) {
        const float samples[] = { 1, 2 };
        uint64_t offset;
        EXPECT_OK(kg_maker_run(bundle, i, "pass", &err), err);
        EXPECT_OK(kg_bundle_samples(bundle, samples, KG_COUNT_OF(samples), &offset, &err), err);
        EXPECT_OK(kg_bundle_sync(bundle, &err), err);
        const size_t results = last_sync(kg_bundle_dir(bundle), "data/results.ndjson");
        last_sync(kg_bundle_dir(bundle), "data/samples.bin");
        /* An end is journalled only once its result is on disk. */
        ck_assert_uint_gt(last_sync(kg_bundle_dir(bundle), "data/journal.ndjson"), results);
    }
    kg_bundle_close(bundle);
}

static void every_file_before_it_is_published(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_tree tree;
    struct kg_error err;
    size_t last = 0;
    (void)arg;
    n_synced = 0;
    char *dir = kg_maker_sealed(root, 3);
    EXPECT_OK(kg_tree_list(dir, &tree, &err), err);
    ck_assert_uint_gt(tree.n_entries, 15);
    for (size_t i = 0; i < tree.n_entries; i++) {
        const size_t at = last_sync(dir, tree.entries[i].path);
        if (at > last) last = at;
    }
    ck_assert_uint_gt(last_sync(root, ""), last); /* the rename itself */
    kg_tree_free(&tree);
    free(dir);
}

/* The bytes of the compressed form, then its name, then the plain form goes: at each moment one of them is on the disk.
 */
static void compressed_before_its_plain_form_goes(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "data/journal.ndjson", "data/logs/unit.log" };
    enum { TEXT_BYTES = 64 << 10 };
    char *dir = kg_path_join(kg_scratch_dir(rec), "run"), *logs = kg_path_join(dir, "data/logs");
    char *text = kg_xcalloc(TEXT_BYTES, 1);
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_dir_make(logs, &err), err);
    memset(text, '\n', TEXT_BYTES);
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *path = kg_path_join(dir, FILES[i]);
        EXPECT_OK(kg_file_write(path, text, TEXT_BYTES, &err), err);
        free(path);
    }
    n_synced = 0;
    of_compressed_files = true;
    EXPECT_OK(kg_stored_compress(dir, &err), err);
    of_compressed_files = false;
    ck_assert_uint_eq(n_removed, KG_COUNT_OF(FILES));
    free(text);
    free(logs);
    free(dir);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "bundle_sync", .name = #function, .run = function }
static const struct kg_case CASES[] = {
    CASE(plan_before_anything_runs),
    CASE(records_as_they_happen),
    CASE(every_file_before_it_is_published),
    CASE(compressed_before_its_plain_form_goes),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
