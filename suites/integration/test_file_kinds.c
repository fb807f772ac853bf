/* A link, a pipe, a socket, a device or a folder in the place of every file and folder of a store: every verb ends
 * within seconds, the one that reads it says which file it is, and nothing outside of the store is touched. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/archive.h"
#include "bundle/tree.h"
#include "suites/harness/must.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const double MAX_SECONDS = 20; /* a verb takes some 30 ms; the machine may be busy */

struct store {
    char *root, *outside; /* outside: of the store, where links lead */
    char *bundle;         /* the newest bundle's id */
    char *other, *archive;
};

static char *sealed_id(const char *root) {
    char *dir = kg_verb_seal(root), *id = kg_xstrdup(strrchr(dir, '/') + 1);
    free(dir);
    return id;
}

static void put(const char *dir, const char *name, const char *text) {
    char *path = kg_path_join(dir, name);
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
    free(path);
}

static void make_store(const struct kg_record *rec, struct store *s) {
    struct kg_error err;
    char *cache = kg_path_join(kg_scratch_dir(rec), "cache");
    s->root = kg_path_join(kg_scratch_dir(rec), "store");
    s->outside = kg_path_join(kg_scratch_dir(rec), "outside");
    s->archive = kg_path_join(kg_scratch_dir(rec), "x.tar");
    EXPECT_OK(kg_dir_make(cache, &err), err);
    EXPECT_OK(kg_dir_make(s->root, &err), err);
    EXPECT_OK(kg_dir_make(s->outside, &err), err);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", cache, 1), 0); /* no note of an earlier run */
    s->other = sealed_id(s->root);
    s->bundle = sealed_id(s->root);
    put(s->root, "left-out.txt", "# none\n");
    put(s->root, "kigo.policy.json", "{\"latest\": [\"@anyone\"]}\n");
    kg_verb_expect(s->root, ARGS("annotate", "note", s->bundle, "--why", "a word"), KG_EXIT_OK, NULL);
    kg_verb_expect(s->root, ARGS("verify", "--all", "--chain"), KG_EXIT_OK, NULL);
    free(cache);
}

static void free_store(struct store *s) {
    free(s->root);
    free(s->outside);
    free(s->bundle);
    free(s->other);
    free(s->archive);
}

/* Names, kinds and bytes of all that lies below a folder. malloc'ed. */
static char *fingerprint(const char *dir) {
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_tree tree;
    struct kg_error err;
    EXPECT_OK(kg_tree_list(dir, &tree, &err), err);
    for (size_t i = 0; i < tree.n_entries; i++) {
        char *path = kg_path_join(dir, tree.entries[i].path), hex[KG_SHA256_HEX_SIZE] = "";
        if (tree.entries[i].kind == KG_TREE_FILE) EXPECT_OK(kg_sha256_file(path, hex, &err), err);
        kg_buffer_printf(&text, "%d %s %s\n", tree.entries[i].kind, tree.entries[i].path, hex);
        free(path);
    }
    kg_tree_free(&tree);
    return text.data ? text.data : kg_xstrdup("");
}

/* What takes a file's place. aside: the file itself, moved outside. */
struct kind {
    const char *name;
    int (*make)(const char *path, const char *aside);
};

static int make_link_to_itself_outside(const char *path, const char *aside) {
    return symlink(aside, path);
}
static int make_link_to_passwd(const char *path, const char *aside) {
    (void)aside;
    return symlink("/etc/passwd", path);
}
static int make_pipe(const char *path, const char *aside) {
    (void)aside;
    return mkfifo(path, 0644);
}
static int make_socket(const char *path, const char *aside) {
    (void)aside;
    return mknod(path, S_IFSOCK | 0644, 0);
}
/* /dev/zero, which has no end; without the right to make a device, a link to it. */
static int make_device(const char *path, const char *aside) {
    enum { MEMORY = 1, ZERO = 5 };
    (void)aside;
    return mknod(path, S_IFCHR | 0644, makedev(MEMORY, ZERO)) == 0 ? 0 : symlink("/dev/zero", path);
}
static int make_folder(const char *path, const char *aside) {
    (void)aside;
    return mkdir(path, 0755);
}

static const struct kind KINDS[] = {
    { "link_to_itself_outside", make_link_to_itself_outside },
    { "link_to_passwd", make_link_to_passwd },
    { "pipe", make_pipe },
    { "socket", make_socket },
    { "device", make_device },
    { "folder", make_folder },
};

/* Which verb must refuse what is wrong with a path of the store. */
enum verb { VERIFY, CHAIN, SIGNOFFS, LIST, OTHER };

struct call {
    enum verb verb;
    const char *args[6];
};

