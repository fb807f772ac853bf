/* A Hugging Face model folder: config.json, generation_config.json if it is there, and the tensors of model.safetensors
 * or of the files that model.safetensors.index.json names ({"weight_map": {tensor: file}}).
 *
 * The tensors of all files are one set: a name in two files, an index that names a tensor or file that is not there, or
 * that leaves a tensor out, is KG_ERR_FORMAT. File names of the index may not lead out of the folder. */
#ifndef KIGO_CONVERT_HF_FOLDER_H
#define KIGO_CONVERT_HF_FOLDER_H

#include "format/safetensors.h"
#include <jansson.h>
#include <stdbool.h>

struct kg_hf_tensor {
    const struct kg_safetensors_tensor *tensor;
    const struct kg_safetensors *file;
    bool used; /* for who consumes them; false at first */
};

struct kg_hf_folder {
    const char *dir;           /* borrowed */
    json_t *config;            /* config.json */
    json_t *generation_config; /* NULL: no such file */
    struct kg_safetensors **files;
    size_t n_files;
    struct kg_hf_tensor *tensors; /* sorted by name */
    size_t n_tensors;
};

/* The files are mapped until the folder is closed. On failure nothing is left to free. KG_ERR_NOT_FOUND without a
 * config.json or weights. */
KG_WARN_UNUSED enum kg_status kg_hf_folder_open(const char *dir, struct kg_hf_folder *folder, struct kg_error *err);
void kg_hf_folder_close(struct kg_hf_folder *folder);

/* NULL if there is none. */
struct kg_hf_tensor *kg_hf_folder_find(const struct kg_hf_folder *folder, const char *name);

/* KG_ERR_USAGE if what would be written to out_path replaced a file that is read: one of files, or of what folder->dir
 * (which may be all that is set) holds of tokenizer and configuration. */
KG_WARN_UNUSED enum kg_status kg_hf_check_out_path(const struct kg_hf_folder *folder, const char *out_path,
                                                   struct kg_error *err);

/* *json is the object in dir/name, NULL if the file is absent; flags are jansson's for decoding. */
KG_WARN_UNUSED enum kg_status kg_hf_json_load(const char *dir, const char *name, size_t flags, json_t **json,
                                              struct kg_error *err);

#endif
