/* Opening a GGUF file: the header, then keys (gguf_parse_keys.c), then tensors (gguf_parse_tensors.c). */
#include "format/gguf_private.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum kg_status check_version(uint32_t version, struct kg_error *err) {
    if (version == 2 || version == 3) return KG_OK;
    if (version == 1)
        return kg_fail(err, KG_ERR_SCHEMA, "GGUF version 1 is not read (only 2 and 3); convert the model again");
    const uint32_t swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped <= 0xFFFF)
        return kg_fail(err, KG_ERR_SCHEMA, "big-endian GGUF file (version %" PRIu32 "); only little-endian is read",
                       swapped);
    return kg_fail(err, KG_ERR_SCHEMA, "GGUF version %" PRIu32 " is not read (only 2 and 3)", version);
}

static enum kg_status check_magic(struct kg_gguf_cursor *c, struct kg_error *err) {
    const uint8_t *magic;
    enum kg_status status = kg_gguf_take(c, 4, "the magic", &magic, err);
    if (status == KG_OK) status = kg_check_fetched(c->data, c->size_bytes, err);
    if (status != KG_OK || memcmp(magic, "GGUF", 4) == 0) return status;
    return kg_fail(err, KG_ERR_FORMAT, "not a GGUF file: it begins with '%s', not 'GGUF'",
                   kg_quote((const char *)magic, 4).text);
}

static enum kg_status read_alignment(struct kg_gguf *gguf, struct kg_error *err) {
    gguf->alignment = KG_GGUF_DEFAULT_ALIGNMENT;
    if (!kg_gguf_find_key(gguf, "general.alignment")) return KG_OK;
    uint32_t alignment;
    const enum kg_status status = kg_gguf_get_u32(gguf, "general.alignment", &alignment, err);
    if (status != KG_OK) return status;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        return kg_fail(err, KG_ERR_FORMAT, "%s: key 'general.alignment': %" PRIu32 " is not a power of two", gguf->path,
                       alignment);
    gguf->alignment = alignment;
    return KG_OK;
}

static enum kg_status parse(struct kg_gguf *gguf, struct kg_gguf_cursor *c, struct kg_error *err) {
    uint64_t n_tensors, n_keys;
    enum kg_status status = check_magic(c, err);
    if (status == KG_OK) status = kg_gguf_take_u32(c, "the version", &gguf->version, err);
    if (status == KG_OK) status = check_version(gguf->version, err);
    if (status == KG_OK) status = kg_gguf_take_u64(c, "the number of tensors", &n_tensors, err);
    if (status == KG_OK) status = kg_gguf_take_u64(c, "the number of keys", &n_keys, err);
    if (status == KG_OK) status = kg_gguf_parse_keys(gguf, c, n_keys, err);
    if (status != KG_OK) return kg_error_context(err, status, "%s", gguf->path);
    status = read_alignment(gguf, err);
    if (status != KG_OK) return status;
    status = kg_gguf_parse_tensors(gguf, c, n_tensors, err);
    return status == KG_OK ? KG_OK : kg_error_context(err, status, "%s", gguf->path);
}

/* Takes ownership of the map. */
static enum kg_status parse_image(const void *data, size_t size_bytes, struct kg_file_map map, const char *path,
                                  struct kg_gguf **out, struct kg_error *err) {
    struct kg_gguf *gguf = kg_xcalloc(1, sizeof *gguf);
    gguf->path = kg_xstrdup(path);
    gguf->map = map;
    struct kg_gguf_cursor c = { data, size_bytes, 0 };
    const enum kg_status status = parse(gguf, &c, err);
    if (status == KG_OK) *out = gguf;
    else kg_gguf_close(gguf);
    return status;
}

enum kg_status kg_gguf_parse(const void *data, size_t size_bytes, const char *name, struct kg_gguf **gguf,
                             struct kg_error *err) {
    return parse_image(data, size_bytes, KG_NO_FILE_MAP, name, gguf, err);
}

enum kg_status kg_gguf_open(const char *path, struct kg_gguf **gguf, struct kg_error *err) {
    struct kg_file_map map;
    if (kg_path_is_dir(path))
        return kg_fail(
            err, KG_ERR_USAGE,
            "%s is a folder, not a regular file; of one as on Hugging Face, 'kigo convert' makes a GGUF file", path);
    const enum kg_status status = kg_file_map_open(path, &map, err);
    if (status != KG_OK) return status;
    return parse_image(map.data, map.size_bytes, map, path, gguf, err);
}

void kg_gguf_close(struct kg_gguf *gguf) {
    if (!gguf) return;
    for (size_t i = 0; i < gguf->n_keys; i++)
        if (gguf->keys[i].type == KG_GGUF_ARRAY) free((void *)(uintptr_t)gguf->keys[i].value.array.strings);
    free(gguf->keys);
    free(gguf->tensors);
    free(gguf->key_names.sorted);
    free(gguf->tensor_names.sorted);
    kg_file_map_close(&gguf->map);
    free(gguf->path);
    free(gguf);
}

const char *kg_gguf_path(const struct kg_gguf *gguf) {
    return gguf->path;
}

const struct kg_file_map *kg_gguf_map(const struct kg_gguf *gguf) {
    return gguf->map.data ? &gguf->map : NULL;
}

uint32_t kg_gguf_version(const struct kg_gguf *gguf) {
    return gguf->version;
}

uint64_t kg_gguf_alignment(const struct kg_gguf *gguf) {
    return gguf->alignment;
}

size_t kg_gguf_n_keys(const struct kg_gguf *gguf) {
    return gguf->n_keys;
}

size_t kg_gguf_n_tensors(const struct kg_gguf *gguf) {
    return gguf->n_tensors;
}

const struct kg_gguf_key *kg_gguf_key_at(const struct kg_gguf *gguf, size_t index) {
    return &gguf->keys[index];
}

const struct kg_gguf_tensor *kg_gguf_tensor_at(const struct kg_gguf *gguf, size_t index) {
    return &gguf->tensors[index];
}

const struct kg_gguf_key *kg_gguf_find_key(const struct kg_gguf *gguf, const char *name) {
    return kg_gguf_lookup(&gguf->key_names, name);
}

const struct kg_gguf_tensor *kg_gguf_find_tensor(const struct kg_gguf *gguf, const char *name) {
    return kg_gguf_lookup(&gguf->tensor_names, name);
}
