/* Reads single values of a model's metadata; shared by the config_*.c files. */
#ifndef KIGO_MODEL_CONFIG_READER_H
#define KIGO_MODEL_CONFIG_READER_H

#include "model/config.h"

struct kg_config_reader {
    const struct kg_gguf *gguf;
    const char *path;
    const struct kg_architecture *architecture;
    struct kg_error *err;
    char key[96]; /* the last one made */
};

/* "<architecture>.<suffix>", stored in in->key. */
const char *kg_config_key(struct kg_config_reader *in, const char *suffix);

/* A count of at least 1. If the key is absent, *out keeps its value as the default; 0 means no default, which is an
 * error. */
KG_WARN_UNUSED enum kg_status kg_config_count(struct kg_config_reader *in, const char *suffix, uint32_t *out);

/* A count that may be 0. If the key is absent, *out is unchanged. */
KG_WARN_UNUSED enum kg_status kg_config_count_or_none(struct kg_config_reader *in, const char *suffix, uint32_t *out);

/* A finite number >= 0 (> 0 if positive). If the key is absent, *out keeps its value as the default; NaN means no
 * default, which is an error. */
KG_WARN_UNUSED enum kg_status kg_config_number(struct kg_config_reader *in, const char *suffix, bool positive,
                                               float *out);

/* config_rope.c: rotary positions and their scaling. */
KG_WARN_UNUSED enum kg_status kg_config_rope(struct kg_config_reader *in, struct kg_model_config *config);

/* config_layers.c: windows and sinks of attention; gates, activations and experts. */
KG_WARN_UNUSED enum kg_status kg_config_windows(struct kg_config_reader *in, struct kg_model_config *config);
KG_WARN_UNUSED enum kg_status kg_config_ffn(struct kg_config_reader *in, struct kg_model_config *config);

#endif
