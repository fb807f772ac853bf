#include "bundle/verified.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/io_errors.h"
#include "bundle/built_from.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct kg_verified {
    char *root, *path; /* path: of the notes, NULL where nothing can be kept */
    json_t *notes;     /* {"kigo": built from, "root", "bundles": {id: {name: [stamps, text]}}} */
    bool changed;
};

static bool is_own(const char *dir) {
    struct stat info;
    return lstat(dir, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

char *kg_own_cache_folder(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *above = cache && *cache == '/' ? kg_xstrdup(cache)
                  : home && *home == '/' ? kg_path_join(home, ".cache")
                                         : NULL;
    if (!above) return NULL;
    char *dir = kg_path_join(above, "kigo");
    (void)!mkdir(above, 0700);
    (void)!mkdir(dir, 0700);
    free(above);
    if (is_own(dir)) return dir;
    free(dir);
    return NULL;
}

static char *notes_path(const char *root) {
    struct stat info;
    char *real = realpath(root, NULL), *dir = real && stat(real, &info) == 0 ? kg_own_cache_folder() : NULL,
         *path = NULL;
    if (dir) {
        char name[KG_SHA256_HEX_SIZE];
        char *identity = kg_xasprintf("%llu %s", (unsigned long long)info.st_ino, real);
        kg_sha256_hex(identity, strlen(identity), name);
        path = kg_xasprintf("%s/verified-%.32s.json", dir, name);
        free(identity);
    }
    free(dir);
    free(real);
    return path;
}

struct kg_verified *kg_verified_open(const char *root) {
    struct kg_verified *v = kg_xcalloc(1, sizeof *v);
    char *text = NULL;
    size_t size_bytes = 0;
    v->root = kg_xstrdup(root);
    kg_io_errors_harmless_begin(); /* what is not kept is verified again */
    v->path = notes_path(root);
    if (v->path && kg_file_read_regular(v->path, &text, &size_bytes, NULL) == KG_OK)
        v->notes = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, NULL);
    kg_io_errors_harmless_end();
    free(text);
    const char *kigo = kg_json_text(v->notes, "kigo");
    if (!kigo || strcmp(kigo, kg_built_from()) != 0 || !json_is_object(json_object_get(v->notes, "bundles"))) {
        json_decref(v->notes);
        v->notes = json_pack("{s:s, s:s, s:{}}", "kigo", kg_built_from(), "root", root, "bundles");
    }
    return v;
}

/* What is gone needs no notes. */
static void drop_gone(const struct kg_verified *v, json_t *bundles) {
    void *next = json_object_iter(bundles);
    while (next) {
        const char *id = json_object_iter_key(next);
        char *dir = kg_path_join(v->root, id), *gone = kg_path_exists(dir) ? NULL : kg_xstrdup(id);
        next = json_object_iter_next(bundles, next);
        if (gone) json_object_del(bundles, gone);
        free(gone);
        free(dir);
    }
}

void kg_verified_close(struct kg_verified *v) {
    if (!v) return;
    if (v->changed && v->path) {
        drop_gone(v, json_object_get(v->notes, "bundles"));
        char *text = json_dumps(v->notes, JSON_COMPACT);
        struct kg_error unheard;
        kg_io_errors_harmless_begin();
        if (text) (void)kg_status_pass(kg_file_write(v->path, text, strlen(text), &unheard));
        kg_io_errors_harmless_end();
        free(text);
    }
    json_decref(v->notes);
    free(v->path);
    free(v->root);
    free(v);
}

const char *kg_verified_get(const struct kg_verified *v, const char *id, const char *name,
                            const struct kg_stamps *stamps) {
    const json_t *note = json_object_get(json_object_get(json_object_get(v->notes, "bundles"), id), name);
    const char *then = json_string_value(json_array_get(note, 0));
    return then && strcmp(then, stamps->sha256) == 0 ? json_string_value(json_array_get(note, 1)) : NULL;
}

void kg_verified_put(struct kg_verified *v, const char *id, const char *name, const struct kg_stamps *stamps,
                     const char *text) {
    json_t *bundles = json_object_get(v->notes, "bundles"), *bundle = json_object_get(bundles, id);
    if (!stamps->settled) return;
    if (!bundle) {
        bundle = json_object();
        json_object_set_new(bundles, id, bundle);
    }
    json_object_set_new(bundle, name, json_pack("[s, s]", stamps->sha256, text));
    v->changed = true;
}

static enum kg_status check(struct kg_verified *v, const char *id, struct kg_bundle_findings *findings,
                            struct kg_error *err) {
    struct kg_stamps before, after;
    char *dir = kg_path_join(v->root, id);
    enum kg_status status = kg_stamps_of_tree(dir, &before, err);
    if (status == KG_OK && !kg_verified_get(v, id, "sound", &before)) {
        status = kg_bundle_verify(dir, findings, err);
        if (status == KG_OK) status = kg_stamps_of_tree(dir, &after, err);
        if (status == KG_OK && !kg_stamps_equal(&before, &after))
            status = kg_fail(err, KG_ERR_INTEGRITY, "%s was changed while it was verified", dir);
        if (status == KG_OK) kg_verified_put(v, id, "sound", &before, "yes");
    }
    free(dir);
    return status;
}

enum kg_status kg_verified_check(struct kg_verified *v, const char *id, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    const enum kg_status status = check(v, id, &findings, err);
    kg_bundle_findings_free(&findings);
    return status;
}

enum kg_status kg_verified_findings(const char *dir, struct kg_bundle_findings *findings, struct kg_error *err) {
    char *real = realpath(dir, NULL), *slash = real ? strrchr(real, '/') : NULL;
    *findings = (struct kg_bundle_findings){ NULL, 0 };
    if (!slash || slash == real) {
        free(real);
        return kg_bundle_verify(dir, findings, err);
    }
    *slash = '\0';
    struct kg_verified *v = kg_verified_open(real);
    const enum kg_status status = check(v, slash + 1, findings, err);
    kg_verified_close(v);
    free(real);
    return status;
}

enum kg_status kg_verified_check_folder(const char *dir, struct kg_error *err) {
    struct kg_bundle_findings findings;
    const enum kg_status status = kg_verified_findings(dir, &findings, err);
    kg_bundle_findings_free(&findings);
    return status;
}
