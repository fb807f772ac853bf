#include "bundle/beside.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>

bool kg_beside_is_folder(const char *name) {
    static const char *const NAMES[] = { KG_TOMBSTONES, KG_IMPORTS, KG_SIGNOFFS, KG_ANNOTATIONS };
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0) return true;
    return false;
}

enum kg_status kg_beside_write(const char *root, const char *folder, const char *id, const json_t *fact,
                               struct kg_error *err) {
    char *dir = kg_path_join(root, folder), *path = kg_xasprintf("%s/%s.json", dir, id);
    char *text = json_dumps(fact, JSON_INDENT(2));
    struct kg_buffer file = KG_BUFFER_INIT;
    enum kg_status status = kg_dir_make(dir, err);
    kg_buffer_printf(&file, "%s\n", text);
    if (status == KG_OK) status = kg_file_write(path, file.data, file.len, err);
    if (status == KG_OK) status = kg_dir_sync(dir, err);
    kg_buffer_free(&file);
    free(text);
    free(path);
    free(dir);
    return status;
}

json_t *kg_beside_read(const char *root, const char *folder, const char *id) {
    char *relative = kg_xasprintf("%s/%s.json", folder, id);
    json_t *fact = NULL;
    if (kg_bundle_read_json(root, relative, &fact, NULL) != KG_OK) fact = NULL;
    free(relative);
    return fact;
}

enum kg_status kg_root_list(const char *root, struct kg_dir_list *ids, struct kg_error *err) {
    const enum kg_status status = kg_dir_list(root, ids, err);
    if (status != KG_OK) return status;
    size_t kept = 0;
    for (size_t i = 0; i < ids->n_names; i++) {
        int64_t started_us;
        char *path = kg_path_join(root, ids->names[i]);
        const bool is_bundle = kg_bundle_id_parse(ids->names[i], &started_us) && kg_path_is_dir(path);
        free(path);
        if (is_bundle) ids->names[kept++] = ids->names[i];
        else free(ids->names[i]);
    }
    ids->n_names = kept;
    return KG_OK;
}
