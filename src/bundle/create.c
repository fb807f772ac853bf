/* Making a bundle's folder: its id, its lock, and the files that describe the run before it starts. */
#include "bundle/internal.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "bundle/source_record.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { COMMIT_DIGITS = 12, CREATE_ATTEMPTS = 16 };

static char *make_id(const struct kg_bundle_source *source, int64_t utc_us) {
    char utc[KG_UTC_TEXT_SIZE];
    kg_clock_utc_compact(utc_us, utc);
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint32_t)kg_clock_monotonic_ns() ^ ((uint32_t)getpid() << 16);
    return kg_xasprintf("%s-%.*s%s-%08x", utc, COMMIT_DIGITS, source->commit ? source->commit : "nogit",
                        source->dirty ? "-dirty" : "", random);
}

static enum kg_status lock(const char *dir, int operation, int *fd, struct kg_error *err) {
    int code = 0;
    *fd = -1;
    const int opened = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (opened < 0) {
        if (errno == ENOENT) return KG_OK;
        if (errno == ENOTDIR || errno == ELOOP)
            return kg_fail(err, KG_ERR_FORMAT, "%s is no folder: a bundle is one, and no link to one; move it away",
                           dir);
        return kg_fail(err, KG_ERR_IO, "cannot open %s: %s", dir, strerror(errno));
    }
    while (flock(opened, operation) != 0 && (code = errno) == EINTR) code = 0;
    if (code != 0) {
        close(opened);
        if (code == EWOULDBLOCK) return KG_OK;
        return kg_fail(err, KG_ERR_IO, "cannot lock %s: %s (bundles need a file system with flock)", dir,
                       strerror(code));
    }
    /* Between open and flock the owner may have renamed the folder away: then the path names nothing, or another one.
     */
    struct stat mine, there;
    const bool seen = fstat(opened, &mine) == 0 && lstat(dir, &there) == 0;
    const int why = errno;
    if (seen && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) {
        *fd = opened;
        return KG_OK;
    }
    close(opened);
    const bool gone = seen || why == ENOENT || why == ENOTDIR;
    return gone ? KG_OK : kg_fail(err, KG_ERR_IO, "cannot look at %s: %s", dir, strerror(why));
}

enum kg_status kg_bundle_lock(const char *dir, int *fd, struct kg_error *err) {
    return lock(dir, LOCK_EX | LOCK_NB, fd, err);
}

enum kg_status kg_bundle_lock_new(const char *dir, int *fd, struct kg_error *err) {
    return lock(dir, LOCK_EX, fd, err);
}

/* A fresh folder and its lock. A recover that came between making and locking takes the empty folder away; then
 * another id is tried. */
static enum kg_status make_dir(struct kg_bundle *bundle, const struct kg_bundle_source *source, struct kg_error *err) {
    for (int attempt = 0; attempt < CREATE_ATTEMPTS; attempt++) {
        free(bundle->id);
        free(bundle->dir);
        bundle->id = make_id(source, kg_clock_utc_us());
        bundle->dir = kg_xasprintf("%s/.tmp-%s", bundle->root, bundle->id);
        char *published = kg_path_join(bundle->root, bundle->id);
        const bool taken = kg_path_exists(published);
        free(published);
        if (taken) continue;
        if (mkdir(bundle->dir, 0755) != 0) {
            if (errno == EEXIST) continue;
            return kg_fail(err, KG_ERR_IO, "cannot make %s: %s", bundle->dir, strerror(errno));
        }
        const enum kg_status status = kg_bundle_lock_new(bundle->dir, &bundle->lock_fd, err);
        if (status != KG_OK || bundle->lock_fd >= 0) return status;
    }
    return kg_fail(err, KG_ERR_BUSY, "%s: no free bundle id after %d attempts", bundle->root, CREATE_ATTEMPTS);
}

static enum kg_status open_records(struct kg_bundle *bundle, struct kg_error *err) {
    const struct {
        const char *relative;
        int *fd;
    } files[] = {
        { "data/plan.ndjson", &bundle->plan_fd },
        { "data/journal.ndjson", &bundle->journal_fd },
        { "data/results.ndjson", &bundle->results_fd },
        { "data/samples.bin", &bundle->samples_fd },
    };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && status == KG_OK; i++)
        status = kg_bundle_open_append(bundle->dir, files[i].relative, files[i].fd, err);
    return status;
}

static enum kg_status describe(struct kg_bundle *bundle, const struct kg_bundle_options *options,
                               const struct kg_bundle_source *source, struct kg_error *err) {
    json_t *env = kg_bundle_environment(options);
    json_t *build = kg_bundle_build();
    json_t *open_event =
        json_pack("{s:s, s:I, s:s, s:o}", "event", "open", "utc_us", (json_int_t)kg_clock_utc_us(), "bundle_id",
                  bundle->id, "seed", json_sprintf("%llu", (unsigned long long)options->seed));
    enum kg_status status = kg_bundle_put_json(bundle->dir, "data/env.json", env, err);
    if (status == KG_OK) status = kg_bundle_put_json(bundle->dir, "data/build.json", build, err);
    if (status == KG_OK) status = kg_bundle_put_json(bundle->dir, "data/source.json", source->json, err);
    if (status == KG_OK) status = kg_bundle_put(bundle->dir, "data/dirty.diff", source->diff, source->diff_bytes, err);
    if (status == KG_OK) status = open_records(bundle, err);
    if (status == KG_OK) status = kg_ndjson_append(bundle->journal_fd, open_event, true, "journal.ndjson", err);
    json_decref(open_event);
    json_decref(build);
    json_decref(env);
    return status;
}

