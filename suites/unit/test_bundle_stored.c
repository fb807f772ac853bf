/* Compressed payload files: what seal makes of them, that every reader reads them, and what a damaged, torn or hostile
 * one does. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/size.h"
#include "base/zstd.h"
#include "bundle/records.h"
#include "bundle/stored.h"
#include "bundle/verify.h"
#include "report/report.h"
#include "run/publish.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <fcntl.h>
#include <kigo/history.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 720, KIB = 1 << 10 }; /* so many cases that plan, journal and results are each larger than 64 KiB */

/* Text as records are (a few words again and again), or noise, which no compressor makes smaller. */
static char *sample_text(size_t size_bytes, bool noise, uint64_t seed) {
    static const char *const WORDS[] = { "{\"key\":\"unit/sample/", "\"status\":\"pass\",", "\"margin\":", "0.125",
                                         "}\n" };
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_rng rng;
    kg_rng_init(&rng, seed, 0);
    kg_buffer_reserve(&text, 0);
    while (text.len < size_bytes)
        if (noise) kg_buffer_append(&text, &(char){ (char)kg_rng_u32(&rng) }, 1);
        else kg_buffer_puts(&text, WORDS[kg_rng_below(&rng, KG_COUNT_OF(WORDS))]);
    return text.data;
}

static void frame_round_trip(struct kg_record *rec, const void *arg) {
    static const size_t SIZES[] = { 0, 1, 127, 64 * KIB, 1 << 20 };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(SIZES); i++)
        for (int noise = 0; noise < 2; noise++) {
            char *text = sample_text(SIZES[i], noise, kg_record_seed(rec));
            struct kg_buffer frame = KG_BUFFER_INIT, back = KG_BUFFER_INIT;
            struct kg_error err;
            EXPECT_OK(kg_zstd_compress(text, SIZES[i], &frame, &err), err);
            kg_buffer_puts(&back, "before ");
            EXPECT_OK(kg_zstd_expand(frame.data, frame.len, SIZES[i], &back, &err), err);
            ck_assert_uint_eq(back.len, strlen("before ") + SIZES[i]);
            ck_assert_mem_eq(back.data, "before ", strlen("before "));
            ck_assert(SIZES[i] == 0 || memcmp(back.data + strlen("before "), text, SIZES[i]) == 0);
            kg_buffer_free(&back);
            kg_buffer_free(&frame);
            free(text);
        }
}

/* Pieces of any size make one frame of their bytes; 300 KB of noise do not fit into what the writer keeps back. */
static void frame_written_in_pieces(struct kg_record *rec, const void *arg) {
    enum { SIZE = 300 * KIB, MAX_PIECE = 100000 };
    char *text = sample_text(SIZE, true, kg_record_seed(rec)), *path = kg_path_join(kg_scratch_dir(rec), "frame");
    char *written = NULL;
    size_t size_bytes;
    struct kg_zstd_writer *writer = NULL;
    struct kg_buffer back = KG_BUFFER_INIT;
    struct kg_error err;
    struct kg_rng rng;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 1);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_OK(kg_zstd_writer_open(fd, &writer, &err), err);
    for (size_t at = 0, n; at < SIZE; at += n) {
        n = kg_rng_below(&rng, MAX_PIECE);
        if (n > SIZE - at) n = SIZE - at;
        EXPECT_OK(kg_zstd_writer_put(writer, text + at, n, &err), err);
    }
    EXPECT_OK(kg_zstd_writer_end(writer, &err), err);
    kg_zstd_writer_free(writer);
    close(fd);
    EXPECT_OK(kg_file_read(path, &written, &size_bytes, &err), err);
    EXPECT_OK(kg_zstd_expand(written, size_bytes, SIZE, &back, &err), err);
    ck_assert_uint_eq(back.len, SIZE);
    ck_assert_int_eq(memcmp(back.data, text, SIZE), 0);
    kg_buffer_free(&back);
    free(written);
    free(path);
    free(text);
}

/* Every write to /dev/full meets a full disk. */
static void frame_on_a_full_disk(struct kg_record *rec, const void *arg) {
    const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct kg_zstd_writer *writer = NULL;
    struct kg_error err;
    (void)arg;
    if (fd < 0) return kg_record_skip(rec, "no /dev/full on this machine");
    EXPECT_OK(kg_zstd_writer_open(fd, &writer, &err), err);
    EXPECT_OK(kg_zstd_writer_put(writer, "a few bytes", 11, &err), err); /* it keeps them back */
    ck_assert_int_eq(kg_zstd_writer_end(writer, &err), KG_ERR_IO);
    kg_zstd_writer_free(writer);
    close(fd);
}

