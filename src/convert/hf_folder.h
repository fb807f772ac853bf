/* A Hugging Face model folder: config.json, an optional generation_config.json, and the tensors of model.safetensors or
 * of the files that model.safetensors.index.json names ({"weight_map": {tensor: file}}).
 *
 * The tensors of all files form one set. KG_ERR_FORMAT if a name is in two files, if the index names a tensor or file
 * that does not exist or omits a tensor, or if a file name leads out of the folder. */
#ifndef KIGO_CONVERT_HF_FOLDER_H
#define KIGO_CONVERT_HF_FOLDER_H

#include "format/safetensors.h"
#include <jansson.h>
#include <stdbool.h>

struct kg_hf_tensor {
    const struct kg_safetensors_tensor *tensor;
    const struct kg_safetensors *file;
    bool used; /* set by the consumer; initially false */
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

/* Opens a folder; its files stay mapped until it is closed. On failure there is nothing to free. KG_ERR_NOT_FOUND
 * without a config.json or weights. */
KG_WARN_UNUSED enum kg_status kg_hf_folder_open(const char *dir, struct kg_hf_folder *folder, struct kg_error *err);
void kg_hf_folder_close(struct kg_hf_folder *folder);

/* NULL if there is none. */
struct kg_hf_tensor *kg_hf_folder_find(const struct kg_hf_folder *folder, const char *name);

/* KG_ERR_USAGE if out_path is a file of the folder that is read: one of `files`, or a tokenizer or configuration file
 * in folder->dir. Only folder->dir must be set. */
KG_WARN_UNUSED enum kg_status kg_hf_check_out_path(const struct kg_hf_folder *folder, const char *out_path,
                                                   struct kg_error *err);

/* *json = the object in dir/name; NULL if the file is absent. flags: jansson's decoding flags. */
KG_WARN_UNUSED enum kg_status kg_hf_json_load(const char *dir, const char *name, size_t flags, json_t **json,
                                              struct kg_error *err);

#endif
