/* Reading one value of a model's metadata after the other: what the files of config share. */
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

/* "<architecture>.<suffix>", kept in reader->key. */
const char *kg_config_key(struct kg_config_reader *in, const char *suffix);

/* A count of at least 1. An absent key leaves *out alone if that is a default (not 0), else it is an error. */
KG_WARN_UNUSED enum kg_status kg_config_count(struct kg_config_reader *in, const char *suffix, uint32_t *out);

/* A count that may be 0; an absent key leaves *out alone. */
KG_WARN_UNUSED enum kg_status kg_config_count_or_none(struct kg_config_reader *in, const char *suffix, uint32_t *out);

/* A finite number >= 0 (> 0 if positive); an absent key leaves *out alone if that is a default (not NaN), else it is an
 * error. */
KG_WARN_UNUSED enum kg_status kg_config_number(struct kg_config_reader *in, const char *suffix, bool positive,
                                               float *out);

/* config_rope.c: positions, from dims that turn to scalings. */
KG_WARN_UNUSED enum kg_status kg_config_rope(struct kg_config_reader *in, struct kg_model_config *config);

/* config_layers.c: windows and sinks of attention; gates, activations and experts. */
KG_WARN_UNUSED enum kg_status kg_config_windows(struct kg_config_reader *in, struct kg_model_config *config);
KG_WARN_UNUSED enum kg_status kg_config_ffn(struct kg_config_reader *in, struct kg_model_config *config);

#endif