static enum verb refusing_verb(const char *path) {
    static const struct {
        const char *beginning;
        enum verb verb;
    } ROWS[] = { { ".chain", CHAIN }, { "left-out.txt", CHAIN }, { "imports", CHAIN },    { "tombstones", CHAIN },
                 { "index", LIST },   { "annotations", LIST },   { "signoffs", SIGNOFFS } };
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        if (strncmp(path, ROWS[i].beginning, strlen(ROWS[i].beginning)) == 0) return ROWS[i].verb;
    return VERIFY; /* of the bundle, and the policy */
}

static void run_verb(const struct store *s, const struct call *call, const char *path) {
    const char *argv[12] = { kg_program_path() }, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = 1;
    for (size_t i = 0; i < KG_COUNT_OF(call->args) && call->args[i]; i++) argv[n++] = call->args[i];
    argv[n++] = "--bundles";
    argv[n] = s->root;
    const struct kg_process process = { .argv = argv, .timeout_s = MAX_SECONDS };
    struct kg_process_result result;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, &result, &err), err);
    ck_assert_msg(!result.timed_out && result.signal == 0,
                  "kigo %s %s with another %s: timed out %d, signal %d: %.1000s", argv[1], argv[2], path,
                  result.timed_out, result.signal, result.err);
    const int code = result.exit_code;
    const bool is_missing = code == KG_EXIT_USAGE && strstr(result.err, "No such file");
    const bool judged = code == KG_EXIT_OK || code == KG_EXIT_FAILED || code == KG_EXIT_INCONCLUSIVE ||
                        code == KG_EXIT_INTEGRITY || code == KG_EXIT_NOTHING_TO_DO;
    ck_assert_msg(judged || is_missing, "kigo %s %s with another %s: exit code %d: %.1000s", argv[1], argv[2], path,
                  result.exit_code, result.err);
    if (call->verb == refusing_verb(path))
        ck_assert_msg(result.exit_code == KG_EXIT_INTEGRITY && (strstr(result.out, name) || strstr(result.err, name)),
                      "kigo %s %s with another %s: exit code %d: %.1000s%.1000s", argv[1], argv[2], path,
                      result.exit_code, result.out, result.err);
    kg_process_result_free(&result);
}

static void run_verbs(const struct store *s, const struct kind *kind, const char *path) {
    const struct call calls[] = {
        { VERIFY, { "verify", s->bundle } },
        { CHAIN, { "verify", "--chain" } },
        { SIGNOFFS, { "verify", "--signoffs" } },
        { LIST, { "list" } },
        { OTHER, { "show", s->bundle } },
        { OTHER, { "verify", "--all" } },
        { OTHER, { "report", s->bundle } },
        { OTHER, { "diff", s->other, s->bundle } },
        { OTHER, { "regress", s->bundle } },
        { OTHER, { "history", "unit/sample/case_0" } },
        { OTHER, { "query", "SELECT 1" } },
        { OTHER, { "prune" } },
        { OTHER, { "annotate", "list" } },
        { OTHER, { "export", s->bundle, "-o", s->archive } },
        { OTHER, { "checkpoint" } },
    };
    /* A pipe stops whoever opens it: each of the other verbs meets it in the place of every fifth file, by the path's
     * length. Any other kind is met by the verb that must refuse it and by what shows a run. */
    const bool pipe = strcmp(kind->name, "pipe") == 0;
    for (size_t i = 0; i < KG_COUNT_OF(calls); i++) {
        const bool fifth = pipe && i % 5 == strlen(path) % 5;
        if (kg_archive_missing() && strcmp(calls[i].args[0], "export") == 0) continue;
        const bool always = calls[i].verb == refusing_verb(path) || strcmp(calls[i].args[0], "show") == 0;
        if (!always && !fifth) continue;
        if (strncmp(path, "index", 5) != 0) kg_maker_remove_index(s->root); /* folders are read again */
        run_verb(s, &calls[i], path);
    }
}

static void replace_and_run(const struct store *s, const struct kind *kind, const char *relative) {
    char *path = kg_path_join(s->root, relative), *aside = kg_path_join(s->outside, "aside"), *before, *after;
    struct kg_error err;
    const bool there = rename(path, aside) == 0;
    if (!there) put(s->outside, "aside", "what a link leads to\n");
    before = fingerprint(s->outside);
    ck_assert_msg(kind->make(path, aside) == 0, "cannot make a %s of %s", kind->name, path);
    run_verbs(s, kind, relative);
    after = fingerprint(s->outside);
    ck_assert_str_eq(before, after);
    EXPECT_OK(kg_path_remove(path, &err), err);
    if (there) ck_assert_int_eq(rename(aside, path), 0);
    else EXPECT_OK(kg_path_remove(aside, &err), err);
    free(after);
    free(before);
    free(aside);
    free(path);
}

