#include "bundle/beside.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const NAMES[] = { KG_TOMBSTONES, KG_IMPORTS, KG_SIGNOFFS, KG_ANNOTATIONS };

bool kg_beside_is_folder(const char *name) {
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0) return true;
    return false;
}

enum kg_status kg_beside_check(const char *root, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < KG_COUNT_OF(NAMES) && status == KG_OK; i++) {
        int fd = -1;
        status = kg_beneath_open_folder(root, NAMES[i], &fd, err);
        if (fd >= 0) close(fd);
        if (status == KG_ERR_NOT_FOUND) status = KG_OK;
    }
    return status;
}

enum kg_status kg_root_read_json(const char *root, const char *id, const char *file, json_t **object,
                                 struct kg_error *err) {
    char *path = kg_path_join(id, file);
    const enum kg_status status = kg_bundle_read_json(root, path, object, err);
    free(path);
    return status;
}

enum kg_status kg_beside_write(const char *root, const char *folder, const char *id, const json_t *fact,
                               struct kg_error *err) {
    char *path = kg_xasprintf("%s/%s.json", folder, id);
    char *text = json_dumps(fact, JSON_INDENT(2));
    struct kg_buffer file = KG_BUFFER_INIT;
    kg_buffer_printf(&file, "%s\n", text);
    const enum kg_status status = kg_beneath_write(root, path, file.data, file.len, err);
    kg_buffer_free(&file);
    free(text);
    free(path);
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
        if (kg_bundle_id_parse(ids->names[i], &started_us)) ids->names[kept++] = ids->names[i];
        else free(ids->names[i]);
    }
    ids->n_names = kept;
    return KG_OK;
}
