/* How many annotations are read: this program defines scandirat, which takes precedence over the C library's, as a
 * folder of so many files costs seconds. */
#include "base/file.h"
#include "base/size.h"
#include "history/annotation.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_listed = -1; /* files that each folder is said to hold; -1: what it holds */

int scandirat(int fd, const char *path, struct dirent ***entries, int (*wanted)(const struct dirent *),
              int (*compare)(const struct dirent **, const struct dirent **)) {
    static int (*real)(int, const char *, struct dirent ***, int (*)(const struct dirent *),
                       int (*)(const struct dirent **, const struct dirent **));
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "scandirat");
    if (n_listed < 0) return real(fd, path, entries, wanted, compare);
    *entries = calloc((size_t)n_listed, sizeof **entries);
    for (int i = 0; i < n_listed; i++) {
        char name[16];
        const int len = snprintf(name, sizeof name, "%d", i);
        (*entries)[i] = calloc(1, offsetof(struct dirent, d_name) + (size_t)len + 1);
        memcpy((*entries)[i]->d_name, name, (size_t)len + 1);
    }
    return n_listed;
}

/* More would cost a verb memory and time without end. */
static void as_many_as_are_read(struct kg_record *rec, const void *arg) {
    enum { MOST = 100000 };
    const char *root = kg_scratch_dir(rec);
    char *folder = kg_path_join(root, "annotations");
    struct kg_annotations list;
    struct kg_error err;
    (void)arg;
    kg_must(kg_dir_make(folder, &err), &err);
    n_listed = MOST;
    kg_must(kg_annotations_load(root, &list, NULL, &err), &err);
    ck_assert_uint_eq(list.n_items, 0); /* none is named as an annotation is */
    kg_annotations_free(&list);
    n_listed = MOST + 1;
    kg_must_fail(kg_annotations_load(root, &list, NULL, &err), KG_ERR_FORMAT, &err, folder, "100001 files", "100000",
                 NULL);
    n_listed = -1;
    kg_annotations_free(&list);
    free(folder);
}

static const struct kg_case CASES[] = {
    { .layer = "unit", .op = "annotation", .name = "as_many_as_are_read", .run = as_many_as_are_read },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
