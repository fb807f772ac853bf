/* The fixtures are the ones their origin.json tells of: every file it lists has that SHA-256, unpacked where it is kept
 * compressed, and no model or golden lies there that it does not list. A golden changed by hand would make every
 * comparison with it worthless. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static char **folders; /* below fixtures/, all that exist: none can be left out */
static size_t n_folders;

static const char *const DATA_SUFFIXES[] = { ".gguf", ".safetensors", ".jsonl", ".xz" };

static bool is_data(const char *name) {
    const size_t len = strlen(name);
    for (size_t i = 0; i < KG_COUNT_OF(DATA_SUFFIXES); i++) {
        const size_t suffix_len = strlen(DATA_SUFFIXES[i]);
        if (len > suffix_len && strcmp(name + len - suffix_len, DATA_SUFFIXES[i]) == 0) return true;
    }
    return false;
}

/* What fixtures/pack compressed is listed by what comes out of it; an archive's files are looked at where they were
 * unpacked. */
static bool is_listed(const json_t *sha256, const char *key) {
    static const struct {
        const char *packed, *plain;
    } SUFFIXES[] = { { ".merges.json.xz", ".json" }, { ".tar.xz", NULL }, { ".xz", "" } };
    if (json_object_get(sha256, key)) return true;
    for (size_t i = 0; i < KG_COUNT_OF(SUFFIXES); i++) {
        const char *suffix = strstr(key, SUFFIXES[i].packed);
        if (!suffix) continue;
        if (!SUFFIXES[i].plain) return true;
        char *plain = kg_xasprintf("%.*s%s", (int)(suffix - key), key, SUFFIXES[i].plain);
        const bool listed = json_object_get(sha256, plain) != NULL;
        free(plain);
        return listed;
    }
    return false;
}

/* Every data file of folder/sub is in the list. vocab.gguf is made by make beside its source in an in-tree build. */
static void expect_listed(const json_t *sha256, const char *folder, const char *sub) {
    struct kg_dir_list list;
    struct kg_error err;
    char *path = kg_path_join(folder, sub);
    if (kg_path_is_dir(path)) {
        if (kg_dir_list(path, &list, &err) != KG_OK) ck_abort_msg("%s", err.message);
        for (size_t i = 0; i < list.n_names; i++) {
            char *key = *sub ? kg_path_join(sub, list.names[i]) : kg_xstrdup(list.names[i]);
            if (is_data(key) && strcmp(key, "vocab.gguf") != 0 && !is_listed(sha256, key))
                ck_abort_msg("%s/%s is not in its origin.json", folder, key);
            free(key);
        }
        kg_dir_list_free(&list);
    }
    free(path);
}

static void as_recorded(struct kg_record *rec, const void *arg) {
    char *folders_of[] = { kg_xstrdup(kg_fixture_path(arg)), kg_xstrdup(kg_unpacked_fixture_path(arg)) };
    const char *key;
    char *path = kg_path_join(folders_of[0], "origin.json");
    json_error_t problem;
    json_t *origin = json_load_file(path, 0, &problem), *value;
    if (!origin) ck_abort_msg("%s: %s", path, problem.text);
    json_t *sha256 = json_object_get(origin, "sha256");
    ck_assert_uint_gt(json_object_size(sha256), 0);
    json_object_foreach(sha256, key, value) {
        char hex[KG_SHA256_HEX_SIZE];
        struct kg_error err;
        char *relative = kg_path_join(arg, key);
        const char *file = kg_fixture_path(relative);
        if (kg_sha256_file(file, hex, &err) != KG_OK) ck_abort_msg("%s", err.message);
        ck_assert_msg(strcmp(hex, json_string_value(value)) == 0, "%s is not the file its origin.json tells of", file);
        free(relative);
    }
    for (size_t i = 0; i < KG_COUNT_OF(folders_of); i++) {
        expect_listed(sha256, folders_of[i], "");
        expect_listed(sha256, folders_of[i], "golden");
        free(folders_of[i]);
    }
    kg_record_metric(rec, "files", "count", (double)json_object_size(sha256));
    json_decref(origin);
    free(path);
}

/* Folders of fixtures/<group> that have an origin.json. */
static void find_folders(const char *group) {
    struct kg_dir_list list;
    struct kg_error err;
    /* No list, no case: a program without one is an error of the run. */
    if (kg_dir_list(kg_fixture_path(group), &list, &err) != KG_OK) return;
    for (size_t i = 0; i < list.n_names; i++) {
        char *name = *group ? kg_path_join(group, list.names[i]) : kg_xstrdup(list.names[i]);
        char *origin = kg_path_join(name, "origin.json");
        const bool has_origin = kg_path_exists(kg_fixture_path(origin));
        free(origin);
        if (!has_origin) {
            free(name);
            continue;
        }
        folders = kg_xrealloc(folders, (n_folders + 1) * sizeof *folders);
        folders[n_folders++] = name;
    }
    kg_dir_list_free(&list);
}

static void build(struct kg_case_list *cases) {
    find_folders("");
    find_folders("tokenizers");
    for (size_t i = 0; i < n_folders; i++) {
        char *name = kg_xstrdup(folders[i]);
        for (char *p = name; *p; p++)
            if (*p == '/') *p = '.';
        kg_case_list_add(
            cases, &(struct kg_case){
                       .layer = "tolerance", .op = "fixtures", .name = name, .run = as_recorded, .arg = folders[i] });
        free(name);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