/* Cut short anywhere, a byte flipped anywhere, more behind it: never taken for whole, and *out stays as it was. */
static void frame_damaged(struct kg_record *rec, const void *arg) {
    enum { SIZE = 8 * KIB };
    char *text = sample_text(SIZE, false, kg_record_seed(rec));
    struct kg_buffer frame = KG_BUFFER_INIT, out = KG_BUFFER_INIT;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_zstd_compress(text, SIZE, &frame, &err), err);
    for (size_t n = 0; n < frame.len; n++)
        ck_assert_int_eq(kg_zstd_expand(frame.data, n, SIZE, &out, &err), KG_ERR_FORMAT);
    for (size_t n = 0; n < frame.len; n++) {
        frame.data[n] = (char)(frame.data[n] ^ 1);
        const enum kg_status status = kg_zstd_expand(frame.data, frame.len, 2 * SIZE, &out, &err);
        /* a bit of the header that has no meaning may be any */
        ck_assert_msg(status == KG_ERR_FORMAT || memcmp(out.data, text, SIZE) == 0, "byte %zu", n);
        if (status == KG_OK) kg_buffer_clear(&out);
        frame.data[n] = (char)(frame.data[n] ^ 1);
    }
    kg_buffer_append(&frame, "x", 1);
    ck_assert_int_eq(kg_zstd_expand(frame.data, frame.len, SIZE, &out, &err), KG_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.message, "1 bytes follow"));
    ck_assert_uint_eq(out.len, 0);
    kg_buffer_free(&out);
    kg_buffer_free(&frame);
    free(text);
}

/* A frame of n_blocks * 128 KiB zeros in 4 bytes a block, and a header that does not say how much it is. */
static void make_bomb(size_t n_blocks, struct kg_buffer *out) {
    enum { BLOCK = 128 * KIB, RLE = 1 };
    static const unsigned char HEADER[] = { 0x28, 0xB5, 0x2F, 0xFD, 0x00, 13 << 3 }; /* window of 2^(10 + 13) */
    kg_buffer_append(out, HEADER, sizeof HEADER);
    for (size_t i = 0; i < n_blocks; i++) {
        const unsigned header = (unsigned)(i + 1 == n_blocks) | RLE << 1 | BLOCK << 3;
        const unsigned char block[] = { header & 0xFF, header >> 8 & 0xFF, header >> 16 & 0xFF, 0 };
        kg_buffer_append(out, block, sizeof block);
    }
}

static void bomb_stops_at_its_limit(struct kg_record *rec, const void *arg) {
    enum { LIMIT = 1 << 20 };
    struct kg_buffer bomb = KG_BUFFER_INIT, out = KG_BUFFER_INIT;
    struct kg_error err;
    (void)rec;
    (void)arg;
    make_bomb(8, &bomb);
    EXPECT_OK(kg_zstd_expand(bomb.data, bomb.len, LIMIT, &out, &err), err); /* 1 MiB exactly */
    ck_assert_uint_eq(out.len, LIMIT);
    kg_buffer_free(&out);
    kg_buffer_free(&bomb);
    make_bomb(1 << 20, &bomb); /* 128 GiB */
    ck_assert_int_eq(kg_zstd_expand(bomb.data, bomb.len, LIMIT, &out, &err), KG_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.message, "more than 1048576 bytes"));
    ck_assert_uint_eq(out.len, 0);
    ck_assert_uint_lt(out.capacity, 4 * LIMIT);
    kg_buffer_free(&out);
    kg_buffer_free(&bomb);
}

static struct kg_bundle *open_bundle(const char *root, bool compress, size_t n_cases) {
    const struct kg_bundle_options options = { .root = root, .seed = 7, .compress = compress };
    struct kg_bundle *bundle = NULL;
    struct kg_error err;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    for (size_t i = 0; i < n_cases; i++) {
        json_t *line = kg_maker_plan_line(i);
        EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
        json_decref(line);
    }
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    for (size_t i = 0; i < n_cases; i++) EXPECT_OK(kg_maker_run(bundle, i, i % 7 ? "pass" : "skip", &err), err);
    return bundle;
}

/* A sealed bundle of n cases; its folder, malloc'ed. */
static char *sealed(const char *root, bool compress, size_t n_cases) {
    struct kg_bundle *bundle = open_bundle(root, compress, n_cases);
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    ck_assert_str_eq(summary.note, "");
    kg_bundle_close(bundle);
    return kg_maker_only(root);
}

