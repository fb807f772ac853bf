/* Helpers of the files that read config.json. */
#ifndef KIGO_CONVERT_HF_CONFIG_PRIVATE_H
#define KIGO_CONVERT_HF_CONFIG_PRIVATE_H

#include "convert/hf_config.h"

/* The first non-null member among names (a list of NUL-terminated names, ended by an empty one); NULL if there is none.
 * *found (if not NULL) is its name, or the first name. */
const json_t *kg_hf_get(const json_t *object, const char *names, const char **found);

/* *out = a finite number of 0 or more. */
KG_WARN_UNUSED enum kg_status kg_hf_number(const char *dir, const char *name, const json_t *value, double *out,
                                           struct kg_error *err);

/* *out = true or false; `otherwise` if it is absent or null. */
KG_WARN_UNUSED enum kg_status kg_hf_flag(const char *dir, const json_t *json, const char *name, bool otherwise,
                                         bool *out, struct kg_error *err);

/* Errors that show the value: KG_ERR_FORMAT and KG_ERR_UNSUPPORTED. */
KG_WARN_UNUSED enum kg_status kg_hf_bad(const char *dir, const char *name, const json_t *value, const char *needs,
                                        struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_hf_unsupported(const char *dir, const char *name, const json_t *value,
                                                const char *only, struct kg_error *err);

/* Reads config->rope and n_rot; head_dim must be known. */
KG_WARN_UNUSED enum kg_status kg_hf_rope_read(const char *dir, const json_t *json, struct kg_hf_config *config,
                                              struct kg_error *err);

#endif
