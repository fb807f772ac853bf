/* source.json and dirty.diff: which source this is. Git names the commit; the hash of src, kernels and suites holds
 * without git too (a release tarball). */
#include "bundle/internal.h"
#include "base/buffer.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/hash.h"
#include "bundle/git.h"
#include "bundle/source_content.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_GIT_TEXT_BYTES = 4096, MAX_DIFF_BYTES = 32 << 20, MAX_LIST_BYTES = 1 << 20, MAX_HASHED_BYTES = 64 << 20 };

/* Whether git has answered, if only that it cannot; that there is none is an answer too. One that could not be asked,
 * or was not heard to its end, has not. */
static bool has_answered(enum kg_status status) {
    return status == KG_OK || status == KG_ERR_NOT_FOUND || status == KG_ERR_UNSUPPORTED;
}

/* *line: one line that git prints, malloc'ed, or NULL where it has no answer. */
static enum kg_status git_line(const char *dir, const char *const *args, char **line, struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    const enum kg_status status = kg_git(dir, args, MAX_GIT_TEXT_BYTES, &out, NULL, err);
    *line = status == KG_OK && out.len > 0 ? kg_xstrndup(out.data, strcspn(out.data, "\n")) : NULL;
    kg_buffer_free(&out);
    return has_answered(status) ? KG_OK : status;
}

static enum kg_status real_path(const char *path, char **real, struct kg_error *err) {
    *real = realpath(path, NULL);
    return *real ? KG_OK : kg_fail(err, KG_ERR_IO, "the folder %s: %s", path, strerror(errno));
}

/* The folder must be the top of its work tree: a tarball unpacked somewhere inside another repository is not its
 * commit. */
static enum kg_status is_work_tree(const char *dir, bool *is, struct kg_error *err) {
    char *top = NULL, *real_top = NULL, *real_dir = NULL;
    enum kg_status status = git_line(dir, (const char *const[]){ "rev-parse", "--show-toplevel", NULL }, &top, err);
    *is = false;
    if (status == KG_OK && top) {
        status = real_path(top, &real_top, err);
        if (status == KG_OK) status = real_path(dir, &real_dir, err);
        *is = status == KG_OK && strcmp(real_top, real_dir) == 0;
    }
    free(real_dir);
    free(real_top);
    free(top);
    return status;
}

static void set_text(json_t *object, const char *name, const char *text) {
    json_t *value = text ? json_string(text) : NULL; /* NULL if it is not UTF-8 */
    json_object_set_new(object, name, value ? value : json_null());
}

/* Adds untracked files that are not ignored: to the list with their hashes, and to the end of the diff. A git that
 * cannot list them has not said that there are none. */
static enum kg_status add_untracked(const char *dir, json_t *list, struct kg_buffer *diff, struct kg_error *err) {
    struct kg_buffer names = KG_BUFFER_INIT;
    struct kg_error why;
    bool cut = false;
    const char *const args[] = { "ls-files", "--others", "--exclude-standard", "-z", NULL };
    const enum kg_status status = kg_git(dir, args, MAX_LIST_BYTES, &names, &cut, &why);
    if (status != KG_OK) {
        json_t *note = json_object();
        set_text(note, "note", why.message);
        json_array_append_new(list, note);
        names.len = 0;
    }
    for (size_t at = 0; at < names.len;) {
        const char *name = names.data + at;
        at += strlen(name) + 1;
        char hex[KG_SHA256_HEX_SIZE];
        char *path = kg_path_join(dir, name);
        struct stat info;
        const bool small = lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= MAX_HASHED_BYTES;
        const bool hashed = small && kg_sha256_file(path, hex, NULL) == KG_OK;
        free(path);
        json_t *shown = json_string(name);
        json_array_append_new(list, json_pack("{s:o, s:o}", "path", shown ? shown : json_string("(not UTF-8)"),
                                              "sha256", hashed ? json_string(hex) : json_null()));
        kg_buffer_printf(diff, "# untracked: %s  ", hashed ? hex : "(not read)");
        kg_escape(diff, KG_MEDIUM_TEXT, name, strlen(name));
        kg_buffer_puts(diff, "\n");
    }
    if (cut) json_array_append_new(list, json_pack("{s:s}", "note", "the list was longer than 1 MiB"));
    kg_buffer_free(&names);
    return has_answered(status) ? KG_OK : kg_fail(err, status, "%s", why.message);
}

/* Commit, tree, author date and subject of HEAD, each NULL where there is none. */
struct head {
    char *commit, *tree, *author_date, *subject;
};

static enum kg_status read_head(const char *dir, struct head *head, struct kg_error *err) {
    static const char *const ARGS[] = { "log", "-1", "--no-show-signature", "--format=%H%n%T%n%aI%n%s", "HEAD", NULL };
    struct kg_buffer out = KG_BUFFER_INIT;
    char **fields[] = { &head->commit, &head->tree, &head->author_date, &head->subject };
    const enum kg_status status = kg_git(dir, ARGS, MAX_GIT_TEXT_BYTES, &out, NULL, err);
    const char *at = status == KG_OK ? kg_buffer_text(&out) : "";
    for (size_t i = 0; i < sizeof fields / sizeof *fields && *at; i++) {
        const size_t len = strcspn(at, "\n");
        if (len > 0) *fields[i] = kg_xstrndup(at, len);
        at += len + (at[len] == '\n');
    }
    kg_buffer_free(&out);
    return has_answered(status) ? KG_OK : status;
}

