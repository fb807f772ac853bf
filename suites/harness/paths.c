#include "base/buffer.h"
#include "base/file.h"
#include "bundle/places.h"
#include "bundle/source_tree.h"
#include "suites/harness/record.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool asked; /* for a path that depends on where things are, or on what lies there */

bool kg_paths_asked(void) {
    return asked;
}

/* Where things are: an environment variable first, else where the program lies (bundle/places.h), so that a copied
 * build reads its own fixtures. */
static const char *from_environment(const char *variable, const char *otherwise) {
    const char *value = getenv(variable);
    return value && *value ? value : otherwise;
}

/* <folder>/<name>; an environment variable first. malloc'ed. */
static char *place(const char *variable, const char *folder, const char *name) {
    const char *value = from_environment(variable, NULL);
    return value ? kg_xstrdup(value) : kg_path_join(folder ? folder : ".", name);
}

/* Static storage of the last few paths, so that a case may hold some at once. */
static const char *keep_path(char *path) {
    enum { N_KEPT = 16 };
    static char *kept[N_KEPT];
    static unsigned next;
    char **slot = &kept[next++ % N_KEPT];
    free(*slot);
    return *slot = path;
}

const char *kg_unpacked_fixture_path(const char *relative) {
    char *path = kg_path_join("unpacked", relative);
    const char *unpacked = kg_built_fixture_path(path);
    free(path);
    return unpacked;
}

const char *kg_fixture_path(const char *relative) {
    asked = true;
    char *fixtures = place("KIGO_FIXTURES", kg_tree_or_share(), "fixtures"), *path = kg_path_join(fixtures, relative);
    free(fixtures);
    const char *unpacked = kg_path_exists(path) ? NULL : kg_unpacked_fixture_path(relative);
    if (!unpacked || !kg_path_exists(unpacked)) return keep_path(path);
    free(path);
    return unpacked;
}

const char *kg_built_fixture_path(const char *relative) {
    asked = true;
    char *fixtures = place("KIGO_BUILT_FIXTURES", kg_places()->made, "fixtures");
    const char *path = keep_path(kg_path_join(fixtures, relative));
    free(fixtures);
    return path;
}

const char *kg_program_path(void) {
    asked = true;
    static char *path;
    if (!path) path = kg_xstrdup(from_environment("KIGO_PROGRAM", kg_places()->kigo));
    return path;
}

const char *kg_suites_path(const char *relative) {
    asked = true;
    return keep_path(kg_path_join(kg_places()->suites, relative));
}

const char *kg_scratch_dir(const struct kg_record *rec) {
    if (rec->scratch) return rec->scratch;
    char *path = kg_path_join(from_environment("TMPDIR", "/tmp"), "kigo-case-XXXXXX");
    if (!mkdtemp(path)) ck_abort_msg("no scratch folder %s: %s", path, strerror(errno));
    ((struct kg_record *)rec)->scratch = path; /* made on first use, which is no change the case can see */
    return path;
}

const char *const *kg_extra_models(size_t *n) {
    asked = true;
    static char *text;
    static const char **paths;
    static size_t n_paths;
    if (!text) {
        text = kg_xstrdup(from_environment("KIGO_MODELS", ""));
        char *rest = NULL;
        for (char *path = strtok_r(text, "\n", &rest); path; path = strtok_r(NULL, "\n", &rest)) {
            paths = kg_xrealloc(paths, (n_paths + 1) * sizeof *paths);
            paths[n_paths++] = path;
        }
    }
    *n = n_paths;
    return paths;
}
