/* Recognises the pre-tokenizer of a tokenizer.json. Anything that kigo would do differently is an error. */
#include "base/size.h"
#include "convert/vocab_source.h"
#include <string.h>

struct described {
    const char *pattern; /* NULL: the one built into ByteLevel */
    bool byte_level, nfc;
};

static const char *type_of(const json_t *object) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "(no type)";
}

static bool is_type(const json_t *object, const char *type) {
    return strcmp(type_of(object), type) == 0;
}

static enum kg_status unsupported(const char *dir, const char *what, const char *value, struct kg_error *err) {
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s/tokenizer.json: %s '%s' is not one kigo can convert", dir, what, value);
}

/* Calls read on the element itself, or on each of a Sequence's. */
static enum kg_status each_of(const char *dir, const json_t *element, const char *list_name, struct described *d,
                              enum kg_status (*read)(const char *, const json_t *, struct described *,
                                                     struct kg_error *),
                              struct kg_error *err) {
    if (!element || json_is_null(element)) return KG_OK;
    if (!is_type(element, "Sequence")) return read(dir, element, d, err);
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(element, list_name), i, item) {
        const enum kg_status status = read(dir, item, d, err);
        if (status != KG_OK) return status;
    }
    return KG_OK;
}

static enum kg_status read_normalizer(const char *dir, const json_t *n, struct described *d, struct kg_error *err) {
    if (!is_type(n, "NFC")) return unsupported(dir, "the normalizer", type_of(n), err);
    d->nfc = true;
    return KG_OK;
}

static enum kg_status read_split(const char *dir, const json_t *split, struct described *d, struct kg_error *err) {
    const char *regex = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    const bool invert = json_is_true(json_object_get(split, "invert"));
    if (!regex || d->pattern || d->byte_level)
        return unsupported(dir, "the pre-tokenizer's sequence with", "Split", err);
    /* Both behaviours make matches the pieces. They differ only in text between matches, and the known patterns leave
     * none. */
    if (!behavior || !((strcmp(behavior, "Isolated") == 0) || (strcmp(behavior, "Removed") == 0 && invert)))
        return unsupported(dir, "the Split's behavior", behavior ? behavior : "(none)", err);
    d->pattern = regex;
    return KG_OK;
}

static enum kg_status read_pre_tokenizer(const char *dir, const json_t *p, struct described *d, struct kg_error *err) {
    if (is_type(p, "Split")) return read_split(dir, p, d, err);
    if (!is_type(p, "ByteLevel")) return unsupported(dir, "the pre-tokenizer", type_of(p), err);
    if (json_is_true(json_object_get(p, "add_prefix_space")))
        return unsupported(dir, "the pre-tokenizer with", "add_prefix_space", err);
    const json_t *use_regex = json_object_get(p, "use_regex"); /* true unless the file says otherwise */
    const bool own_pattern = !json_is_false(use_regex);
    if (own_pattern == (d->pattern != NULL))
        return unsupported(dir, "the pre-tokenizer's", own_pattern ? "two patterns" : "lack of a pattern", err);
    d->byte_level = true;
    return KG_OK;
}

static bool has_pattern(const struct kg_pre_kind *kind, const struct described *d) {
    return d->pattern ? strcmp(kind->published, d->pattern) == 0 : kind->from_byte_level;
}

enum kg_status kg_vocab_source_kind(const struct kg_vocab_source *source, const struct kg_pre_kind **kind,
                                    struct kg_error *err) {
    const char *dir = source->dir;
    const json_t *file = source->tokenizer;
    struct described d = { 0 };
    enum kg_status status = each_of(dir, json_object_get(file, "normalizer"), "normalizers", &d, read_normalizer, err);
    if (status == KG_OK)
        status = each_of(dir, json_object_get(file, "pre_tokenizer"), "pretokenizers", &d, read_pre_tokenizer, err);
    if (status != KG_OK) return status;
    if (!d.byte_level) return unsupported(dir, "the pre-tokenizer", "without ByteLevel", err);
    const char *pattern = d.pattern ? d.pattern : "of ByteLevel";
    const struct kg_pre_kind *near = NULL;
    for (size_t i = 0; i < KG_N_PRE_KINDS; i++) {
        const struct kg_pre_kind *k = &KG_PRE_KINDS[i];
        if (!has_pattern(k, &d)) continue;
        near = k;
        if (k->nfc != d.nfc) continue;
        *kind = k;
        return KG_OK;
    }
    if (!near) return unsupported(dir, "the pre-tokenizer pattern", pattern, err);
    return kg_fail(err, KG_ERR_UNSUPPORTED,
                   "%s/tokenizer.json: the pattern is that of kind %s, which %s NFC, but this file %s", dir, near->name,
                   near->nfc ? "applies" : "does not apply", d.nfc ? "does" : "does not");
}