/* source.json of what the programs were built from: the tree, or an installed kigo's record. */
static enum kg_status find_source(const struct kg_bundle_options *options, struct kg_bundle_source *source,
                                  struct kg_error *err) {
    const char *built_from = options->built_from, *dir = options->source_dir;
    struct kg_error why;
    const enum kg_status status = kg_bundle_source(dir, source, &why);
    const bool may_be_unknown = built_from && options->other_tree && status == KG_ERR_INCOMPLETE;
    if (status != KG_OK && !may_be_unknown) return kg_fail(err, status, "%s", why.message);
    if (status == KG_OK && (!built_from || kg_bundle_source_is(source, built_from))) return KG_OK;
    if (dir && !options->other_tree)
        return kg_fail(err, KG_ERR_INCOMPLETE,
                       "this program was not built from the sources that are in %s now: run 'make' in its build folder",
                       dir);
    const bool installed = !dir && options->source_record;
    const enum kg_status read =
        installed ? kg_source_record_read(options->source_record, built_from, source, &why) : KG_ERR_NOT_FOUND;
    if (read == KG_OK) return KG_OK;
    if (!kg_source_record_is_none(read))
        return kg_fail(err, KG_ERR_INCOMPLETE, "what this kigo was built from is not known: %s", why.message);
    kg_bundle_source_unknown(source, built_from,
                             status != KG_OK || installed ? why.message
                             : dir ? "the source folder holds other sources than those the programs were built from"
                                   : "the source folder is not known");
    return KG_OK;
}

enum kg_status kg_bundle_create(const struct kg_bundle_options *options, struct kg_bundle **out, struct kg_error *err) {
    struct kg_bundle *bundle = kg_xcalloc(1, sizeof *bundle);
    bundle->begun_ns = kg_clock_monotonic_ns();
    bundle->lock_fd = bundle->plan_fd = bundle->journal_fd = bundle->results_fd = bundle->samples_fd = -1;
    bundle->root = kg_xstrdup(options->root);
    bundle->compress = options->compress;
    bundle->sign_key = options->sign_key ? kg_xstrdup(options->sign_key) : NULL;
    bundle->plan = json_object();
    bundle->state = json_object();

    struct kg_bundle_source source = { 0 };
    enum kg_status status = find_source(options, &source, err);
    if (status != KG_OK) goto cleanup;
    status = kg_dir_make_synced(bundle->root, err);
    if (status != KG_OK) goto cleanup;
    status = make_dir(bundle, &source, err);
    if (status == KG_OK) status = describe(bundle, options, &source, err);
    if (status != KG_OK) kg_error_context(err, status, "new bundle in %s", bundle->root);
cleanup:
    kg_bundle_source_free(&source);
    bundle->spent_ns += kg_clock_monotonic_ns() - bundle->begun_ns;
    if (status == KG_OK) *out = bundle;
    else kg_bundle_close(bundle);
    return status;
}

const char *kg_bundle_root(const struct kg_bundle *bundle) {
    return bundle->root;
}

const char *kg_bundle_id(const struct kg_bundle *bundle) {
    return bundle->id;
}

const char *kg_bundle_dir(const struct kg_bundle *bundle) {
    return bundle->dir;
}

void kg_bundle_in_cases(struct kg_bundle *bundle, uint64_t ns) {
    bundle->in_cases_ns = ns;
}

void kg_bundle_close(struct kg_bundle *bundle) {
    if (!bundle) return;
    const int fds[] = { bundle->plan_fd, bundle->journal_fd, bundle->results_fd, bundle->samples_fd, bundle->lock_fd };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0) close(fds[i]);
    json_decref(bundle->plan);
    json_decref(bundle->state);
    free(bundle->dir);
    free(bundle->id);
    free(bundle->root);
    free(bundle->sign_key);
    free(bundle);
}

enum kg_status kg_bundle_enter(struct kg_bundle *bundle, struct kg_error *err) {
    bundle->entered_ns = kg_clock_monotonic_ns();
    if (bundle->broken.status != KG_OK)
        return kg_fail(err, bundle->broken.status, "bundle %s: an earlier write failed: %s", bundle->id,
                       bundle->broken.message);
    if (bundle->sealed) return kg_fail(err, KG_ERR_USAGE, "bundle %s is sealed already", bundle->id);
    return KG_OK;
}

enum kg_status kg_bundle_leave(struct kg_bundle *bundle, enum kg_status status, const struct kg_error *err) {
    if (status == KG_ERR_IO && bundle->broken.status == KG_OK) kg_fail(&bundle->broken, status, "%s", err->message);
    bundle->spent_ns += kg_clock_monotonic_ns() - bundle->entered_ns;
    return status;
}

bool kg_bundle_id_parse(const char *name, int64_t *started_us) {
    enum { UTC_CHARS = 16, RANDOM_DIGITS = 8 }; /* 20261120T093822Z */
    const size_t len = strlen(name);
    struct tm utc = { 0 };
    const char *end = len > UTC_CHARS ? strptime(name, "%Y%m%dT%H%M%SZ", &utc) : NULL;
    if (!end || end != name + UTC_CHARS || *end != '-' || len < UTC_CHARS + 1 + 1 + 1 + RANDOM_DIGITS) return false;
    const char *random = name + len - RANDOM_DIGITS;
    if (random[-1] != '-' || strspn(random, "0123456789abcdef") != RANDOM_DIGITS) return false;
    *started_us = (int64_t)timegm(&utc) * 1000000;
    return true;
}
