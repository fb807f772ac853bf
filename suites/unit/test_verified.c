/* What this user's kigo keeps of bundles that it verified: it holds for untouched bundles, and for nobody else. */
#include "bundle/verified.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    char *root, *cache, *dir;
    const char *id;
};

/* A sealed bundle whose files are older than what a file system's clock tells apart, and an empty cache. */
static void begin(struct place *p, const struct kg_record *rec) {
    struct kg_error err;
    p->root = kg_path_join(kg_scratch_dir(rec), "bundles");
    p->cache = kg_path_join(kg_scratch_dir(rec), "cache");
    EXPECT_OK(kg_dir_make(p->root, &err), err);
    EXPECT_OK(kg_dir_make(p->cache, &err), err);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", p->cache, 1), 0);
    p->dir = kg_maker_sealed(p->root, 3);
    p->id = strrchr(p->dir, '/') + 1;
    usleep(300 * 1000);
}

static void end(struct place *p) {
    free(p->root);
    free(p->cache);
    free(p->dir);
}

/* The stamps of the bundle, and whether a call finds that it was verified with them. */
static bool is_noted(const struct place *p) {
    struct kg_stamps stamps;
    struct kg_error err;
    EXPECT_OK(kg_stamps_of_tree(p->dir, &stamps, &err), err);
    struct kg_verified *v = kg_verified_open(p->root);
    const bool noted = kg_verified_get(v, p->id, "sound", &stamps) != NULL;
    kg_verified_close(v);
    return noted;
}

static enum kg_status verify(const struct place *p) {
    struct kg_error err;
    struct kg_verified *v = kg_verified_open(p->root);
    const enum kg_status status = kg_verified_check(v, p->id, &err);
    kg_verified_close(v);
    return status;
}

static void is_kept(struct kg_record *rec, const void *arg) {
    struct place p;
    struct kg_error err;
    (void)arg;
    begin(&p, rec);
    ck_assert(!is_noted(&p));
    ck_assert_int_eq(verify(&p), KG_OK);
    ck_assert(is_noted(&p));
    EXPECT_OK(kg_verified_check_folder(p.dir, &err), err);
    /* of this root only, also where another has the same bundle */
    char *other = kg_path_join(kg_scratch_dir(rec), "other");
    EXPECT_OK(kg_dir_make(other, &err), err);
    struct kg_verified *v = kg_verified_open(other);
    struct kg_stamps stamps;
    EXPECT_OK(kg_stamps_of_tree(p.dir, &stamps, &err), err);
    ck_assert_ptr_null(kg_verified_get(v, p.id, "sound", &stamps));
    kg_verified_close(v);
    free(other);
    end(&p);
}

/* What is noted of a run goes when the run has gone, and something new is noted. */
static void gone_runs_have_no_notes(struct kg_record *rec, const void *arg) {
    struct place p;
    struct kg_stamps stamps;
    struct kg_error err;
    (void)arg;
    begin(&p, rec);
    ck_assert_int_eq(verify(&p), KG_OK);
    EXPECT_OK(kg_stamps_of_tree(p.dir, &stamps, &err), err);
    char *first = kg_xstrdup(p.id), *gone = p.dir;
    p.dir = kg_maker_sealed(p.root, 3);
    p.id = strrchr(p.dir, '/') + 1;
    usleep(300 * 1000);
    EXPECT_OK(kg_path_remove(gone, &err), err);
    ck_assert_int_eq(verify(&p), KG_OK);
    ck_assert(is_noted(&p));
    struct kg_verified *v = kg_verified_open(p.root);
    ck_assert_ptr_null(kg_verified_get(v, first, "sound", &stamps));
    kg_verified_close(v);
    free(gone);
    free(first);
    end(&p);
}

/* Any write is seen, with the size and the time of writing that the file had before as well. */
static void every_change_is_seen(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "data/results.ndjson", "data/samples.bin", "data/report.md", "bag-info.txt",
                                         "manifest-sha256.txt" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        struct place p;
        struct stat was;
        begin(&p, rec);
        ck_assert_int_eq(verify(&p), KG_OK);
        char *path = kg_path_join(p.dir, FILES[i]), byte;
        ck_assert_int_eq(stat(path, &was), 0);
        const int fd = open(path, O_RDWR);
        ck_assert_int_eq(pread(fd, &byte, 1, 0), 1);
        byte ^= 1;
        ck_assert_int_eq(pwrite(fd, &byte, 1, 0), 1);
        const struct timespec times[] = { was.st_atim, was.st_mtim };
        ck_assert_int_eq(futimens(fd, times), 0);
        close(fd);
        ck_assert(!is_noted(&p));
        ck_assert_int_eq(verify(&p), KG_ERR_INTEGRITY);
        ck_assert_int_eq(verify(&p), KG_ERR_INTEGRITY); /* what does not verify is looked at each time */
        free(path);
        struct kg_error err;
        EXPECT_OK(kg_path_remove(p.dir, &err), err);
        end(&p);
    }
}

/* A file written within the clock's step could be written again without a trace: nothing is kept of it yet. */
static void young_files(struct kg_record *rec, const void *arg) {
    struct place p;
    (void)arg;
    begin(&p, rec);
    kg_maker_replace(p.dir, "data/report.md", "i", "i");
    ck_assert_int_eq(verify(&p), KG_OK);
    ck_assert(!is_noted(&p));
    end(&p);
}

/* Where others may write, or where there is no folder, nothing is believed and nothing kept. */
static void only_in_an_own_folder(struct kg_record *rec, const void *arg) {
    struct place p;
    struct kg_error err;
    (void)arg;
    begin(&p, rec);
    ck_assert_int_eq(verify(&p), KG_OK);
    char *kigo = kg_path_join(p.cache, "kigo");
    ck_assert_int_eq(chmod(kigo, 0770), 0);
    ck_assert(!is_noted(&p));
    ck_assert_int_eq(verify(&p), KG_OK);
    ck_assert_int_eq(chmod(kigo, 0700), 0);
    ck_assert(is_noted(&p));
    EXPECT_OK(kg_path_remove(p.cache, &err), err);
    EXPECT_OK(kg_file_write(p.cache, "", 0, &err), err);
    ck_assert_int_eq(verify(&p), KG_OK);
    ck_assert(!is_noted(&p));
    free(kigo);
    end(&p);
}

/* Notes of another build, or that do not parse, are no notes. */
static void notes_of_others(struct kg_record *rec, const void *arg) {
    static const char *const TEXTS[] = { "", "{", "[]", "{\"kigo\":1}",
                                         "{\"kigo\":\"0000\",\"root\":\"/\",\"bundles\":{}}" };
    struct place p;
    struct kg_dir_list names = { 0 };
    struct kg_error err;
    (void)arg;
    begin(&p, rec);
    char *kigo = kg_path_join(p.cache, "kigo");
    for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++) {
        ck_assert_int_eq(verify(&p), KG_OK);
        ck_assert(is_noted(&p));
        EXPECT_OK(kg_dir_list(kigo, &names, &err), err);
        ck_assert_uint_eq(names.n_names, 1);
        char *path = kg_path_join(kigo, names.names[0]);
        EXPECT_OK(kg_file_write(path, TEXTS[i], strlen(TEXTS[i]), &err), err);
        ck_assert(!is_noted(&p));
        free(path);
        kg_dir_list_free(&names);
    }
    free(kigo);
    end(&p);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "verified", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(is_kept),         CASE(every_change_is_seen),    CASE(young_files), CASE(only_in_an_own_folder),
    CASE(notes_of_others), CASE(gone_runs_have_no_notes),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
