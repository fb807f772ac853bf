/* Small archives that cost much to read, and the folders that they unpack to: every verb that meets one ends within
 * 512 MB of memory and some seconds of processor time, and says which cap it was. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/zstd.h"
#include "bundle/archive.h"
#include "bundle/limits.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/tar_image.h"
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__
enum { MAX_MB = 4096, MAX_CPU_S = 200 }; /* shadow memory, freed memory kept, and slow */
#else
enum { MAX_MB = 512, MAX_CPU_S = 20 };
#endif

static void write_bytes(const char *dir, const char *relative, const struct kg_buffer *bytes) {
    char *path = kg_path_join(dir, relative), *slash = strrchr(path, '/');
    struct kg_error err;
    *slash = '\0';
    EXPECT_OK(kg_dir_make(path, &err), err);
    *slash = '/';
    FILE *file = fopen(path, "we");
    ck_assert_msg(file != NULL, "%s", path);
    const size_t n = fwrite(kg_buffer_text(bytes), 1, bytes->len, file);
    const bool closed = fclose(file) == 0;
    ck_assert_msg(n == bytes->len && closed, "%s", path);
    free(path);
}

/* before, `unit` until there are n_bytes, after. */
static void put_repeated(const char *dir, const char *relative, const char *before, const char *unit, size_t n_bytes,
                         const char *after) {
    struct kg_buffer text = KG_BUFFER_INIT;
    kg_buffer_reserve(&text, n_bytes + strlen(before) + strlen(after) + strlen(unit));
    kg_buffer_puts(&text, before);
    while (text.len < n_bytes) kg_buffer_puts(&text, unit);
    kg_buffer_puts(&text, after);
    write_bytes(dir, relative, &text);
    kg_buffer_free(&text);
}

static void bad_lines(const char *dir) {
    put_repeated(dir, "data/journal.ndjson", "", "x\n", 4 << 20, "");
}
static void empty_objects(const char *dir) {
    put_repeated(dir, "data/results.ndjson", "", "{}\n", 4 << 20, "");
}
static void too_many_values(const char *dir) {
    enum { N_LINES = 200, N_OBJECTS = 4000 };
    struct kg_buffer line = KG_BUFFER_INIT;
    kg_buffer_puts(&line, "{\"a\":[{}");
    for (int i = 0; i < N_OBJECTS; i++) kg_buffer_puts(&line, ",{}");
    kg_buffer_puts(&line, "]}\n");
    put_repeated(dir, "data/plan.ndjson", "", kg_buffer_text(&line), line.len * N_LINES, "");
    kg_buffer_free(&line);
}
static void too_long_a_file(const char *dir) {
    put_repeated(dir, "data/results.ndjson", "", "{}\n", 60 << 20, "");
}
static void too_long_a_line(const char *dir) {
    put_repeated(dir, "data/plan.ndjson", "{\"key\":\"", "x", 20 << 20, "\"}\n");
}
static void many_members(const char *dir) {
    struct kg_buffer text = KG_BUFFER_INIT;
    for (int line = 0; line < 16; line++) {
        kg_buffer_puts(&text, "{\"a\":0");
        for (int i = 0; i < 60000; i++) kg_buffer_printf(&text, ",\"a%d\":0", i);
        kg_buffer_puts(&text, "}\n");
    }
    write_bytes(dir, "data/plan.ndjson", &text);
    kg_buffer_free(&text);
}
static void deep_list(const char *dir) {
    put_repeated(dir, "data/env.json", "{\"a\":", "[", 15 << 20, "");
}
static void list_of_objects(const char *dir) {
    put_repeated(dir, "data/env.json", "{\"a\":[{}", ",{}", 15 << 20, "]}\n");
}
static void too_large_a_document(const char *dir) {
    put_repeated(dir, "data/build.json", "{\"a\":[0", ",0", 60 << 20, "]}\n");
}
static void manifest_of_bad_lines(const char *dir) {
    put_repeated(dir, "manifest-sha256.txt", "", "x\n", 4 << 20, "");
}
static void many_labels(const char *dir) {
    struct kg_buffer text = KG_BUFFER_INIT;
    for (int i = 0; i < 100000; i++) kg_buffer_printf(&text, "%d: x\n", i);
    kg_maker_append(dir, "bag-info.txt", kg_buffer_text(&text));
    kg_buffer_free(&text);
}

