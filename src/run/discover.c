#include "run/discover.h"
#include "base/buffer.h"
#include "base/file.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* test_x, but neither test_x.o nor test_x.log that lie beside it. */
static bool is_named_so(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0 && !strchr(name, '.');
}

/* A program that cannot be looked at is not one that is missing: its cases would be, and nobody would know. */
static enum kg_status is_program(const char *path, bool *is, struct kg_error *err) {
    struct stat st;
    *is = false;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? KG_OK : kg_fail(err, KG_ERR_IO, "cannot look at %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return KG_OK;
    *is = access(path, X_OK) == 0;
    return *is || errno == EACCES ? KG_OK : kg_fail(err, KG_ERR_IO, "cannot look at %s: %s", path, strerror(errno));
}

static void add(struct kg_suite_programs *programs, char *name, char *path) {
    programs->items = kg_xrealloc(programs->items, (programs->n_items + 1) * sizeof *programs->items);
    programs->items[programs->n_items++] = (struct kg_suite_program){ name, path };
}

/* folder: NULL in the suites folder itself, else the name of the folder below it. */
static enum kg_status look_in(const char *dir, const char *folder, const char *prefix,
                              struct kg_suite_programs *programs, struct kg_error *err) {
    struct kg_dir_list list;
    enum kg_status status = kg_dir_list(dir, &list, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < list.n_names && status == KG_OK; i++) {
        char *path = kg_path_join(dir, list.names[i]);
        bool is = false;
        if (is_named_so(list.names[i], prefix)) status = is_program(path, &is, err);
        if (is) {
            add(programs, folder ? kg_path_join(folder, list.names[i]) : kg_xstrdup(list.names[i]), path);
            continue;
        }
        if (status == KG_OK && !folder && list.names[i][0] != '.' && kg_path_is_dir(path))
            status = look_in(path, list.names[i], prefix, programs, err);
        free(path);
    }
    kg_dir_list_free(&list);
    return status;
}

enum kg_status kg_suites_discover(const char *dir, const char *prefix, struct kg_suite_programs *programs,
                                  struct kg_error *err) {
    *programs = (struct kg_suite_programs){ 0 };
    const enum kg_status status = look_in(dir, NULL, prefix, programs, err);
    if (status != KG_OK) kg_suite_programs_free(programs);
    return status;
}

void kg_suite_programs_free(struct kg_suite_programs *programs) {
    for (size_t i = 0; i < programs->n_items; i++) {
        free(programs->items[i].name);
        free(programs->items[i].path);
    }
    free(programs->items);
    *programs = (struct kg_suite_programs){ 0 };
}