static bool has(const char *dir, const char *relative) {
    char *path = kg_path_join(dir, relative);
    const bool there = kg_path_exists(path);
    free(path);
    return there;
}

static void expect_finding(const char *dir, const char *what, const char *path) {
    struct kg_bundle_findings findings;
    struct kg_error err;
    ck_assert_int_eq(kg_bundle_verify(dir, &findings, &err), KG_ERR_INTEGRITY);
    ck_assert_int_eq(kg_status_exit_code(KG_ERR_INTEGRITY), KG_EXIT_INTEGRITY);
    ck_assert_msg(kg_maker_found(&findings, what, path), "no '%s' of '%s' in: %.2000s", what, path,
                  kg_maker_list(&findings));
    kg_bundle_findings_free(&findings);
}

static char *made_root;

static void remove_made(void) {
    if (kg_path_remove(made_root, NULL) != KG_OK) fprintf(stderr, "cannot remove %s\n", made_root);
    free(made_root);
}

/* The compressed bundle that the cases spoil, made once in a program: compressing it takes longer than most cases. */
static const char *made(void) {
    static char *dir;
    if (dir) return dir;
    const char *parent = getenv("TMPDIR");
    made_root = kg_path_join(parent && *parent ? parent : "/tmp", "kigo-stored-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(made_root));
    atexit(remove_made);
    dir = sealed(made_root, true, MANY);
    return dir;
}

/* A fresh copy of it. */
static char *fresh(const struct kg_record *rec) {
    char *to = kg_path_join(kg_scratch_dir(rec), "spoilt"), *copy = kg_maker_copy(made(), to);
    free(to);
    return copy;
}

static void put(const char *dir, const char *relative, const char *data, size_t size_bytes) {
    char *path = kg_path_join(dir, relative);
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, data, size_bytes, &err), err);
    free(path);
}

static void remove_file(const char *dir, const char *relative) {
    char *path = kg_path_join(dir, relative);
    struct kg_error err;
    EXPECT_OK(kg_path_remove(path, &err), err);
    free(path);
}

static void take(const char *dir, const char *relative, char **data, size_t *size_bytes) {
    char *path = kg_path_join(dir, relative);
    struct kg_error err;
    EXPECT_OK(kg_file_read(path, data, size_bytes, &err), err);
    free(path);
}

static const char *const LARGE[] = { "data/plan.ndjson", "data/journal.ndjson", "data/results.ndjson",
                                     "data/results.csv", "data/junit.xml" };

/* Large records go, what people and tools read first stays; the size falls, and the bag is a bag. */
static void large_files_are_compressed(struct kg_record *rec, const void *arg) {
    static const char *const PLAIN[] = { "data/summary.json", "data/env.json", "data/report.md",
                                         "manifest-sha256.txt" };
    char *dir = fresh(rec);
    (void)arg;
    kg_maker_expect_sound(dir);
    for (size_t i = 0; i < KG_COUNT_OF(LARGE); i++) {
        char *compressed = kg_xasprintf("%s.zst", LARGE[i]), *text;
        size_t stored_bytes, size_bytes;
        struct kg_error err;
        ck_assert_msg(has(dir, compressed) && !has(dir, LARGE[i]), "%s", LARGE[i]);
        take(dir, compressed, &text, &stored_bytes);
        free(text);
        EXPECT_OK(kg_stored_read(dir, LARGE[i], 1 << 30, &text, &size_bytes, &err), err);
        ck_assert_uint_ge(size_bytes, 64 * KIB);
        ck_assert_uint_lt(stored_bytes, size_bytes / 4);
        free(text);
        free(compressed);
    }
    for (size_t i = 0; i < KG_COUNT_OF(PLAIN); i++) ck_assert_msg(has(dir, PLAIN[i]), "%s", PLAIN[i]);
    free(dir);
}

static void small_files_stay_plain(struct kg_record *rec, const void *arg) {
    char *dir = sealed(kg_scratch_dir(rec), true, 3);
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(LARGE); i++) ck_assert_msg(has(dir, LARGE[i]), "%s", LARGE[i]);
    kg_maker_expect_sound(dir);
    free(dir);
}

/* A build of many kernels: verify, the quick look at a run's head and the index read it compressed, and see a change.
 */