/* What differs from HEAD in the files that git tracks. A git that cannot say so has not said that nothing does. */
static enum kg_status add_changes(const char *dir, json_t *git, struct kg_buffer *diff, bool *cut,
                                  struct kg_error *err) {
    static const char *const ARGS[] = { "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", NULL };
    struct kg_error why;
    const enum kg_status status = kg_git(dir, ARGS, MAX_DIFF_BYTES, diff, cut, &why);
    if (status != KG_OK) set_text(git, "diff_error", why.message);
    if (*cut) kg_buffer_printf(diff, "\n# the diff is longer than %d bytes; the rest is left out\n", MAX_DIFF_BYTES);
    return has_answered(status) ? KG_OK : kg_fail(err, status, "%s", why.message);
}

static enum kg_status ask_git(const char *dir, struct kg_bundle_source *source, json_t *git, struct kg_error *err) {
    static const char *const BRANCH[] = { "symbolic-ref", "--short", "-q", "HEAD", NULL };
    struct kg_buffer diff = KG_BUFFER_INIT;
    struct head head = { 0 };
    char *branch = NULL;
    bool cut = false;
    json_t *extra = json_array();
    enum kg_status status = read_head(dir, &head, err);
    if (status == KG_OK) status = git_line(dir, BRANCH, &branch, err);
    if (status == KG_OK && head.commit) status = add_changes(dir, git, &diff, &cut, err);
    const bool changed = diff.len > 0 || json_object_get(git, "diff_error");
    if (status == KG_OK) status = add_untracked(dir, extra, &diff, err);
    source->commit = head.commit;
    source->dirty = head.commit && (changed || json_array_size(extra) > 0);
    set_text(git, "commit", head.commit);
    set_text(git, "tree", head.tree);
    set_text(git, "branch", branch);
    set_text(git, "author_date", head.author_date);
    set_text(git, "subject", head.subject);
    json_object_set_new(git, "dirty", json_boolean(source->dirty));
    json_object_set_new(git, "diff_cut", json_boolean(cut));
    json_object_set_new(git, "untracked", extra);
    source->diff = diff.data;
    source->diff_bytes = diff.len;
    free(branch);
    free(head.tree);
    free(head.author_date);
    free(head.subject);
    return status;
}

static void set_content(struct kg_bundle_source *source, const struct kg_source_content *content) {
    const bool known = content->sha256[0];
    json_object_set_new(source->json, "content_sha256", known ? json_string(content->sha256) : json_null());
    json_object_set_new(source->json, "content_files", json_integer((json_int_t)content->n_files));
}

static enum kg_status cannot_ask(const char *dir, const struct kg_error *why, struct kg_error *err) {
    return kg_fail(err, KG_ERR_IO, "git could not be asked about the sources in %s: %s", dir, why->message);
}

enum kg_status kg_bundle_source(const char *source_dir, struct kg_bundle_source *source, struct kg_error *err) {
    *source = (struct kg_bundle_source){ 0 };
    struct kg_source_content content = { "", 0 };
    struct kg_error why;
    if (source_dir && kg_source_content(source_dir, &content, &why) != KG_OK)
        return kg_fail(err, KG_ERR_INCOMPLETE, "what the sources in %s are is not known: %s", source_dir, why.message);
    bool is_tree = false;
    if (source_dir && is_work_tree(source_dir, &is_tree, &why) != KG_OK) return cannot_ask(source_dir, &why, err);
    source->json = json_object();
    json_object_set_new(source->json, "version", json_string(PACKAGE_VERSION));
    json_t *git = is_tree ? json_object() : json_null();
    json_object_set_new(source->json, "git", git);
    if (is_tree && ask_git(source_dir, source, git, &why) != KG_OK) {
        kg_bundle_source_free(source);
        return cannot_ask(source_dir, &why, err);
    }
    if (!is_tree)
        json_object_set_new(source->json, "git_why",
                            json_string(source_dir ? "the source folder is not a git work tree, or there is no git"
                                                   : "the source folder is not known"));
    set_content(source, &content);
    if (!source->diff) source->diff = kg_xstrdup("");
    return KG_OK;
}

bool kg_bundle_source_is(const struct kg_bundle_source *source, const char *built_from) {
    const char *content = json_string_value(json_object_get(source->json, "content_sha256"));
    return content && strcmp(content, built_from) == 0;
}

void kg_bundle_source_unknown(struct kg_bundle_source *source, const char *built_from, const char *why) {
    struct kg_source_content content = { "", 0 };
    snprintf(content.sha256, sizeof content.sha256, "%s", built_from);
    kg_bundle_source_free(source);
    source->json = json_object();
    source->diff = kg_xstrdup("");
    json_object_set_new(source->json, "version", json_string(PACKAGE_VERSION));
    json_object_set_new(source->json, "git", json_null());
    set_text(source->json, "git_why", why);
    set_content(source, &content);
}

void kg_bundle_source_free(struct kg_bundle_source *source) {
    json_decref(source->json);
    free(source->commit);
    free(source->diff);
    *source = (struct kg_bundle_source){ 0 };
}
