#include "bundle/source_tree.h"
#include "base/buffer.h"
#include "base/file.h"
#include "src/bundle/build_info.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *kg_own_path(void) {
    char path[4096];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    return len > 0 ? kg_xstrndup(path, (size_t)len) : kg_xstrdup("kigo");
}

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

char *kg_build_folder(void) {
    static const char SUITES[] = "/suites/";
    char *path = kg_own_path(), *last = NULL;
    for (char *at = strstr(path, SUITES); at; at = strstr(at + 1, SUITES)) last = at;
    if (last) *last = '\0';
    else if (!go_up(path)) path[0] = '.', path[1] = '\0';
    return path;
}

/* malloc'ed, or NULL. */
static char *find_tree(void) {
    char *dir = kg_build_folder();
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
