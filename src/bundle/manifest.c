#include "bundle/manifest.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "base/beneath.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char KG_BAGIT_TXT[] = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";

bool kg_manifest_is_payload(const char *path) {
    return strncmp(path, "data/", 5) == 0;
}

bool kg_manifest_is_tag(const char *path) {
    return !kg_manifest_is_payload(path) && strncmp(path, "tagmanifest-", 12) != 0;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct kg_manifest_line *)a)->path, ((const struct kg_manifest_line *)b)->path);
}

const struct kg_manifest_line *kg_manifest_find(const struct kg_manifest *manifest, const char *path) {
    if (manifest->n_lines == 0) return NULL;
    const struct kg_manifest_line key = { .path = (char *)(uintptr_t)path };
    return bsearch(&key, manifest->lines, manifest->n_lines, sizeof *manifest->lines, by_path);
}

void kg_manifest_free(struct kg_manifest *manifest) {
    for (size_t i = 0; i < manifest->n_lines; i++) free(manifest->lines[i].path);
    free(manifest->lines);
    *manifest = (struct kg_manifest){ NULL, 0 };
}

struct manifest_reading {
    const char *file;
    struct kg_manifest *manifest;
    struct kg_bundle_findings *findings;
};

static void read_manifest_line(void *arg, size_t number, const char *text, size_t size_bytes) {
    enum { HEX = KG_SHA256_HEX_SIZE - 1 };
    struct manifest_reading *reading = arg;
    struct kg_manifest *manifest = reading->manifest;
    char *line = kg_xstrndup(text, size_bytes);
    const size_t len = strlen(line); /* shorter than size_bytes if the line holds a NUL */
    const size_t blanks = len > HEX ? strspn(line + HEX, " \t") : 0;
    const char *path = line + (len > HEX ? HEX + blanks : len);
    if (blanks > 0 && *path == '*') path++;
    if (len != size_bytes || blanks == 0 || strspn(line, "0123456789abcdef") != HEX) {
        kg_finding_add(reading->findings, "format", reading->file, "line %zu is not '<sha256>  <path>': %.100s", number,
                       line);
    } else if (!kg_bundle_path_ok(path)) {
        kg_finding_add(reading->findings, "format", reading->file, "line %zu: unsafe path '%.200s'", number, path);
    } else {
        if ((manifest->n_lines & (manifest->n_lines + 1)) == 0) /* full at 2^n - 1 */
            manifest->lines = kg_xrealloc(manifest->lines, (manifest->n_lines + 1) * 2 * sizeof *manifest->lines);
        struct kg_manifest_line *added = &manifest->lines[manifest->n_lines++];
        added->path = kg_xstrdup(path);
        memcpy(added->sha256, line, HEX);
        added->sha256[HEX] = '\0';
    }
    free(line);
}

void kg_manifest_parse(const char *file, const char *text, size_t size_bytes, struct kg_manifest *manifest,
                       struct kg_bundle_findings *findings) {
    *manifest = (struct kg_manifest){ NULL, 0 };
    struct manifest_reading reading = { file, manifest, findings };
    size_t torn = 0;
    kg_ndjson_each(text, size_bytes, read_manifest_line, &reading, &torn);
    if (torn > 0) kg_finding_add(findings, "format", file, "ends in %zu bytes without a newline", torn);
    if (manifest->n_lines > 1) qsort(manifest->lines, manifest->n_lines, sizeof *manifest->lines, by_path);
    for (size_t i = 1; i < manifest->n_lines; i++)
        if (strcmp(manifest->lines[i - 1].path, manifest->lines[i].path) == 0)
            kg_finding_add(findings, "duplicate", file, "'%s' is listed twice", manifest->lines[i].path);
}

enum kg_status kg_file_sync(const char *dir, const char *relative, struct kg_error *err) {
    int fd = -1;
    enum kg_status status = kg_beneath_open(dir, relative, &fd, NULL, err);
    if (status != KG_OK) return status;
    status = kg_fd_sync(fd, relative, err);
    close(fd);
    return status;
}

/* Asks the kernel to begin writing, so that the syncs that follow one by one find most of it done. */
static void begin_writing(const char *dir, const char *relative) {
    int fd = -1;
    if (kg_beneath_open(dir, relative, &fd, NULL, NULL) != KG_OK) return; /* the sync will say why */
    sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    close(fd);
}

static bool is_part(const struct kg_tree_entry *entry, bool (*wanted)(const char *path)) {
    return entry->kind != KG_TREE_DIR && wanted(entry->path);
}

enum kg_status kg_manifest_sync(const char *dir, const struct kg_tree *tree, bool (*wanted)(const char *path),
                                struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < tree->n_entries && status == KG_OK; i++) {
            if (!is_part(&tree->entries[i], wanted)) continue;
            if (pass == 0) begin_writing(dir, tree->entries[i].path);
            else status = kg_file_sync(dir, tree->entries[i].path, err);
        }
    return status;
}

enum kg_status kg_manifest_make(const char *dir, const struct kg_tree *tree, bool (*wanted)(const char *path),
                                struct kg_buffer *out, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < tree->n_entries && status == KG_OK; i++) {
        const struct kg_tree_entry *entry = &tree->entries[i];
        if (!is_part(entry, wanted)) continue;
        if (entry->kind != KG_TREE_FILE || !kg_bundle_path_ok(entry->path))
            return kg_fail(err, KG_ERR_FORMAT, "%s/%s cannot be part of a bundle", dir, entry->path);
        char hex[KG_SHA256_HEX_SIZE];
        status = kg_beneath_hash(dir, entry->path, hex, err);
        if (status == KG_OK) kg_buffer_printf(out, "%s  %s\n", hex, entry->path);
    }
    return status;
}

struct info_reading {
    json_t *labels;
    struct kg_bundle_findings *findings;
};

static void read_info_line(void *arg, size_t number, const char *text, size_t size_bytes) {
    struct info_reading *reading = arg;
    char *line = kg_xstrndup(text, size_bytes);
    char *colon = strstr(line, ": ");
    json_t *value = colon ? json_string(colon + 2) : NULL;
    json_t *label = colon ? json_stringn(line, (size_t)(colon - line)) : NULL;
    if (strlen(line) != size_bytes || !value || !label || colon == line) {
        kg_finding_add(reading->findings, "format", "bag-info.txt", "line %zu is not 'label: value'", number);
    } else if (json_object_get(reading->labels, json_string_value(label))) {
        kg_finding_add(reading->findings, "duplicate", "bag-info.txt", "line %zu: %.100s again", number, line);
    } else {
        json_object_set(reading->labels, json_string_value(label), value);
    }
    json_decref(label);
    json_decref(value);
    free(line);
}

json_t *kg_bag_info_parse(const char *text, size_t size_bytes, struct kg_bundle_findings *findings) {
    struct info_reading reading = { json_object(), findings };
    size_t torn = 0;
    kg_ndjson_each(text, size_bytes, read_info_line, &reading, &torn);
    if (torn > 0) kg_finding_add(findings, "format", "bag-info.txt", "ends in %zu bytes without a newline", torn);
    return reading.labels;
}