/* 400 frames that hold 64 MiB each. */
static void frames(const char *dir) {
    enum { N = 400 };
    struct kg_buffer zeros = KG_BUFFER_INIT, frame = KG_BUFFER_INIT;
    struct kg_error err;
    kg_buffer_reserve(&zeros, 64 << 20);
    memset(zeros.data, 0, 64 << 20);
    zeros.len = 64 << 20;
    EXPECT_OK(kg_zstd_compress(zeros.data, zeros.len, &frame, &err), err);
    kg_buffer_free(&zeros);
    for (int i = 0; i < N; i++) {
        char *name = kg_xasprintf("data/logs/%d.log.zst", i);
        write_bytes(dir, name, &frame);
        free(name);
    }
    kg_buffer_free(&frame);
}

/* 2,000 timings of the same million samples. */
static void samples_of_many(const char *dir) {
    enum { N_TIMINGS = 2000, N_SAMPLES = 1000000 };
    struct kg_buffer text = KG_BUFFER_INIT, samples = KG_BUFFER_INIT;
    kg_buffer_puts(&text, "\"timings\":[");
    for (int i = 0; i < N_TIMINGS; i++)
        kg_buffer_printf(&text,
                         "%s{\"name\":\"t%d\",\"kind\":\"host\",\"state\":\"warm\",\"n\":%d,\"samples_offset\":0,"
                         "\"median\":1}",
                         i ? "," : "", i, N_SAMPLES);
    kg_buffer_puts(&text, ",");
    kg_maker_replace(dir, "data/results.ndjson", "\"timings\":[", kg_buffer_text(&text));
    kg_buffer_reserve(&samples, N_SAMPLES * sizeof(float));
    for (int i = 0; i < N_SAMPLES; i++) {
        const float value = (float)((int64_t)i * 7919 % N_SAMPLES + 1);
        kg_buffer_append(&samples, &value, sizeof value);
    }
    write_bytes(dir, "data/samples.bin", &samples);
    kg_buffer_free(&samples);
    kg_buffer_free(&text);
}

/* No archive brings them: who may write to the store does. That each of more costs the same is in
 * unit/bundle_verify/many_empty_folders: a disk needs half a minute to remove 20,000. */
static void folders(const char *dir) {
    enum { N = 2000 };
    for (int i = 0; i < N; i++) {
        char *path = kg_xasprintf("%s/data/%d", dir, i);
        ck_assert_int_eq(mkdir(path, 0755), 0);
        free(path);
    }
}

/* Nearly all that may be read: record files of long strings and of short members, two million values, a large
 * document. Nothing of it is a record. */
static void fills_the_caps(const char *dir) {
    static const char *const FILES[] = { "data/plan.ndjson", "data/results.ndjson" };
    enum { N_LINES = 1980, N_MEMBERS = 1000 };
    struct kg_buffer members = KG_BUFFER_INIT;
    char *line = kg_xasprintf("{\"a\":\"%01000000d\"}\n", 7);
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) put_repeated(dir, FILES[i], "", line, 31 << 20, "");
    for (int i = 0; i < N_MEMBERS; i++) kg_buffer_printf(&members, "%s\"%d\":0", i ? "," : "{", i);
    kg_buffer_puts(&members, "}\n");
    put_repeated(dir, "data/journal.ndjson", "", kg_buffer_text(&members), members.len * N_LINES, "");
    put_repeated(dir, "data/env.json", "{\"a\":[{}", ",{}", 370000, "]}\n");
    kg_buffer_free(&members);
    free(line);
}

static const struct bomb {
    const char *name;
    void (*make)(const char *dir);
    const char *says;
    bool imports;  /* the archive has nothing of it */
    int max_cpu_s; /* 0: MAX_CPU_S */
} BOMBS[] = {
    { "bad_lines", bad_lines, "more findings are not listed", false, 0 },
    { "empty_objects", empty_objects, "more findings are not listed", false, 0 },
    { "too_many_values", too_many_values, "past the 2,000,000 values", false, 0 },
    { "too_long_a_file", too_long_a_file, "at most 33554432 are read", false, 0 },
    { "too_long_a_line", too_long_a_line, "is longer than 1 MiB", false, 0 },
    { "many_members", many_members, "more than 1,024 members", false, 0 },
    { "deep_list", deep_list, "deeper than 64", false, 0 },
    { "list_of_objects", list_of_objects, "more than 500,000 values", false, 0 },
    { "too_large_a_document", too_large_a_document, "at most 16777216 are read", false, 0 },
    { "manifest_of_bad_lines", manifest_of_bad_lines, "more findings are not listed", false, 0 },
    { "many_labels", many_labels, "at most 64 KiB", false, 0 },
    { "frames", frames, "more than 256 MiB together", false, 0 },
    { "samples_of_many", samples_of_many, "are more than the 1000000 recorded", false, 0 },
    { "folders", folders, "more findings are not listed", true, MAX_CPU_S / 10 },
    { "fills_the_caps", fills_the_caps, "more findings are not listed", false, 0 },
};