/* A folder that may be there, and be empty, is no other kind. */
static bool is_same_kind(const struct kind *kind, const char *path) {
    static const char *const FOLDERS[] = { "annotations", "tombstones", "imports", "signoffs" };
    if (strcmp(kind->name, "folder") != 0) return false;
    for (size_t i = 0; i < KG_COUNT_OF(FOLDERS); i++)
        if (strcmp(path, FOLDERS[i]) == 0) return true;
    return false;
}

static void readers(struct kg_record *rec, const void *arg) {
    static const char *const NOT_THERE[] = { "tombstones",
                                             "imports",
                                             "signoffs",
                                             "index.sqlite",
                                             "index.sqlite-wal",
                                             "%s/tagmanifest-sha256.txt.sig",
                                             "%s/tagmanifest-sha256.txt.sig.tsr",
                                             "%s/data/plan.ndjson.zst",
                                             "%s/data/logs" };
    const struct kind *kind = arg;
    struct store s;
    struct kg_tree tree;
    struct kg_error err;
    make_store(rec, &s);
    kg_maker_remove_index(s.root);
    EXPECT_OK(kg_tree_list(s.root, &tree, &err), err);
    size_t n = 0;
    for (size_t i = 0; i < tree.n_entries; i++) {
        const char *path = tree.entries[i].path;
        if (strncmp(path, s.other, strlen(s.other)) == 0 || is_same_kind(kind, path)) continue;
        replace_and_run(&s, kind, path);
        n++;
    }
    for (size_t i = 0; i < KG_COUNT_OF(NOT_THERE); i++) {
        const char *inside = strchr(NOT_THERE[i], '/');
        char *path = inside ? kg_path_join(s.bundle, inside + 1) : kg_xstrdup(NOT_THERE[i]);
        if (!is_same_kind(kind, path)) replace_and_run(&s, kind, path);
        free(path);
    }
    kg_record_metric(rec, "files replaced", "count", (double)n);
    kg_tree_free(&tree);
    kg_verb_expect(s.root, ARGS("verify", "--all", "--chain"), KG_EXIT_OK, NULL); /* it was all put back */
    free_store(&s);
}

/* A folder or a file of the store is moved outside, and a link to it is put in its place. */
static char *lead_outside(const struct store *s, const char *relative) {
    char *path = kg_path_join(s->root, relative), *aside = kg_path_join(s->outside, "aside");
    struct kg_error err;
    if (rename(path, aside) != 0) EXPECT_OK(kg_dir_make(aside, &err), err);
    ck_assert_int_eq(symlink(aside, path), 0);
    free(aside);
    free(path);
    return fingerprint(s->outside);
}

static void expect_untouched(const struct store *s, char *before) {
    char *after = fingerprint(s->outside);
    ck_assert_str_eq(before, after);
    free(after);
    free(before);
}

/* A verb that writes, and what of the store leads outside when it does. */
static const struct writer {
    const char *name, *linked;
    const char *args[6];
    bool dead; /* the newest bundle is one that died before its end */
    int exit_code;
} WRITERS[] = {
    { "recover_linked_data", "%s/data", { "recover" }, true, KG_EXIT_INTEGRITY },
    { "recover_linked_results", "%s/data/results.ndjson", { "recover" }, true, KG_EXIT_INTEGRITY },
    { "recover_linked_tag_manifest", "%s/tagmanifest-sha256.txt", { "recover" }, true, KG_EXIT_INTEGRITY },
    { "recover_linked_recovery", "%s/data/recovery", { "recover" }, true, KG_EXIT_INTEGRITY },
    { "recover_linked_bundle", "%s", { "recover" }, true, KG_EXIT_INTEGRITY },
    { "annotate_linked_folder", "annotations", { "annotate", "note", "--why", "x" }, false, KG_EXIT_INTEGRITY },
    { "prune_linked_tombstones", "tombstones", { "prune", "--apply", "--keep", "1" }, false, KG_EXIT_INTEGRITY },
    { "reindex_linked_index", "index.sqlite", { "reindex" }, false, KG_EXIT_OK },
    { "list_linked_index", "index.sqlite", { "list" }, false, KG_EXIT_INTEGRITY },
    { "list_linked_log", "index.sqlite-wal", { "list" }, false, KG_EXIT_INTEGRITY },
};

