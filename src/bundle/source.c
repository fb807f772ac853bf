/* source.json and dirty.diff: which source this is. Git names the commit; the hash of src, kernels and suites holds
 * without git too (a release tarball). */
#include "bundle/internal.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "bundle/git.h"
#include "bundle/tree.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_GIT_TEXT_BYTES = 4096, MAX_DIFF_BYTES = 32 << 20, MAX_LIST_BYTES = 1 << 20, MAX_HASHED_BYTES = 64 << 20 };

/* Build products that an in-tree build leaves beside the sources do not count as source. */
bool kg_source_counts(const char *path) {
    static const char *const ENDINGS[] = { ".c", ".h", ".cu", ".cuh", ".in", ".mk", ".py", ".sh", ".tsv", ".md" };
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending && i < sizeof ENDINGS / sizeof *ENDINGS; i++)
        if (strcmp(ending, ENDINGS[i]) == 0) return strcmp(path, "bundle/build_info.h") != 0;
    return false;
}

/* SHA-256 over the lines "<sha256>  <path>\n" of src, kernels and suites, sorted by path; null with no such folder. */
static json_t *content_hash(const char *source_dir, size_t *n_files) {
    static const char *const FOLDERS[] = { "kernels", "src", "suites" };
    struct kg_buffer lines = KG_BUFFER_INIT;
    bool good = true;
    *n_files = 0;
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++) {
        char *folder = kg_path_join(source_dir, FOLDERS[i]);
        struct kg_tree tree = { 0 };
        if (kg_path_is_dir(folder)) good = good && kg_tree_list(folder, &tree, NULL) == KG_OK;
        for (size_t k = 0; k < tree.n_entries && good; k++) {
            if (tree.entries[k].kind != KG_TREE_FILE || !kg_source_counts(tree.entries[k].path)) continue;
            char hex[KG_SHA256_HEX_SIZE];
            char *path = kg_path_join(folder, tree.entries[k].path);
            good = kg_sha256_file(path, hex, NULL) == KG_OK;
            free(path);
            kg_buffer_printf(&lines, "%s  %s/%s\n", hex, FOLDERS[i], tree.entries[k].path);
            (*n_files)++;
        }
        kg_tree_free(&tree);
        free(folder);
    }
    char hex[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(kg_buffer_text(&lines), lines.len, hex);
    kg_buffer_free(&lines);
    return good && *n_files > 0 ? json_string(hex) : json_null();
}

/* One line git prints, malloc'ed, or NULL. */
static char *git_line(const char *dir, const char *const *args) {
    struct kg_buffer out = KG_BUFFER_INIT;
    const enum kg_status status = kg_git(dir, args, MAX_GIT_TEXT_BYTES, &out, NULL, NULL);
    char *line = status == KG_OK && out.len > 0 ? kg_xstrndup(out.data, strcspn(out.data, "\n")) : NULL;
    kg_buffer_free(&out);
    return line;
}

/* The folder must be the top of its work tree: a tarball unpacked somewhere inside another repository is not its
 * commit. */
static bool is_work_tree(const char *dir) {
    char *top = git_line(dir, (const char *const[]){ "rev-parse", "--show-toplevel", NULL });
    char *real_top = top ? realpath(top, NULL) : NULL;
    char *real_dir = realpath(dir, NULL);
    const bool same = real_top && real_dir && strcmp(real_top, real_dir) == 0;
    free(real_dir);
    free(real_top);
    free(top);
    return same;
}

/* Untracked files that are not ignored: listed with their hashes in source.json, and named at the end of the diff. */
static json_t *untracked(const char *dir, struct kg_buffer *diff) {
    struct kg_buffer names = KG_BUFFER_INIT;
    bool cut = false;
    json_t *list = json_array();
    const char *const args[] = { "ls-files", "--others", "--exclude-standard", "-z", NULL };
    if (kg_git(dir, args, MAX_LIST_BYTES, &names, &cut, NULL) != KG_OK) names.len = 0;
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
        kg_buffer_printf(diff, "# untracked: %s  %s\n", hashed ? hex : "(not read)", name);
    }
    if (cut) json_array_append_new(list, json_pack("{s:s}", "note", "the list was longer than 1 MiB"));
    kg_buffer_free(&names);
    return list;
}

static void ask_git(const char *dir, struct kg_bundle_source *source, json_t *git) {
    struct kg_buffer diff = KG_BUFFER_INIT;
    bool cut = false;
    source->commit = git_line(dir, (const char *const[]){ "rev-parse", "--verify", "-q", "HEAD", NULL });
    char *tree = git_line(dir, (const char *const[]){ "rev-parse", "HEAD^{tree}", NULL });
    char *branch = git_line(dir, (const char *const[]){ "symbolic-ref", "--short", "-q", "HEAD", NULL });
    const char *const args[] = { "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", NULL };
    if (source->commit) {
        struct kg_error err;
        if (kg_git(dir, args, MAX_DIFF_BYTES, &diff, &cut, &err) != KG_OK)
            json_object_set_new(git, "diff_error", json_string(err.message));
        if (cut)
            kg_buffer_printf(&diff, "\n# the diff is longer than %d bytes; the rest is left out\n", MAX_DIFF_BYTES);
    }
    const bool changed = diff.len > 0 || json_object_get(git, "diff_error");
    json_t *extra = untracked(dir, &diff);
    source->dirty = source->commit && (changed || json_array_size(extra) > 0);
    json_object_set_new(git, "commit", source->commit ? json_string(source->commit) : json_null());
    json_object_set_new(git, "tree", tree ? json_string(tree) : json_null());
    json_object_set_new(git, "branch", branch ? json_string(branch) : json_null());
    json_object_set_new(git, "dirty", json_boolean(source->dirty));
    json_object_set_new(git, "diff_cut", json_boolean(cut));
    json_object_set_new(git, "untracked", extra);
    source->diff = diff.data;
    source->diff_bytes = diff.len;
    free(branch);
    free(tree);
}

void kg_bundle_source(const char *source_dir, struct kg_bundle_source *source) {
    *source = (struct kg_bundle_source){ .json = json_object() };
    size_t n_files = 0;
    json_object_set_new(source->json, "version", json_string(PACKAGE_VERSION));
    if (source_dir && is_work_tree(source_dir)) {
        json_t *git = json_object();
        ask_git(source_dir, source, git);
        json_object_set_new(source->json, "git", git);
    } else {
        json_object_set_new(source->json, "git", json_null());
        json_object_set_new(source->json, "git_why",
                            json_string(source_dir ? "the source folder is not a git work tree, or there is no git"
                                                   : "the source folder is not known"));
    }
    json_object_set_new(source->json, "content_sha256", source_dir ? content_hash(source_dir, &n_files) : json_null());
    json_object_set_new(source->json, "content_files", json_integer((json_int_t)n_files));
    if (!source->diff) source->diff = kg_xstrdup("");
}

void kg_bundle_source_free(struct kg_bundle_source *source) {
    json_decref(source->json);
    free(source->commit);
    free(source->diff);
    *source = (struct kg_bundle_source){ 0 };
}