static void kernels_are_compressed(struct kg_record *rec, const void *arg) {
    static const char PLAIN[] = "data/build.json", COMPRESSED_BUILD[] = "data/build.json.zst";
    char *dir = sealed(kg_scratch_dir(rec), false, 3);
    json_t *build = NULL, *kernels = json_array();
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_bundle_read_json(dir, PLAIN, &build, &err), err);
    for (int i = 0; i < 400; i++)
        json_array_append_new(kernels, json_pack("{s:o, s:s, s:i}", "name", json_sprintf("kernel_%d<float>", i), "arch",
                                                 "sm_90a", "registers", 32 + i % 200));
    json_object_set_new(build, "kernels", kernels);
    char *text = json_dumps(build, JSON_INDENT(2)), *frame, *root = kg_xstrndup(dir, (size_t)(strrchr(dir, '/') - dir));
    put(dir, PLAIN, text, strlen(text));
    EXPECT_OK(kg_stored_compress(dir, &err), err);
    ck_assert(has(dir, COMPRESSED_BUILD) && !has(dir, PLAIN));
    kg_maker_rehash(dir);
    kg_maker_expect_sound(dir);
    EXPECT_OK(kg_bundle_verify_head(dir, &err), err);
    struct kg_history *history;
    struct kg_bundle_findings problems = { NULL, 0 };
    EXPECT_OK(kg_history_open(root, &history, &problems, &err), err);
    ck_assert_uint_eq(problems.n_items, 0);
    kg_history_close(history);
    char *dump = kg_maker_dump(root);
    ck_assert_ptr_nonnull(strstr(dump, "kernel_399<float>"));
    size_t size_bytes;
    take(dir, COMPRESSED_BUILD, &frame, &size_bytes);
    frame[size_bytes / 2] = (char)(frame[size_bytes / 2] ^ 1);
    put(dir, COMPRESSED_BUILD, frame, size_bytes);
    ck_assert_int_eq(kg_bundle_verify_head(dir, &err), KG_ERR_INTEGRITY);
    ck_assert_msg(strstr(err.message, COMPRESSED_BUILD) != NULL, "%s", err.message);
    free(frame);
    free(dump);
    free(root);
    free(text);
    json_decref(build);
    free(dir);
}

/* Many samples: verify reads the timings' samples in the frame, and finds the one that was changed. */
static void samples_are_compressed(struct kg_record *rec, const void *arg) {
    enum { MORE_BYTES = 32 * KIB };
    static const char SAMPLES[] = "data/samples.bin", FRAME[] = "data/samples.bin.zst";
    char *dir = sealed(kg_scratch_dir(rec), true, 3), *samples;
    size_t n_bytes;
    struct kg_error err;
    (void)arg;
    take(dir, SAMPLES, &samples, &n_bytes);
    ck_assert_uint_ge(n_bytes, sizeof(float));
    samples = kg_xrealloc(samples, n_bytes + MORE_BYTES);
    memset(samples + n_bytes, 0, MORE_BYTES);
    for (int changed = 0; changed < 2; changed++) {
        const float other = 99;
        if (changed) memcpy(samples, &other, sizeof other);
        put(dir, SAMPLES, samples, n_bytes + MORE_BYTES);
        if (changed) remove_file(dir, FRAME);
        EXPECT_OK(kg_stored_compress(dir, &err), err);
        ck_assert(has(dir, FRAME) && !has(dir, SAMPLES));
        kg_maker_rehash(dir);
        if (changed) expect_finding(dir, "samples", "data/results.ndjson");
        else kg_maker_expect_sound(dir);
    }
    free(samples);
    free(dir);
}