static void writers(struct kg_record *rec, const void *arg) {
    const struct writer *w = arg;
    struct store s;
    make_store(rec, &s);
    kg_maker_remove_index(s.root);
    char *folder = w->dead ? kg_xasprintf(".tmp-%s", s.bundle) : kg_xstrdup(s.bundle);
    if (w->dead) {
        char *from = kg_path_join(s.root, s.bundle), *to = kg_path_join(s.root, folder),
             *tags = kg_path_join(to, "manifest-sha256.txt");
        ck_assert_int_eq(rename(from, to), 0);
        ck_assert_int_eq(unlink(tags), 0);
        free(tags);
        free(to);
        free(from);
    }
    const char *slash = strchr(w->linked, '/');
    char *linked = slash                          ? kg_path_join(folder, slash + 1)
                   : strcmp(w->linked, "%s") == 0 ? kg_xstrdup(folder)
                                                  : kg_xstrdup(w->linked);
    char *before = lead_outside(&s, linked);
    kg_verb_expect(s.root, w->args, w->exit_code, NULL);
    expect_untouched(&s, before);
    free(linked);
    free(folder);
    free_store(&s);
}

/* While a run is under way somebody puts links into its folder. */
static void run_with_linked_folder(struct kg_record *rec, const void *arg) {
    struct store s;
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    (void)arg;
    make_store(rec, &s);
    EXPECT_OK(kg_maker_open(s.root, 1, &bundle, &err), err);
    char *folder = kg_path_join(kg_bundle_dir(bundle), "data/transcripts"), *made;
    ck_assert_int_eq(symlink(s.outside, folder), 0);
    made = fingerprint(s.outside);
    json_t *line = json_pack("{s:s}", "said", "x");
    ck_assert_int_eq(kg_bundle_transcript(bundle, "haiku", line, &err), KG_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.message, "data/transcripts is a link"));
    EXPECT_OK(kg_maker_run(bundle, 0, "pass", &err), err);
    ck_assert_int_eq(kg_bundle_seal(bundle, NULL, &summary, &err), KG_ERR_FORMAT);
    expect_untouched(&s, made);
    kg_bundle_close(bundle);
    json_decref(line);
    free(folder);
    free_store(&s);
}

/* A file is where recover keeps what it cuts off: it says so, and cuts nothing. */
static void recover_finds_a_file_for_its_folder(struct kg_record *rec, const void *arg) {
    struct store s;
    struct kg_error err;
    (void)arg;
    make_store(rec, &s);
    kg_maker_remove_index(s.root);
    char *from = kg_path_join(s.root, s.bundle), *to = kg_xasprintf("%s/.tmp-%s", s.root, s.bundle),
         *tags = kg_path_join(to, "manifest-sha256.txt"), *text;
    size_t size_bytes;
    ck_assert_int_eq(rename(from, to), 0);
    ck_assert_int_eq(unlink(tags), 0);
    put(to, "data/recovery", "a file\n");
    kg_maker_append(to, "data/results.ndjson", "{\"torn");
    kg_verb_refuses(s.root, ARGS("recover"), KG_EXIT_INTEGRITY, "data/recovery");
    char *results = kg_path_join(to, "data/results.ndjson");
    EXPECT_OK(kg_file_read(results, &text, &size_bytes, &err), err);
    ck_assert_ptr_nonnull(strstr(text, "{\"torn"));
    free(results);
    free(text);
    free(tags);
    free(to);
    free(from);
    free_store(&s);
}

/* A file that ends before its size, as one does that is cut while it is read: sysfs says 4096 of each. */
static void archive_of_a_file_cut_short(struct kg_record *rec, const void *arg) {
    static const char FOLDER[] = "/sys/devices/system/cpu/cpu0/topology";
    (void)arg;
    if (kg_archive_missing() || !kg_path_exists(FOLDER)) {
        kg_record_skip(rec, "%s", kg_archive_missing() ? kg_archive_missing() : "no sysfs");
        return;
    }
    char *path = kg_path_join(kg_scratch_dir(rec), "x.tar.zst");
    struct kg_error err = { 0 };
    kg_must_fail(kg_archive_write(FOLDER, "id", 0, path, &err), KG_ERR_INTEGRITY, &err, "cut short", NULL);
    ck_assert(!kg_path_exists(path));
    free(path);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(KINDS); i++) {
        const struct kg_case c = { .layer = "integration",
                                   .op = "file_kinds",
                                   .name = KINDS[i].name,
                                   .run = readers,
                                   .arg = &KINDS[i],
                                   .timeout_s = 300 };
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(WRITERS); i++) {
        const struct kg_case c = {
            .layer = "integration", .op = "file_kinds", .name = WRITERS[i].name, .run = writers, .arg = &WRITERS[i]
        };
        kg_case_list_add(list, &c);
    }
    const struct kg_case others[] = {
        { .name = "run_with_linked_folder", .run = run_with_linked_folder },
        { .name = "recover_finds_a_file_for_its_folder", .run = recover_finds_a_file_for_its_folder, .timeout_s = 20 },
        { .name = "archive_of_a_file_cut_short", .run = archive_of_a_file_cut_short },
    };
    for (size_t i = 0; i < KG_COUNT_OF(others); i++) {
        struct kg_case c = others[i];
        c.layer = "integration", c.op = "file_kinds";
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
