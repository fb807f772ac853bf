/* Bundles to archives and back: the same bytes out, the same bundle in, and nothing that a hostile archive can say
 * lands outside of the folder it may write to, or in the root at all. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/size.h"
#include "bundle/archive.h"
#include "bundle/records.h"
#include "bundle/tree.h"
#include "suites/support/tar_image.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char ID[] = "20261120T093822Z-0123456789ab-89abcdef";

/* A folder of the case's; malloc'ed. */
static char *folder(const struct kg_record *rec, const char *name) {
    char *dir = kg_path_join(kg_scratch_dir(rec), name);
    struct kg_error err;
    EXPECT_OK(kg_dir_make(dir, &err), err);
    return dir;
}

static void write_file(const char *path, const void *data, size_t size_bytes) {
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, data, size_bytes, &err), err);
}

/* Names and SHA-256 of all that lies below a folder. malloc'ed. */
static char *fingerprint(const char *dir) {
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_tree tree;
    struct kg_error err;
    char hex[KG_SHA256_HEX_SIZE];
    EXPECT_OK(kg_tree_list(dir, &tree, &err), err);
    for (size_t i = 0; i < tree.n_entries; i++) {
        char *path = kg_path_join(dir, tree.entries[i].path);
        hex[0] = '\0';
        if (tree.entries[i].kind == KG_TREE_FILE) EXPECT_OK(kg_sha256_file(path, hex, &err), err);
        kg_buffer_printf(&text, "%d %s %s\n", tree.entries[i].kind, tree.entries[i].path, hex);
        free(path);
    }
    kg_tree_free(&tree);
    return text.data ? text.data : kg_xstrdup("");
}

static bool has_archives(struct kg_record *rec) {
    if (!kg_archive_missing()) return true;
    kg_record_skip(rec, "%s", kg_archive_missing());
    return false;
}

/* A plain archive's files are as old as the seal. */
static void expect_time_of_seal(const char *archive, const char *dir) {
    enum { MTIME = 136, MTIME_DIGITS = 12 }; /* where a header has it, in octal */
    char *bytes, digits[MTIME_DIGITS + 1] = "";
    size_t size_bytes;
    json_t *summary;
    struct kg_error err;
    EXPECT_OK(kg_file_read(archive, &bytes, &size_bytes, &err), err);
    EXPECT_OK(kg_bundle_read_json(dir, "data/summary.json", &summary, &err), err);
    memcpy(digits, bytes + MTIME, MTIME_DIGITS);
    ck_assert_int_eq(strtoll(digits, NULL, 8), kg_json_int(summary, "sealed_us", 0) / 1000000);
    json_decref(summary);
    free(bytes);
}