/* Statuses, margins and samples as in the plain form: the same rows, whichever form the index read. */
static void index_reads_both_forms(struct kg_record *rec, const void *arg) {
    const char *name = strrchr(made(), '/') + 1;
    char *root = kg_path_join(kg_scratch_dir(rec), "packed"), *plain_root = kg_path_join(kg_scratch_dir(rec), "plain");
    char *to = kg_path_join(root, name), *packed = kg_maker_copy(made(), to);
    struct kg_error err;
    (void)arg;
    /* The same run in its plain form: expanded by hand, under the same id. */
    char *twin = kg_path_join(plain_root, name), *copy = kg_maker_copy(packed, twin);
    EXPECT_OK(kg_stored_expand(copy, &err), err);
    kg_maker_rehash(copy);
    kg_maker_expect_sound(copy);
    char *roots[] = { root, plain_root }, *dumps[2];
    for (int i = 0; i < 2; i++) {
        struct kg_history *history;
        struct kg_bundle_findings problems = { NULL, 0 };
        EXPECT_OK(kg_history_open(roots[i], &history, &problems, &err), err);
        ck_assert_uint_eq(problems.n_items, 0);
        kg_history_close(history);
        dumps[i] = kg_maker_dump(roots[i]);
    }
    const char *at[2]; /* the one thing that may differ: the hash of the manifest */
    for (int i = 0; i < 2; i++) {
        char *manifest, hex[KG_SHA256_HEX_SIZE];
        size_t size_bytes;
        take(i ? copy : packed, "manifest-sha256.txt", &manifest, &size_bytes);
        kg_sha256_hex(manifest, size_bytes, hex);
        free(manifest);
        char *place = strstr(dumps[i], hex);
        ck_assert_ptr_nonnull(place);
        memset(place, '-', strlen(hex));
        at[i] = place;
    }
    ck_assert_int_eq(at[0] - dumps[0], at[1] - dumps[1]);
    kg_maker_expect_same(dumps[0], dumps[1]);
    for (int i = 0; i < 2; i++) free(dumps[i]);
    free(copy);
    free(twin);
    free(packed);
    free(root);
    free(plain_root);
    free(to);
}

/* Flips a bit in the middle of a frame, or at the next place where that changes what it expands to: a few bits of a
 * frame have no bearing on it. */
static void flip_bit(char *frame, size_t size_bytes) {
    struct kg_buffer sound = KG_BUFFER_INIT;
    bool changed = false;
    ck_assert_int_eq(kg_zstd_expand(frame, size_bytes, 1 << 28, &sound, NULL), KG_OK);
    for (size_t at = size_bytes / 2; !changed; at++) {
        struct kg_buffer other = KG_BUFFER_INIT;
        ck_assert_uint_lt(at, size_bytes);
        frame[at] = (char)(frame[at] ^ 0x20);
        changed = kg_zstd_expand(frame, size_bytes, 1 << 28, &other, NULL) != KG_OK || other.len != sound.len ||
                  memcmp(other.data, sound.data, sound.len) != 0;
        if (!changed) frame[at] = (char)(frame[at] ^ 0x20);
        kg_buffer_free(&other);
    }
    kg_buffer_free(&sound);
}

static void flipped_byte(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(LARGE); i++) {
        char *dir = fresh(rec), *relative = kg_xasprintf("%s.zst", LARGE[i]), *data;
        size_t size_bytes;
        take(dir, relative, &data, &size_bytes);
        flip_bit(data, size_bytes);
        put(dir, relative, data, size_bytes);
        expect_finding(dir, "changed", relative);
        kg_maker_rehash(dir); /* and with fresh manifests: its own checksum tells */
        expect_finding(dir, "format", relative);
        free(data);
        free(relative);
        free(dir);
    }
}

static void cut_short(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(LARGE); i++) {
        char *dir = fresh(rec), *relative = kg_xasprintf("%s.zst", LARGE[i]), *data;
        size_t size_bytes;
        take(dir, relative, &data, &size_bytes);
        put(dir, relative, data, size_bytes - 1);
        kg_maker_rehash(dir);
        expect_finding(dir, "format", relative);
        free(data);
        free(relative);
        free(dir);
    }
}

static void bomb_in_a_bundle(struct kg_record *rec, const void *arg) {
    struct kg_buffer bomb = KG_BUFFER_INIT;
    char *dir = fresh(rec);
    (void)arg;
    make_bomb(1 << 14, &bomb); /* 2 GiB in 64 KiB */
    put(dir, "data/junit.xml.zst", bomb.data, bomb.len);
    kg_maker_rehash(dir);
    expect_finding(dir, "format", "data/junit.xml.zst");
    put(dir, "data/results.ndjson.zst", bomb.data, bomb.len);
    kg_maker_rehash(dir);
    expect_finding(dir, "format", "data/results.ndjson");
    kg_buffer_free(&bomb);
    free(dir);
}

static void both_forms(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    (void)arg;
    put(dir, "data/results.csv", "key\r\n", 5);
    kg_maker_rehash(dir);
    expect_finding(dir, "duplicate", "data/results.csv.zst");
    free(dir);
}

static void missing_file(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec), *path = kg_path_join(dir, "data/results.csv.zst");
    (void)arg;
    ck_assert_int_eq(unlink(path), 0);
    expect_finding(dir, "missing", "data/results.csv.zst");
    kg_maker_rehash(dir);
    expect_finding(dir, "missing", "data/results.csv");
    free(path);
    free(dir);
}

