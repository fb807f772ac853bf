#include "convert/hf_folder.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define QUOTE(string) kg_quote(string, strlen(string)).text

static const char INDEX_NAME[] = "model.safetensors.index.json", SINGLE_NAME[] = "model.safetensors";

enum kg_status kg_hf_json_load(const char *dir, const char *name, size_t flags, json_t **json, struct kg_error *err) {
    *json = NULL;
    char *path = kg_path_join(dir, name), *text = NULL;
    size_t len;
    enum kg_status status = KG_OK;
    if (!kg_path_exists(path)) goto cleanup;
    status = kg_file_read_regular(path, &text, &len, err);
    if (status != KG_OK) goto cleanup;
    status = kg_check_fetched(text, len, err);
    if (status != KG_OK) {
        status = kg_error_context(err, status, "%s", path);
        goto cleanup;
    }
    json_error_t why;
    *json = json_loadb(text, len, JSON_REJECT_DUPLICATES | flags, &why);
    if (!*json) {
        status = kg_fail(err, KG_ERR_FORMAT, "%s, line %d: %s", path, why.line, QUOTE(why.text));
    } else if (!json_is_object(*json)) {
        status = kg_fail(err, KG_ERR_FORMAT, "%s holds no JSON object", path);
        json_decref(*json);
        *json = NULL;
    }
cleanup:
    free(text);
    free(path);
    return status;
}

static enum kg_status open_file(struct kg_hf_folder *f, const char *name, struct kg_error *err) {
    char *path = kg_path_join(f->dir, name);
    struct kg_safetensors *st;
    const enum kg_status status = kg_safetensors_open(path, &st, err);
    free(path);
    if (status != KG_OK) return status;
    f->files = kg_xrealloc(f->files, (f->n_files + 1) * sizeof(struct kg_safetensors *));
    f->files[f->n_files++] = st;
    return KG_OK;
}

static enum kg_status check_file_name(const struct kg_hf_folder *f, const char *tensor, const json_t *file,
                                      struct kg_error *err) {
    const char *name = json_string_value(file);
    if (!name)
        return kg_fail(err, KG_ERR_FORMAT, "%s/%s: the file of tensor '%s' is no string", f->dir, INDEX_NAME,
                       QUOTE(tensor));
    if (*name == '\0' || strchr(name, '/') || strlen(name) != json_string_length(file) || strcmp(name, "..") == 0)
        return kg_fail(err, KG_ERR_FORMAT, "%s/%s: tensor '%s' is said to be in '%s', which is no file of the folder",
                       f->dir, INDEX_NAME, QUOTE(tensor), QUOTE(name));
    return KG_OK;
}

/* Opens each file of the index once. */
static enum kg_status open_indexed(struct kg_hf_folder *f, json_t *weight_map, struct kg_error *err) {
    json_t *opened = json_object(), *file;
    const char *tensor;
    enum kg_status status = KG_OK;
    json_object_foreach(weight_map, tensor, file) {
        status = check_file_name(f, tensor, file, err);
        if (status != KG_OK) break;
        const char *name = json_string_value(file);
        if (json_object_get(opened, name)) continue;
        json_object_set_new(opened, name, json_true());
        status = open_file(f, name, err);
        if (status != KG_OK) {
            status = kg_error_context(err, status, "%s/%s, tensor '%s'", f->dir, INDEX_NAME, QUOTE(tensor));
            break;
        }
    }
    json_decref(opened);
    return status;
}