/* What a call of kigo cost, and said. */
struct cost {
    int exit_code;
    double mb, cpu_s;
    char *said;
};

static void measure(const struct kg_record *rec, const char *const *args, const char *root, struct cost *cost) {
    const char *argv[12] = { kg_program_path() };
    size_t n = 1, size_bytes;
    struct kg_error err;
    for (; args[n - 1]; n++) argv[n] = args[n - 1];
    argv[n++] = "--bundles";
    argv[n] = root;
    char *out = kg_path_join(kg_scratch_dir(rec), "said");
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(126);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int ended;
    struct rusage usage;
    ck_assert_int_eq(wait4(pid, &ended, 0, &usage), pid);
    EXPECT_OK(kg_file_read(out, &cost->said, &size_bytes, &err), err);
    ck_assert_msg(WIFEXITED(ended), "kigo %s was ended by signal %d: %.1000s", args[0], WTERMSIG(ended), cost->said);
    cost->exit_code = WEXITSTATUS(ended);
    cost->mb = (double)usage.ru_maxrss / 1000; /* KiB */
    cost->cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    if (getenv("KIGO_SHOW_COSTS"))
        fprintf(stderr, "# %s: %.0f MB, %.2f s: %.300s\n", args[0], cost->mb, cost->cpu_s, cost->said);
    free(out);
}

/* says: NULL for any words. */
static void expect_cheap(const struct kg_record *rec, const char *const *args, const char *root, int exit_code,
                         const char *says, int max_cpu_s) {
    struct cost cost;
    measure(rec, args, root, &cost);
    if (max_cpu_s == 0) max_cpu_s = MAX_CPU_S;
    ck_assert_msg(cost.exit_code == exit_code && (!says || strstr(cost.said, says)),
                  "kigo %s ended with %d, not %d and '%s': %.1500s", args[0], cost.exit_code, exit_code,
                  says ? says : "", cost.said);
    ck_assert_msg(cost.mb <= MAX_MB, "kigo %s took %.0f MB, more than %d", args[0], cost.mb, MAX_MB);
    ck_assert_msg(cost.cpu_s <= max_cpu_s, "kigo %s took %.1f s, more than %d", args[0], cost.cpu_s, max_cpu_s);
    free(cost.said);
}

/* A bundle that is a bomb, in <root>/<id>; its folder malloc'ed. */
static char *make_bomb(const struct bomb *bomb, const char *root) {
    char *dir = kg_maker_sealed(root, 2);
    bomb->make(dir);
    if (strcmp(bomb->name, "manifest_of_bad_lines") != 0) kg_maker_rehash(dir);
    return dir;
}

/* As `kigo export` writes one. */
static void write_archive(const char *path, const struct kg_buffer *tar) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct kg_zstd_writer *writer;
    struct kg_error err;
    ck_assert_int_ge(fd, 0);
    EXPECT_OK(kg_zstd_writer_open(fd, &writer, &err), err);
    EXPECT_OK(kg_zstd_writer_put(writer, tar->data, tar->len, &err), err);
    EXPECT_OK(kg_zstd_writer_end(writer, &err), err);
    if (getenv("KIGO_SHOW_COSTS"))
        fprintf(stderr, "# %lld bytes hold %zu\n", (long long)lseek(fd, 0, SEEK_CUR), tar->len);
    kg_zstd_writer_free(writer);
    ck_assert_int_eq(close(fd), 0);
}

static char *folder(const struct kg_record *rec, const char *name) {
    char *dir = kg_path_join(kg_scratch_dir(rec), name);
    struct kg_error err;
    EXPECT_OK(kg_dir_make(dir, &err), err);
    return dir;
}

/* The folder was put there by hand: verify meets each, each of the others meets one bomb in four. */
static void read_by_hand(const struct kg_record *rec, const struct bomb *bomb, const char *root, const char *id) {
    const char *const *const calls[] = { ARGS("verify", "--all", "--json"), ARGS("list"), ARGS("show", id),
                                         ARGS("reindex") };
    const char *const *call = calls[(size_t)(bomb - BOMBS) % KG_COUNT_OF(calls)];
    struct cost cost;
    expect_cheap(rec, ARGS("verify", id), root, KG_EXIT_INTEGRITY, bomb->says, bomb->max_cpu_s);
    measure(rec, call, root, &cost);
    ck_assert_msg(cost.exit_code == KG_EXIT_OK || cost.exit_code == KG_EXIT_INTEGRITY, "kigo %s: %d: %.1000s", call[0],
                  cost.exit_code, cost.said);
    ck_assert_msg(cost.mb <= MAX_MB && cost.cpu_s <= MAX_CPU_S, "kigo %s took %.0f MB and %.1f s", call[0], cost.mb,
                  cost.cpu_s);
    free(cost.said);
}

