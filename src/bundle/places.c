#include "bundle/places.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "src/bundle/build_info.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Paths from the folder that holds them all. Where kigo is installed, that is the prefix (KG_PLACE_*: configure). */
static const struct layout {
    bool installed;
    const char *kigo_dir; /* "": the folder itself */
    const char *suites, *made;
} LAYOUTS[] = {
    { true, KG_PLACE_BIN, KG_PLACE_SUITES, KG_PLACE_DATA },
    { false, "", "suites", "" },
};

char *kg_own_path(void) {
    char path[4096];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    return len > 0 ? kg_xstrndup(path, (size_t)len) : kg_xstrdup("kigo");
}

/* <root>/<rest>; root may be "", which is "/". malloc'ed. */
static char *below(const char *root, const char *rest) {
    return *rest ? kg_xasprintf("%s/%s", root, rest) : kg_xstrdup(*root ? root : "/");
}

/* The part before the last "/<middle>/"; malloc'ed, NULL if there is none. */
static char *before_last(const char *path, const char *middle) {
    char *wanted = kg_xasprintf("/%s/", middle);
    const char *last = NULL;
    for (const char *at = strstr(path, wanted); at; at = strstr(at + 1, wanted)) last = at;
    free(wanted);
    return last ? kg_xstrndup(path, (size_t)(last - path)) : NULL;
}

/* Where the layout begins if a program of that path is in it, as a suite program or as kigo; malloc'ed, or NULL. */
static char *root_of(const struct layout *layout, const char *path) {
    char *root = before_last(path, layout->suites);
    if (root) return root;
    const char *slash = strrchr(path, '/');
    char *dir = slash ? kg_xstrndup(path, (size_t)(slash - path)) : kg_xstrdup(".");
    const size_t len = strlen(dir), tail = strlen(layout->kigo_dir);
    if (tail == 0) return dir;
    if (len > tail && dir[len - tail - 1] == '/' && strcmp(dir + len - tail, layout->kigo_dir) == 0)
        root = kg_xstrndup(dir, len - tail - 1);
    free(dir);
    return root;
}

struct kg_places kg_places_of(const char *path) {
    struct kg_places places = { 0 };
    for (size_t i = 0; i < KG_COUNT_OF(LAYOUTS) && !places.made; i++) {
        const struct layout *layout = &LAYOUTS[i];
        char *root = root_of(layout, path);
        if (!root) continue;
        char *made = below(root, layout->made), *fixtures = kg_path_join(made, "fixtures");
        if (!layout->installed || kg_path_is_dir(fixtures)) {
            char *kigo_dir = below(root, layout->kigo_dir);
            places = (struct kg_places){ .installed = layout->installed,
                                         .suites = below(root, layout->suites),
                                         .kigo = kg_path_join(kigo_dir, "kigo"),
                                         .made = kg_xstrdup(made) };
            free(kigo_dir);
        }
        free(fixtures);
        free(made);
        free(root);
    }
    return places;
}

void kg_places_free(struct kg_places *places) {
    free(places->suites);
    free(places->kigo);
    free(places->made);
    *places = (struct kg_places){ 0 };
}

const struct kg_places *kg_places(void) {
    static struct kg_places places;
    if (!places.made) {
        char *own = kg_own_path();
        places = kg_places_of(own);
        free(own);
    }
    return &places;
}
