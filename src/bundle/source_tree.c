#include "bundle/source_tree.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/places.h"
#include "src/bundle/build_info.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_tree(const char *dir) {
    static const char *const FILES[] = { "configure.ac", "src/include/kigo/status.h", "suites/check.tap" };
    bool all = true;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES && all; i++) {
        char *path = kg_path_join(dir, FILES[i]);
        all = kg_path_exists(path);
        free(path);
    }
    return all;
}

/* Cuts the last part of an absolute path; false at the root. */
static bool go_up(char *path) {
    char *slash = strrchr(path, '/');
    if (!slash || slash == path) return false;
    *slash = '\0';
    return true;
}

/* malloc'ed, or NULL. */
static char *find_tree(void) {
    if (kg_places()->installed) return NULL;
    char *dir = kg_xstrdup(kg_places()->made);
    char *built_in = realpath(KG_BUILD_FOLDER, NULL);
    const bool at_home = built_in && strcmp(dir, built_in) == 0;
    free(built_in);
    do {
        if (is_tree(dir)) return dir;
    } while (go_up(dir));
    free(dir);
    return at_home && is_tree(KG_BUILD_SOURCES) ? kg_xstrdup(KG_BUILD_SOURCES) : NULL;
}

const char *kg_source_tree(void) {
    static char *tree;
    static bool looked;
    if (!looked) tree = find_tree();
    looked = true;
    return tree;
}

const char *kg_tree_or_share(void) {
    return kg_places()->installed ? kg_places()->made : kg_source_tree();
}

const char *kg_source_record(void) {
    return kg_places()->installed ? kg_places()->made : NULL;
}