static void explode(struct kg_record *rec, const void *arg) {
    const struct bomb *bomb = arg;
    if (kg_archive_missing()) return kg_record_skip(rec, "%s", kg_archive_missing());
    char *from = folder(rec, "from"), *to = folder(rec, "to"), *cache = folder(rec, "cache");
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    char *dir = make_bomb(bomb, from), *file = kg_path_join(kg_scratch_dir(rec), "bomb.tar.zst");
    struct kg_buffer tar = KG_BUFFER_INIT;
    kg_tar_add_dir(&tar, dir, strrchr(dir, '/') + 1);
    kg_tar_end(&tar);
    write_archive(file, &tar);
    kg_buffer_free(&tar);
    expect_cheap(rec, ARGS("import", file), to, bomb->imports ? KG_EXIT_OK : KG_EXIT_INTEGRITY, NULL, 0);
    ck_assert_uint_eq(kg_maker_count(to, "2"), bomb->imports);
    read_by_hand(rec, bomb, from, strrchr(dir, '/') + 1);
    free(file);
    free(dir);
    free(cache);
    free(to);
    free(from);
}

/* A list of runs that were left out, of which none is a run. */
static void left_out_of_bad_lines(struct kg_record *rec, const void *arg) {
    char *root = folder(rec, "root");
    (void)arg;
    free(kg_maker_sealed(root, 1));
    put_repeated(root, "left-out.txt", "", "x\n", 15 << 20, "");
    expect_cheap(rec, ARGS("verify", "--chain"), root, KG_EXIT_INTEGRITY, "more findings are not listed", 0);
    put_repeated(root, "left-out.txt", "", "x\n", 17 << 20, "");
    expect_cheap(rec, ARGS("verify", "--chain"), root, KG_EXIT_INTEGRITY, "left-out.txt", 0);
    free(root);
}

/* Two million values and a long text: more of a folder's records than most others together. */
static void many_values_and_a_text(const char *dir) {
    enum { N_LINES = 4 };
    struct kg_buffer line = KG_BUFFER_INIT;
    char *text = kg_xasprintf("{\"a\":\"%01000000d\"}\n", 7);
    kg_buffer_puts(&line, "{\"a\":[0");
    while (line.len < (1 << 20) - 4) kg_buffer_puts(&line, ",0");
    kg_buffer_puts(&line, "]}\n");
    put_repeated(dir, "data/plan.ndjson", "", kg_buffer_text(&line), line.len * (N_LINES - 1), "");
    put_repeated(dir, "data/results.ndjson", "", text, 31 << 20, "");
    kg_buffer_free(&line);
    free(text);
}

/* What one may take, several read side by side may not. */
static void several_at_the_caps(struct kg_record *rec, const void *arg) {
    enum { N_FOLDERS = 8, RANDOM_DIGITS = 8 };
    static const char *const FILES[] = { "data/plan.ndjson", "data/results.ndjson" };
    char *root = folder(rec, "root"), *first = kg_maker_sealed(root, 1);
    (void)arg;
    for (int k = 1; k < N_FOLDERS; k++) {
        char *other = kg_xasprintf("%.*s%08x", (int)strlen(first) - RANDOM_DIGITS, first, k);
        free(kg_maker_copy(first, other));
        if (k == 1) many_values_and_a_text(first);
        for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
            char *from = kg_path_join(first, FILES[i]), *to = kg_path_join(other, FILES[i]);
            ck_assert_int_eq(unlink(to), 0);
            ck_assert_int_eq(link(from, to), 0);
            free(to);
            free(from);
        }
        free(other);
    }
    ck_assert_uint_eq(kg_maker_count(root, "2"), N_FOLDERS);
    expect_cheap(rec, ARGS("reindex"), root, KG_EXIT_INTEGRITY, "data/plan.ndjson: line 1", 0);
    free(first);
    free(root);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(BOMBS); i++) {
        const struct kg_case c = { .layer = "integration",
                                   .op = "bombs",
                                   .name = BOMBS[i].name,
                                   .run = explode,
                                   .arg = &BOMBS[i],
                                   .timeout_s = 300 };
        kg_case_list_add(list, &c);
    }
    const struct kg_case c = {
        .layer = "integration", .op = "bombs", .name = "left_out_of_bad_lines", .run = left_out_of_bad_lines
    };
    kg_case_list_add(list, &c);
    const struct kg_case several = {
        .layer = "integration", .op = "bombs", .name = "several_at_the_caps", .run = several_at_the_caps
    };
    kg_case_list_add(list, &several);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