static void there_and_back(struct kg_record *rec, const void *arg) {
    const char *const ending = arg;
    if (!has_archives(rec)) return;
    char *from = folder(rec, "from"), *to = folder(rec, "to"), *dir = kg_maker_sealed(from, 3);
    char *file = kg_xasprintf("%s/x%s", kg_scratch_dir(rec), ending), *again = kg_xasprintf("%s/y%s", to, ending);
    kg_verb_expect(from, ARGS("export", dir, "-o", file), KG_EXIT_OK, NULL);
    json_t *said = kg_verb_json(to, ARGS("import", file), KG_EXIT_OK);
    ck_assert_str_eq(json_string_value(json_object_get(said, "bundle_id")), strrchr(dir, '/') + 1);
    char *came = kg_path_join(to, strrchr(dir, '/') + 1), *before = fingerprint(dir), *after = fingerprint(came);
    ck_assert_str_eq(before, after);
    kg_verb_expect(to, ARGS("verify", "--all", "--chain"), KG_EXIT_OK, NULL);
    json_t *rows = kg_verb_json(to, ARGS("list"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 1);
    /* From there it goes out as it came, to the byte. */
    kg_verb_expect(to, ARGS("export", strrchr(dir, '/') + 1, "-o", again), KG_EXIT_OK, NULL);
    char first[KG_SHA256_HEX_SIZE], second[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    if (strcmp(ending, ".tar") == 0) expect_time_of_seal(file, dir);
    EXPECT_OK(kg_sha256_file(file, first, &err), err);
    EXPECT_OK(kg_sha256_file(again, second, &err), err);
    ck_assert_str_eq(first, second);
    json_decref(rows);
    json_decref(said);
    free(after);
    free(before);
    free(came);
    free(again);
    free(file);
    free(dir);
    free(to);
    free(from);
}

static void wrong_calls(struct kg_record *rec, const void *arg) {
    (void)arg;
    if (!has_archives(rec)) return;
    char *root = folder(rec, "root"), *dir = kg_maker_sealed(root, 1);
    char *file = kg_path_join(kg_scratch_dir(rec), "x.tar"), *zip = kg_path_join(kg_scratch_dir(rec), "x.zip");
    kg_verb_refuses(root, ARGS("export", "latest", "-o", zip), KG_EXIT_USAGE, ".tar.zst");
    kg_verb_refuses(root, ARGS("export", "1999", "-o", file), KG_EXIT_USAGE, "1999");
    kg_verb_refuses(root, ARGS("export"), KG_EXIT_USAGE, "usage");
    kg_verb_refuses(root, ARGS("import", file), KG_EXIT_USAGE, "x.tar");
    kg_verb_refuses(root, ARGS("import", file, "--require-signature"), KG_EXIT_USAGE, "--allowed-signers");
    kg_maker_append(dir, "data/extra", "x"); /* what does not verify goes nowhere */
    kg_verb_refuses(root, ARGS("export", "latest", "-o", file), KG_EXIT_INTEGRITY, "finding");
    ck_assert(!kg_path_exists(file));
    free(zip);
    free(file);
    free(dir);
    free(root);
}

/* What a hostile archive is made of. */
struct hostile {
    const char *name;
    void (*fill)(struct kg_buffer *tar, const char *dir);
    int exit_code;
    const char *says;
};

#define FILE_ENTRY(path)                                                                                               \
    &(struct kg_tar_entry) {                                                                                           \
        .name = path, .data = "x", .data_bytes = 1                                                                     \
    }
#define INSIDE(path) "20261120T093822Z-0123456789ab-89abcdef/" path

#define FILL(function, ...)                                                                                            \
    static void function(struct kg_buffer *tar, const char *dir) {                                                     \
        (void)dir;                                                                                                     \
        kg_tar_add(tar, FILE_ENTRY(INSIDE("bagit.txt")));                                                              \
        kg_tar_add(tar, &(struct kg_tar_entry){ __VA_ARGS__ });                                                        \
    }
FILL(symbolic_link, .name = INSIDE("data"), .type = '2', .link = "../..")
FILL(hard_link, .name = INSIDE("data/x"), .type = '1', .link = "/etc/hostname")
FILL(character_device, .name = INSIDE("data/null"), .type = '3')
FILL(block_device, .name = INSIDE("data/disk"), .type = '4')
FILL(fifo, .name = INSIDE("data/pipe"), .type = '6')
FILL(parent_path, .name = INSIDE("data/../../../escaped"), .data = "x", .data_bytes = 1)
FILL(parent_of_all, .name = "../escaped", .data = "x", .data_bytes = 1)
FILL(absolute_path, .name = "/tmp/kigo-escaped", .data = "x", .data_bytes = 1)
FILL(dot_path, .name = INSIDE("./data/x"), .data = "x", .data_bytes = 1)
FILL(dot_folder, .name = INSIDE("./"), .type = '5')
FILL(empty_part, .name = INSIDE("data//x"), .data = "x", .data_bytes = 1)
FILL(control_character, .name = INSIDE("data/a\nb"), .data = "x", .data_bytes = 1)
FILL(backslash, .name = INSIDE("data\\x"), .data = "x", .data_bytes = 1)
FILL(not_utf8, .name = INSIDE("data/\xFF\xFE"), .data = "x", .data_bytes = 1)
FILL(other_bundle, .name = "20261120T093823Z-0123456789ab-89abcdef/x", .data = "x", .data_bytes = 1)
FILL(beside_the_bundle, .name = "allowed_signers", .data = "x", .data_bytes = 1)
FILL(index_file, .name = "index.sqlite", .data = "x", .data_bytes = 1)
FILL(same_name_twice, .name = INSIDE("bagit.txt"), .data = "y", .data_bytes = 1)
FILL(below_a_file, .name = INSIDE("bagit.txt/x"), .data = "y", .data_bytes = 1)
FILL(file_as_the_folder, .name = "20261120T093822Z-0123456789ab-89abcdef", .data = "y", .data_bytes = 1)
FILL(huge_size, .name = INSIDE("data/x"), .claimed_bytes = 1ull << 62)
FILL(large_size, .name = INSIDE("data/x"), .claimed_bytes = 5ull << 30)
FILL(cut_in_the_data, .name = INSIDE("data/x"), .claimed_bytes = 1 << 20)

static void nothing(struct kg_buffer *tar, const char *dir) {
    (void)tar;
    (void)dir;
}

static void no_tar(struct kg_buffer *tar, const char *dir) {
    (void)dir;
    for (int i = 0; i < 200; i++) kg_buffer_puts(tar, "not a tar archive ");
}

static void folder_only(struct kg_buffer *tar, const char *dir) {
    (void)dir;
    kg_tar_add(tar, &(struct kg_tar_entry){ .name = INSIDE(""), .type = '5' });
}

static void link_then_through_it(struct kg_buffer *tar, const char *dir) {
    (void)dir;
    kg_tar_add(tar, &(struct kg_tar_entry){ .name = INSIDE("data"), .type = '2', .link = "/tmp" });
    kg_tar_add(tar, FILE_ENTRY(INSIDE("data/kigo-escaped")));
}

/* A GNU sparse file: 1 byte of data, claimed to lie in a file of 8 GiB. Header, then the map in pax form. */
static void sparse_file(struct kg_buffer *tar, const char *dir) {
    static const char PAX[] = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
                              "34 GNU.sparse.realsize=8589934592\n30 GNU.sparse.name=data/sparse\n";
    char map[512] = "1\n8589934591\n1\n";
    (void)dir;
    kg_tar_add(tar, &(struct kg_tar_entry){
                        .name = INSIDE("PaxHeaders/x"), .type = 'x', .data = PAX, .data_bytes = sizeof PAX - 1 });
    kg_tar_add(tar, &(struct kg_tar_entry){ .name = INSIDE("data/x"), .data = map, .data_bytes = sizeof map });
}

static void true_bundle(struct kg_buffer *tar, const char *dir, const char *spoil) {
    char *copy = kg_xasprintf("%s-copy", dir), *made = kg_maker_copy(dir, copy);
    if (spoil) kg_maker_replace(made, spoil, "i", "j"); /* of the same length */
    kg_tar_add_dir(tar, made, strrchr(dir, '/') + 1);
    free(made);
    free(copy);
}

static void wrong_hash(struct kg_buffer *tar, const char *dir) {
    true_bundle(tar, dir, "data/report.md");
}

static void wrong_tag_hash(struct kg_buffer *tar, const char *dir) {
    true_bundle(tar, dir, "bag-info.txt");
}

static void added_file(struct kg_buffer *tar, const char *dir) {
    char *name = kg_xasprintf("%s/data/added", strrchr(dir, '/') + 1);
    true_bundle(tar, dir, NULL);
    kg_tar_add(tar, FILE_ENTRY(name));
    free(name);
}

static void other_name(struct kg_buffer *tar, const char *dir) {
    kg_tar_add_dir(tar, dir, ID); /* a sound bag in a folder that is not its name */
}

static void half_a_bundle(struct kg_buffer *tar, const char *dir) {
    true_bundle(tar, dir, NULL);
    tar->len = tar->len / 2 / 512 * 512;
}

static const struct hostile HOSTILE[] = {
    { "symbolic_link", symbolic_link, 4, "is a symbolic link" },
    { "hard_link", hard_link, 4, "is a hard link" },
    { "link_then_through_it", link_then_through_it, 4, "is a symbolic link" },
    { "character_device", character_device, 4, "neither a file nor a folder" },
    { "block_device", block_device, 4, "neither a file nor a folder" },
    { "fifo", fifo, 4, "neither a file nor a folder" },
    { "parent_path", parent_path, 4, "unsafe path" },
    { "parent_of_all", parent_of_all, 4, "not below a folder named like a bundle" },
    { "absolute_path", absolute_path, 4, "absolute path" },
    { "dot_path", dot_path, 4, "unsafe path" },
    { "dot_folder", dot_folder, 4, "unsafe path" },
    { "empty_part", empty_part, 4, "unsafe path" },
    { "control_character", control_character, 4, "data/a?b' has an unsafe path" },
    { "backslash", backslash, 4, "unsafe path" },
    { "not_utf8", not_utf8, 4, "entry '" },
    { "other_bundle", other_bundle, 4, "another bundle" },
    { "beside_the_bundle", beside_the_bundle, 4, "not below a folder named like a bundle" },
    { "index_file", index_file, 4, "not below a folder named like a bundle" },
    { "same_name_twice", same_name_twice, 4, "is there twice" },
    { "below_a_file", below_a_file, 4, "below a file" },
    { "file_as_the_folder", file_as_the_folder, 4, "unsafe path" },
    { "huge_size", huge_size, 4, "" },
    { "large_size", large_size, 4, "too large" },
    { "sparse_file", sparse_file, 4, "" },
    { "cut_in_the_data", cut_in_the_data, 4, "" },
    { "nothing", nothing, 4, "" },
    { "no_tar", no_tar, 4, "" },
    { "folder_only", folder_only, 4, "holds no bundle" },
    { "wrong_hash", wrong_hash, 4, "changed data/report.md" },
    { "wrong_tag_hash", wrong_tag_hash, 4, "changed bag-info.txt" },
    { "added_file", added_file, 4, "does not verify" },
    { "other_name", other_name, 4, "renamed" },
    { "half_a_bundle", half_a_bundle, 4, "" },
};

/* What is refused leaves a root of one bundle, and everything around it, as it was. */
static void hostile(struct kg_record *rec, const void *arg) {
    const struct hostile *row = arg;
    struct kg_buffer tar = KG_BUFFER_INIT;
    if (!has_archives(rec)) return;
    char *around = folder(rec, "around"), *root = folder(rec, "around/root"), *from = folder(rec, "from");
    char *dir = kg_maker_sealed(from, 2), *file = kg_path_join(kg_scratch_dir(rec), "hostile.tar");
    free(kg_maker_sealed(root, 1));
    row->fill(&tar, dir);
    if (strncmp(row->name, "cut_", 4) != 0 && strcmp(row->name, "half_a_bundle") != 0) kg_tar_end(&tar);
    if (strcmp(row->name, "nothing") == 0) tar.len = 0;
    write_file(file, kg_buffer_text(&tar), tar.len);
    char *before = fingerprint(around);
    kg_verb_refuses(root, ARGS("import", file), row->exit_code, row->says);
    char *after = fingerprint(around);
    ck_assert_str_eq(before, after);
    ck_assert(!kg_path_exists("/tmp/kigo-escaped"));
    kg_buffer_free(&tar);
    free(after);
    free(before);
    free(file);
    free(dir);
    free(from);
    free(root);
    free(around);
}

/* A root that a bundle goes out of, as a file, and one for it to come into. */
struct transfer {
    char *from, *to, *dir, *file;
    char *here; /* where it comes to be */
};

static void transfer_open(struct transfer *t, const struct kg_record *rec) {
    t->from = folder(rec, "from");
    t->to = folder(rec, "to");
    t->dir = kg_maker_sealed(t->from, 2);
    t->file = kg_path_join(kg_scratch_dir(rec), "x.tar.zst");
    t->here = kg_path_join(t->to, strrchr(t->dir, '/') + 1);
    kg_verb_expect(t->from, ARGS("export", t->dir, "-o", t->file), KG_EXIT_OK, NULL);
}

static void transfer_close(struct transfer *t) {
    free(t->here);
    free(t->file);
    free(t->dir);
    free(t->to);
    free(t->from);
}

/* Once more is no error, and no byte of the root is another: neither of one it came into, nor of the one it is from,
 * where a note in imports/ would take it out of the chain. */
static void again_is_already_here(struct kg_record *rec, const void *arg) {
    struct transfer t;
    (void)arg;
    if (!has_archives(rec)) return;
    transfer_open(&t, rec);
    json_t *said = kg_verb_json(t.to, ARGS("import", t.file), KG_EXIT_OK);
    ck_assert(json_is_false(json_object_get(said, "already_here")));
    json_decref(said);
    const char *const roots[] = { t.to, t.from };
    for (size_t i = 0; i < KG_COUNT_OF(roots); i++) {
        char *before = fingerprint(roots[i]);
        said = kg_verb_json(roots[i], ARGS("import", t.file), KG_EXIT_OK);
        ck_assert(json_is_true(json_object_get(said, "already_here")));
        ck_assert_str_eq(json_string_value(json_object_get(said, "bundle_id")), strrchr(t.dir, '/') + 1);
        kg_verb_refuses(roots[i], ARGS("import", t.file), KG_EXIT_OK, ": already here, not signed");
        char *after = fingerprint(roots[i]);
        ck_assert_str_eq(before, after);
        free(after);
        free(before);
        json_decref(said);
    }
    transfer_close(&t);
}

/* Refused, and the existing bundle stays as it is. */
static void stays_refused(const struct transfer *t, const char *says) {
    char *before = fingerprint(t->to);
    kg_verb_refuses(t->to, ARGS("import", t->file), KG_EXIT_INTEGRITY, says);
    char *after = fingerprint(t->to);
    ck_assert_str_eq(before, after);
    free(after);
    free(before);
}

static void another_bundle_of_that_id(struct kg_record *rec, const void *arg) {
    struct transfer t;
    (void)arg;
    if (!has_archives(rec)) return;
    transfer_open(&t, rec);
    free(kg_maker_copy(t.dir, t.here));
    kg_maker_replace(t.here, "data/env.json", "\"", " \"");
    kg_maker_rehash(t.here);
    stays_refused(&t, "another bundle of this id");
    transfer_close(&t);
}

/* What a copy by other means left half done: the right tag manifest and a file too few or changed, a bare folder, a
 * file. */
static void half_of_it_is_here(struct kg_record *rec, const void *arg) {
    struct transfer t;
    struct kg_error err;
    (void)arg;
    if (!has_archives(rec)) return;
    transfer_open(&t, rec);
    char *copied = kg_maker_copy(t.dir, t.here), *plan = kg_path_join(t.here, "data/plan.ndjson");
    EXPECT_OK(kg_path_remove(plan, &err), err);
    stays_refused(&t, "does not verify");
    free(kg_maker_copy(t.dir, t.here));
    kg_maker_append(t.here, "data/results.ndjson", "{}\n");
    stays_refused(&t, "does not verify");
    EXPECT_OK(kg_path_remove(t.here, &err), err);
    EXPECT_OK(kg_dir_make(t.here, &err), err);
    stays_refused(&t, "holds no sealed bundle");
    EXPECT_OK(kg_path_remove(t.here, &err), err);
    write_file(t.here, "x", 1);
    stays_refused(&t, "holds no sealed bundle");
    free(plan);
    free(copied);
    transfer_close(&t);
}

/* What an import that was killed left: half of a bundle unpacked aside, and the note of one that was not published. */
static void import_that_died_is_taken_up(struct kg_record *rec, const void *arg) {
    struct transfer t;
    struct kg_error err;
    (void)arg;
    if (!has_archives(rec)) return;
    transfer_open(&t, rec);
    char *staging = kg_path_join(t.to, ".import-dead00"), *half = kg_path_join(staging, strrchr(t.dir, '/') + 1);
    char *copied = kg_maker_copy(t.dir, half), *plan = kg_path_join(half, "data/plan.ndjson");
    char *notes = kg_path_join(t.to, "imports"), *note = kg_xasprintf("%s%s.json", notes, strrchr(t.dir, '/'));
    EXPECT_OK(kg_path_remove(plan, &err), err);
    EXPECT_OK(kg_dir_make(notes, &err), err);
    write_file(note, "{", 1);
    json_t *said = kg_verb_json(t.to, ARGS("import", t.file), KG_EXIT_OK);
    ck_assert(json_is_false(json_object_get(said, "already_here")));
    json_decref(said);
    ck_assert_uint_eq(kg_maker_count(t.to, ".import-"), 0);
    kg_maker_expect_sound(t.here);
    kg_verb_expect(t.to, ARGS("verify", "--chain"), KG_EXIT_OK, NULL);
    free(note);
    free(notes);
    free(plan);
    free(copied);
    free(half);
    free(staging);
    transfer_close(&t);
}

/* One of them publishes, the others find it there. */
static void many_at_once(struct kg_record *rec, const void *arg) {
    static const char SCRIPT[] =
        "for i in 1 2 3 4 5 6 7 8; do \"$1\" import \"$2\" --bundles \"$3\" --json >\"$4.$i\" & "
        "all=\"$all $!\"; done; for p in $all; do wait $p || exit; done; cat \"$4\".* | "
        "grep -c 'already_here\": *true'";
    struct transfer t;
    struct kg_process_result result;
    struct kg_error err;
    (void)arg;
    if (!has_archives(rec)) return;
    transfer_open(&t, rec);
    const char *const argv[] = { "/bin/sh", "-c", SCRIPT, "sh", kg_program_path(), t.file, t.to, t.file, NULL };
    const struct kg_process process = { .argv = argv };
    EXPECT_OK(kg_process_run(&process, &result, &err), err);
    ck_assert_msg(result.exit_code == 0, "%d: %s", result.exit_code, result.err);
    ck_assert_str_eq(result.out, "7\n");
    kg_process_result_free(&result);
    kg_verb_expect(t.to, ARGS("verify", "--all", "--chain"), KG_EXIT_OK, NULL);
    ck_assert_uint_eq(kg_maker_count(t.to, ".import-"), 0);
    transfer_close(&t);
}

static void limits_can_be_set(struct kg_record *rec, const void *arg) {
    (void)arg;
    if (!has_archives(rec)) return;
    char *from = folder(rec, "from"), *to = folder(rec, "to"), *dir = kg_maker_sealed(from, 1);
    char *file = kg_path_join(kg_scratch_dir(rec), "x.tar.zst");
    kg_verb_expect(from, ARGS("export", dir, "-o", file), KG_EXIT_OK, NULL);
    kg_verb_refuses(to, ARGS("import", file, "--max-bytes", "1000"), KG_EXIT_INTEGRITY, "--max-bytes");
    ck_assert_uint_eq(kg_maker_count(to, ""), 0);
    kg_verb_expect(to, ARGS("import", file, "--max-bytes", "1000000"), KG_EXIT_OK, NULL);
    free(file);
    free(dir);
    free(to);
    free(from);
}

static void signatures_travel(struct kg_record *rec, const void *arg) {
    (void)arg;
    if (!has_archives(rec)) return;
    char *keys = folder(rec, "keys"), *key = kg_verb_key(rec, keys, "ci");
    if (!key) return free(keys);
    char *other = kg_verb_key(rec, keys, "other"), *from = folder(rec, "from"), *to = folder(rec, "to");
    char *allowed = kg_verb_allowed(keys, "allowed", "ci@example.org", key);
    char *strangers = kg_verb_allowed(keys, "strangers", "x@example.org", other);
    char *dir = kg_maker_sealed(from, 1), *file = kg_path_join(keys, "x.tar.zst");
    kg_verb_expect(from, ARGS("export", dir, "-o", file), KG_EXIT_OK, NULL);
    kg_verb_refuses(to, ARGS("import", file, "--allowed-signers", allowed, "--require-signature"), KG_EXIT_INTEGRITY,
                    "missing");
    kg_verb_expect(from, ARGS("sign", dir, "--key", key), KG_EXIT_OK, NULL);
    kg_verb_expect(from, ARGS("export", dir, "-o", file), KG_EXIT_OK, NULL);
    kg_verb_refuses(to, ARGS("import", file, "--allowed-signers", strangers), KG_EXIT_INTEGRITY, "untrusted");
    ck_assert_uint_eq(kg_maker_count(to, ""), 0);
    kg_verb_expect(to, ARGS("import", file, "--allowed-signers", allowed, "--require-signature"), KG_EXIT_OK, NULL);
    kg_verb_expect(to, ARGS("verify", strrchr(dir, '/') + 1, "--allowed-signers", allowed, "--require-signature"),
                   KG_EXIT_OK, NULL);
    /* An existing copy without the signature stays without it, and is not what was required. */
    char *here = kg_path_join(to, strrchr(dir, '/') + 1), *signature = kg_path_join(here, "tagmanifest-sha256.txt.sig");
    struct kg_error err;
    EXPECT_OK(kg_path_remove(signature, &err), err);
    kg_verb_refuses(to, ARGS("import", file), KG_EXIT_OK, "is not signed, the archive's copy is");
    kg_verb_refuses(to, ARGS("import", file, "--allowed-signers", allowed, "--require-signature"), KG_EXIT_INTEGRITY,
                    "missing");
    ck_assert(!kg_path_exists(signature));
    free(signature);
    free(here);
    free(file);
    free(dir);
    free(strangers);
    free(allowed);
    free(to);
    free(from);
    free(other);
    free(key);
    free(keys);
}

static void removed_import_shows(struct kg_record *rec, const void *arg) {
    (void)arg;
    if (!has_archives(rec)) return;
    char *from = folder(rec, "from"), *to = folder(rec, "to");
    free(kg_verb_seal(from));
    char *dir = kg_verb_seal(from), *file = kg_path_join(kg_scratch_dir(rec), "x.tar.zst");
    char *came = kg_path_join(to, strrchr(dir, '/') + 1);
    struct kg_error err;
    kg_verb_expect(from, ARGS("export", dir, "-o", file), KG_EXIT_OK, NULL);
    kg_verb_expect(to, ARGS("import", file), KG_EXIT_OK, NULL);
    kg_verb_expect(to, ARGS("verify", "--chain"), KG_EXIT_OK, NULL); /* its predecessor is the other root's matter */
    EXPECT_OK(kg_path_remove(came, &err), err);
    kg_verb_refuses(to, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "removed");
    free(came);
    free(file);
    free(dir);
    free(to);
    free(from);
}

/* Bytes of a true archive changed at random: each import ends by itself and the root stays empty, or what came in is
 * what went out. */
static void fuzzed_archives(struct kg_record *rec, const void *arg) {
    enum { ROUNDS = 200 };
    (void)arg;
    if (!has_archives(rec)) return;
    char *from = folder(rec, "from"), *dir = kg_maker_sealed(from, 1);
    char *file = kg_path_join(kg_scratch_dir(rec), "x.tar"), *data, *want = fingerprint(dir);
    struct kg_rng rng;
    struct kg_error err;
    size_t size_bytes;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    kg_verb_expect(from, ARGS("export", dir, "-o", file), KG_EXIT_OK, NULL);
    EXPECT_OK(kg_file_read(file, &data, &size_bytes, &err), err);
    for (size_t i = 0; i < ROUNDS; i++) {
        char *root = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), i), *fuzzed = kg_xmalloc(size_bytes);
        struct kg_process_result result;
        memcpy(fuzzed, data, size_bytes);
        /* Half of the changes in the first header's page, where they matter most. */
        for (size_t k = 0; k < 1 + i % 5; k++)
            fuzzed[kg_rng_below(&rng, k % 2 ? size_bytes : 4096)] = (char)kg_rng_below(&rng, 256);
        write_file(file, fuzzed, i % 3 ? size_bytes : kg_rng_below(&rng, size_bytes));
        kg_verb_run(root, ARGS("import", file), false, &result);
        ck_assert_msg(result.exit_code == 0 || result.exit_code == 4, "round %zu: %d %s", i, result.exit_code,
                      result.err);
        if (result.exit_code == 0) {
            char *came = kg_path_join(root, strrchr(dir, '/') + 1), *got = fingerprint(came);
            ck_assert_str_eq(got, want);
            free(got);
            free(came);
        } else {
            ck_assert_uint_eq(kg_maker_count(root, ""), 0);
        }
        kg_process_result_free(&result);
        free(fuzzed);
        EXPECT_OK(kg_path_remove(root, &err), err);
        free(root);
    }
    free(want);
    free(data);
    free(file);
    free(dir);
    free(from);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "transfer", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    { .layer = "integration", .op = "transfer", .name = "compressed", .run = there_and_back, .arg = ".tar.zst" },
    { .layer = "integration", .op = "transfer", .name = "plain", .run = there_and_back, .arg = ".tar" },
    CASE(wrong_calls),
    CASE(again_is_already_here),
    CASE(another_bundle_of_that_id),
    CASE(half_of_it_is_here),
    CASE(import_that_died_is_taken_up),
    CASE(many_at_once),
    CASE(limits_can_be_set),
    CASE(signatures_travel),
    CASE(removed_import_shows),
    CASE(fuzzed_archives),
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(HOSTILE); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "import_refused",
                                                  .name = HOSTILE[i].name,
                                                  .run = hostile,
                                                  .arg = &HOSTILE[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