/* The suffix says that the bundle made the file: a case may not write one. */
static void suffix_is_reserved(struct kg_record *rec, const void *arg) {
    struct kg_bundle *bundle = open_bundle(kg_scratch_dir(rec), true, 1);
    struct kg_error err;
    (void)arg;
    ck_assert_int_eq(kg_bundle_file(bundle, "failures/x.zst", "x", 1, &err), KG_ERR_USAGE);
    EXPECT_OK(kg_bundle_file(bundle, "failures/x.zst.txt", "x", 1, &err), err);
    kg_bundle_close(bundle);
}

/* What a death in the middle of compressing leaves of one file: its plain form beside a frame that may be torn, or the
 * frame alone. Whatever the state, recover publishes every record of the run. */
enum left { PLAIN_AND_TORN, PLAIN_AND_FRAME, FRAME_ALONE, N_LEFT };

static void recover_after(const char *root, const char *relative, enum left left) {
    struct kg_bundle *bundle = open_bundle(root, true, 20);
    struct kg_buffer frame = KG_BUFFER_INIT;
    struct kg_error err;
    char *dir = kg_xstrdup(kg_bundle_dir(bundle)), *plain = kg_path_join(dir, relative), *text;
    char *compressed = kg_xasprintf("%s.zst", relative);
    size_t size_bytes, n_recovered;
    EXPECT_OK(kg_bundle_sync(bundle, &err), err);
    kg_bundle_close(bundle);
    take(dir, relative, &text, &size_bytes);
    EXPECT_OK(kg_zstd_compress(text, size_bytes, &frame, &err), err);
    put(dir, compressed, frame.data, left == PLAIN_AND_TORN ? frame.len / 2 : frame.len);
    if (left == FRAME_ALONE) ck_assert_int_eq(unlink(plain), 0);
    EXPECT_OK(kg_bundle_recover(root, kg_report_documents, &n_recovered, &err), err);
    ck_assert_uint_eq(n_recovered, 1);
    char *published = kg_maker_only(root);
    kg_maker_expect_sound(published);
    ck_assert(has(published, relative) && !has(published, compressed));
    for (size_t i = 0; i < 20; i++) {
        char *status = kg_maker_status_of(published, i);
        ck_assert_str_eq(status, i % 7 ? "pass" : "skip");
        free(status);
    }
    EXPECT_OK(kg_path_remove(published, &err), err);
    free(published);
    kg_buffer_free(&frame);
    free(text);
    free(compressed);
    free(plain);
    free(dir);
}

static void recovered_from_any_state(struct kg_record *rec, const void *arg) {
    static const char *const RECORDS[] = { "data/plan.ndjson", "data/journal.ndjson", "data/results.ndjson" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(RECORDS); i++)
        for (int left = 0; left < N_LEFT; left++) recover_after(kg_scratch_dir(rec), RECORDS[i], left);
}

/* A disk that lost it: recover still publishes, what does not expand is kept, and every case has its status. */
static void recovered_without_its_results(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_bundle *bundle = open_bundle(root, true, 20);
    struct kg_error err;
    char *dir = kg_xstrdup(kg_bundle_dir(bundle)), *plain = kg_path_join(dir, "data/results.ndjson");
    size_t n_recovered;
    (void)arg;
    kg_bundle_close(bundle);
    ck_assert_int_eq(unlink(plain), 0);
    put(dir, "data/results.ndjson.zst", "no frame", 8);
    EXPECT_OK(kg_bundle_recover(root, kg_report_documents, &n_recovered, &err), err);
    char *published = kg_maker_only(root), *status = kg_maker_status_of(published, 1);
    ck_assert(has(published, "data/recovery/results.ndjson.zst.torn"));
    ck_assert_str_eq(status, "crash");
    free(status);
    free(published);
    free(plain);
    free(dir);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "bundle_stored", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(frame_round_trip),
    CASE(frame_written_in_pieces),
    CASE(frame_on_a_full_disk),
    CASE(frame_damaged),
    CASE(bomb_stops_at_its_limit),
    CASE(large_files_are_compressed),
    CASE(small_files_stay_plain),
    CASE(kernels_are_compressed),
    CASE(samples_are_compressed),
    CASE(index_reads_both_forms),
    CASE(flipped_byte),
    CASE(cut_short),
    CASE(bomb_in_a_bundle),
    CASE(both_forms),
    CASE(missing_file),
    CASE(suffix_is_reserved),
    CASE(recovered_from_any_state),
    CASE(recovered_without_its_results),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