static int compare_names(const void *a, const void *b) {
    const struct kg_hf_tensor *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

/* One list of all files' tensors. */
static enum kg_status gather(struct kg_hf_folder *f, struct kg_error *err) {
    size_t n = 0;
    for (size_t i = 0; i < f->n_files; i++) n += kg_safetensors_n_tensors(f->files[i]);
    f->tensors = kg_xcalloc(n + 1, sizeof *f->tensors);
    for (size_t i = 0; i < f->n_files; i++)
        for (size_t k = 0; k < kg_safetensors_n_tensors(f->files[i]); k++)
            f->tensors[f->n_tensors++] =
                (struct kg_hf_tensor){ .tensor = kg_safetensors_tensor_at(f->files[i], k), .file = f->files[i] };
    if (n > 1) qsort(f->tensors, n, sizeof *f->tensors, compare_names);
    for (size_t i = 1; i < n; i++)
        if (compare_names(&f->tensors[i - 1], &f->tensors[i]) == 0)
            return kg_fail(err, KG_ERR_FORMAT, "tensor '%s' is in both %s and %s", QUOTE(f->tensors[i].tensor->name),
                           kg_safetensors_path(f->tensors[i - 1].file), kg_safetensors_path(f->tensors[i].file));
    return KG_OK;
}

/* Checks that the index and the files list the same tensors. */
static enum kg_status check_index(const struct kg_hf_folder *f, json_t *weight_map, struct kg_error *err) {
    const char *name;
    json_t *file;
    json_object_foreach(weight_map, name, file) {
        const struct kg_hf_tensor *t = kg_hf_folder_find(f, name);
        const char *path = t ? kg_safetensors_path(t->file) : "", *slash = strrchr(path, '/');
        if (!t || strcmp(slash ? slash + 1 : path, json_string_value(file)) != 0)
            return kg_fail(err, KG_ERR_FORMAT, "%s/%s: tensor '%s' is not in '%s'", f->dir, INDEX_NAME, QUOTE(name),
                           QUOTE(json_string_value(file)));
    }
    for (size_t i = 0; i < f->n_tensors; i++) {
        name = f->tensors[i].tensor->name;
        if (!json_object_get(weight_map, name))
            return kg_fail(err, KG_ERR_FORMAT, "%s: tensor '%s' is not in %s", kg_safetensors_path(f->tensors[i].file),
                           QUOTE(name), INDEX_NAME);
    }
    return KG_OK;
}

static enum kg_status open_weights(struct kg_hf_folder *f, struct kg_error *err) {
    json_t *index = NULL;
    enum kg_status status = kg_hf_json_load(f->dir, INDEX_NAME, 0, &index, err);
    if (status != KG_OK) return status;
    json_t *weight_map = json_object_get(index, "weight_map");
    if (index && (!json_is_object(weight_map) || json_object_size(weight_map) == 0)) {
        status = kg_fail(err, KG_ERR_FORMAT, "%s/%s has no weight_map", f->dir, INDEX_NAME);
    } else if (index) {
        status = open_indexed(f, weight_map, err);
    } else {
        char *path = kg_path_join(f->dir, SINGLE_NAME);
        if (!kg_path_exists(path))
            status = kg_fail(err, KG_ERR_NOT_FOUND, "no %s or %s in '%s'", SINGLE_NAME, INDEX_NAME, f->dir);
        free(path);
        if (status == KG_OK) status = open_file(f, SINGLE_NAME, err);
    }
    if (status == KG_OK) status = gather(f, err);
    if (status == KG_OK && index) status = check_index(f, weight_map, err);
    json_decref(index);
    return status;
}

static enum kg_status no_config(const char *dir, struct kg_error *err) {
    if (!kg_path_exists(dir)) return kg_fail(err, KG_ERR_NOT_FOUND, "there is no folder '%s'", dir);
    if (!kg_path_is_dir(dir))
        return kg_fail(err, KG_ERR_NOT_FOUND, "'%s' is a file; a model's folder as on Hugging Face is needed", dir);
    return kg_fail(err, KG_ERR_NOT_FOUND, "no config.json in '%s'", dir);
}

enum kg_status kg_hf_folder_open(const char *dir, struct kg_hf_folder *folder, struct kg_error *err) {
    struct kg_hf_folder f = { .dir = dir };
    enum kg_status status = kg_hf_json_load(dir, "config.json", 0, &f.config, err);
    if (status == KG_OK && !f.config) status = no_config(dir, err);
    if (status == KG_OK) status = kg_hf_json_load(dir, "generation_config.json", 0, &f.generation_config, err);
    if (status == KG_OK) status = open_weights(&f, err);
    if (status == KG_OK) *folder = f;
    else kg_hf_folder_close(&f);
    return status;
}

void kg_hf_folder_close(struct kg_hf_folder *folder) {
    free(folder->tensors);
    for (size_t i = 0; i < folder->n_files; i++) kg_safetensors_close(folder->files[i]);
    free(folder->files);
    json_decref(folder->generation_config);
    json_decref(folder->config);
    *folder = (struct kg_hf_folder){ 0 };
}

struct kg_hf_tensor *kg_hf_folder_find(const struct kg_hf_folder *folder, const char *name) {
    const struct kg_safetensors_tensor wanted = { .name = name };
    const struct kg_hf_tensor key = { .tensor = &wanted };
    return folder->n_tensors ? bsearch(&key, folder->tensors, folder->n_tensors, sizeof *folder->tensors, compare_names)
                             : NULL;
}

static bool is_same_file(const struct stat *file, const char *path) {
    struct stat other;
    return stat(path, &other) == 0 && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
}

enum kg_status kg_hf_check_out_path(const struct kg_hf_folder *folder, const char *out_path, struct kg_error *err) {
    static const char *const READ[] = { "config.json",           "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "chat_template.jinja",    INDEX_NAME };
    struct stat out;
    bool found = false;
    if (stat(out_path, &out) != 0) return KG_OK;
    if (S_ISDIR(out.st_mode)) return kg_fail(err, KG_ERR_USAGE, "%s is a folder", out_path);
    for (size_t i = 0; i < folder->n_files && !found; i++)
        found = is_same_file(&out, kg_safetensors_path(folder->files[i]));
    for (size_t i = 0; i < KG_COUNT_OF(READ) && !found; i++) {
        char *path = kg_path_join(folder->dir, READ[i]);
        found = is_same_file(&out, path);
        free(path);
    }
    if (!found) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE, "%s is a file of the model to convert (%s)", out_path, folder->dir);
}
