/* Files of the payload: how each is named, written and appended to. */
#include "bundle/internal.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/utf8.h"
#include "bundle/records.h"
#include "bundle/stored.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool kg_bundle_path_ok(const char *relative) {
    enum { MAX_PATH_BYTES = 1024, MAX_PART_BYTES = 255 };
    if (!*relative || strlen(relative) > MAX_PATH_BYTES) return false;
    for (const char *part = relative;;) {
        const size_t len = strcspn(part, "/");
        if (len == 0 || len > MAX_PART_BYTES || (len == 1 && part[0] == '.') ||
            (len == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (!part[len]) break;
        part += len + 1;
    }
    if (!kg_utf8_valid(relative, strlen(relative))) return false;
    for (const char *s = relative; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7F || *s == '\\' || *s == '%') return false;
    return true;
}

enum kg_status kg_fd_sync(int fd, const char *what, struct kg_error *err) {
    if (fdatasync(fd) == 0) return KG_OK;
    return kg_fail(err, KG_ERR_IO, "cannot sync %s: %s", what, strerror(errno));
}

enum kg_status kg_ndjson_append(int fd, const json_t *line, bool sync, const char *what, struct kg_error *err) {
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (!text) return kg_fail(err, KG_ERR_USAGE, "%s: a line that is not JSON", what);
    const size_t len = strlen(text);
    text[len] = '\n'; /* in the place of the NUL, so that the line is one write */
    enum kg_status status = kg_fd_write(fd, text, len + 1, err);
    free(text);
    if (status != KG_OK) return kg_error_context(err, status, "%s", what);
    return sync ? kg_fd_sync(fd, what, err) : KG_OK;
}

static enum kg_status open_file(const char *dir, const char *relative, int flags, int *fd, struct kg_error *err) {
    if (!kg_bundle_path_ok(relative)) return kg_fail(err, KG_ERR_USAGE, "'%s' is not a path inside a bundle", relative);
    return kg_beneath_create(dir, relative, flags, fd, err);
}

enum kg_status kg_bundle_open_append(const char *dir, const char *relative, int *fd, struct kg_error *err) {
    return open_file(dir, relative, O_APPEND, fd, err);
}

enum kg_status kg_bundle_put(const char *dir, const char *relative, const void *data, size_t size_bytes,
                             struct kg_error *err) {
    int fd = -1;
    enum kg_status status = open_file(dir, relative, O_TRUNC, &fd, err);
    if (status != KG_OK) return status;
    status = kg_fd_write(fd, data, size_bytes, err);
    if (status != KG_OK) kg_error_context(err, status, "%s/%s", dir, relative);
    if (close(fd) != 0 && status == KG_OK)
        status = kg_fail(err, KG_ERR_IO, "cannot close %s/%s: %s", dir, relative, strerror(errno));
    return status;
}

enum kg_status kg_bundle_put_json(const char *dir, const char *relative, const json_t *json, struct kg_error *err) {
    char *text = json_dumps(json, JSON_INDENT(2));
    if (!text) return kg_fail(err, KG_ERR_INTERNAL, "%s cannot be written as JSON", relative);
    const size_t len = strlen(text);
    text[len] = '\n';
    const enum kg_status status = kg_bundle_put(dir, relative, text, len + 1, err);
    free(text);
    return status;
}

static enum kg_status append_samples(struct kg_bundle *bundle, const float *samples, size_t n, uint64_t *offset,
                                     struct kg_error *err) {
    enum kg_status status = kg_fd_write(bundle->samples_fd, samples, n * sizeof *samples, err);
    if (status != KG_OK) return kg_error_context(err, status, "samples.bin");
    bundle->samples_unsynced = true;
    *offset = bundle->n_samples;
    bundle->n_samples += n;
    return KG_OK;
}

enum kg_status kg_bundle_samples(struct kg_bundle *bundle, const float *samples, size_t n, uint64_t *offset,
                                 struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK) status = append_samples(bundle, samples, n, offset, err);
    return kg_bundle_leave(bundle, status, err);
}

static enum kg_status append_transcript(struct kg_bundle *bundle, const char *name, const json_t *line,
                                        struct kg_error *err) {
    if (strchr(name, '/')) return kg_fail(err, KG_ERR_USAGE, "'%s' is not the name of a transcript", name);
    char *relative = kg_xasprintf("data/transcripts/%s.ndjson", name);
    int fd = -1;
    enum kg_status status = kg_bundle_open_append(bundle->dir, relative, &fd, err);
    if (status == KG_OK) status = kg_ndjson_append(fd, line, false, relative, err);
    if (fd >= 0) close(fd);
    free(relative);
    return status;
}

enum kg_status kg_bundle_transcript(struct kg_bundle *bundle, const char *name, const kg_json *line,
                                    struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK) status = append_transcript(bundle, name, line, err);
    return kg_bundle_leave(bundle, status, err);
}

/* Files only this module writes: the records, what describes the run, what seal derives, and compressed forms. */
static bool is_reserved(const char *relative) {
    static const char *const NAMES[] = {
        "plan.ndjson", "journal.ndjson", "results.ndjson", "samples.bin", "env.json",    "build.json",
        "source.json", "dirty.diff",     "summary.json",   "junit.xml",   "results.tap", "results.csv",
        "report.md",   "recovery",       "telemetry.csv",  "report.html",
    };
    const size_t first = strcspn(relative, "/");
    if (kg_stored_is_compressed(relative)) return true;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strlen(NAMES[i]) == first && memcmp(NAMES[i], relative, first) == 0) return true;
    return false;
}

enum kg_status kg_bundle_file(struct kg_bundle *bundle, const char *relative, const void *data, size_t size_bytes,
                              struct kg_error *err) {
    struct kg_error own;
    if (!err) err = &own;
    enum kg_status status = kg_bundle_enter(bundle, err);
    if (status == KG_OK && !kg_bundle_path_ok(relative))
        status = kg_fail(err, KG_ERR_USAGE, "'%s' is not a path inside data/", relative);
    if (status == KG_OK && is_reserved(relative))
        status = kg_fail(err, KG_ERR_USAGE, "data/%s is written by the bundle itself", relative);
    if (status == KG_OK) {
        char *inside = kg_xasprintf("data/%s", relative);
        status = kg_bundle_put(bundle->dir, inside, data, size_bytes, err);
        free(inside);
    }
    return kg_bundle_leave(bundle, status, err);
}
