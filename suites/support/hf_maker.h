/* Hugging Face folders for the tests of convert: those of fixtures/convert/expected.json, whole or with something
 * wrong. */
#ifndef KIGO_SUITES_HF_MAKER_H
#define KIGO_SUITES_HF_MAKER_H

#include <jansson.h>
#include <stddef.h>

enum kg_hf_edit_kind {
    KG_HF_NO_EDIT,
    KG_HF_DROP,  /* the tensor is not there */
    KG_HF_ADD,   /* a float32 tensor (2, 2) of that name is there too */
    KG_HF_DTYPE, /* of bytes: it is of the type `text`, its values zeros */
    KG_HF_SHAPE, /* its dimensions the other way around; a vector is longer by one */
    KG_HF_POKE,  /* element `at` is `value`; of a U8 tensor too */
};

struct kg_hf_edit {
    enum kg_hf_edit_kind kind;
    const char *tensor, *text;
    size_t at;
    double value;
};

/* Edits of what is written, none of them needed. Files' texts: NULL as usual, "" for no such file. */
struct kg_hf_changes {
    struct kg_hf_edit edits[2];
    const char *config;      /* JSON whose members replace those of config.json */
    const char *prefix;      /* before every tensor's name */
    const char *tokenizer;   /* of tokenizer.json; NULL: the 256 bytes, two merges, an end */
    const char *more_tokens; /* JSON objects behind the last of added_tokens, with a comma before each */
    const char *generation;  /* of generation_config.json; NULL: no such file */
    const char *index;       /* of model.safetensors.index.json, though the weights are in model.safetensors */
    const char *config_text; /* of config.json instead */
};

/* The entry of that name; borrowed, for the life of the process. */
const json_t *kg_hf_expected(const char *name);

/* Writes the folder, which is made. changes may be NULL. Fails the case where it cannot. */
void kg_hf_make(const char *dir, const json_t *expected, const struct kg_hf_changes *changes);

#endif
