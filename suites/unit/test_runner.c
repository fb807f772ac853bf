/* The runner's parts that judge what a program says: keys, lines, logs, result records, names of failures. */
#include "base/escape.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "bundle/records.h"
#include "run/bounded_log.h"
#include "run/case_key.h"
#include "run/child.h"
#include "run/discover.h"
#include "run/failure_name.h"
#include "run/line_reader.h"
#include "run/result_lists.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/record.h"
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct key_row {
    struct kg_case c;
    const char *key; /* NULL: refused */
};
static const struct key_row KEYS[] = {
    { { .layer = "unit", .op = "gguf", .name = "magic" }, "unit/gguf/magic" },
    { { .layer = "unit", .op = "x", .name = "y", .backend = "cpu" }, "unit/x/y[cpu,-,-]" },
    { { .layer = "unit", .op = "x", .name = "y", .shape = "M=3 N=5, odd" }, "unit/x/y[-,-,M=3 N=5, odd]" },
    { { .layer = "unit", .op = "x", .name = "y", .backend = "cpu", .dtype = "f16", .shape = "4" },
      "unit/x/y[cpu,f16,4]" },
    { { .layer = "unit", .op = "a/b", .name = "y" }, NULL },
    { { .layer = "unit", .op = "x", .name = "y[z]" }, NULL },
    { { .layer = "unit", .op = "x", .name = "line\nbreak" }, NULL },
    { { .layer = "unit", .op = "x", .name = "y # SKIP" }, NULL },
    { { .layer = "unit", .op = "x", .name = "caf\xc3\xa9" }, NULL },
    { { .layer = "unit", .op = "x", .name = "" }, NULL },
    { { .layer = NULL, .op = "x", .name = "y" }, NULL },
    { { .layer = "unit", .op = "x", .name = "y", .dtype = "f16,f32" }, NULL },
    { { .layer = "unit", .op = "x", .name = "y", .shape = "" }, NULL },
};

static void keys_read_back_one_way(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    char key[KG_CASE_KEY_MAX];
    struct kg_error err;
    for (size_t i = 0; i < KG_COUNT_OF(KEYS); i++) {
        const enum kg_status status = kg_case_key(&KEYS[i].c, key, &err);
        ck_assert_msg((status == KG_OK) == (KEYS[i].key != NULL), "row %zu: %s", i, kg_status_name(status));
        if (status == KG_OK) ck_assert_str_eq(key, KEYS[i].key);
    }
    char *long_name = malloc(KG_CASE_KEY_MAX + 1);
    memset(long_name, 'x', KG_CASE_KEY_MAX);
    long_name[KG_CASE_KEY_MAX] = '\0';
    const struct kg_case too_long = { .layer = "unit", .op = "x", .name = long_name };
    const enum kg_status status = kg_case_key(&too_long, key, &err);
    free(long_name);
    ck_assert_int_eq(status, KG_ERR_USAGE);
}

/* Every field of the definition changes the hash, and text cannot move from one field to the next. */
static void definition_hash_covers_every_field(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const struct kg_case rows[] = {
        { .layer = "l", .op = "o", .name = "n" },
        { .layer = "m", .op = "o", .name = "n" },
        { .layer = "l", .op = "p", .name = "n" },
        { .layer = "l", .op = "o", .name = "m" },
        { .layer = "l", .op = "o", .name = "n", .backend = "b" },
        { .layer = "l", .op = "o", .name = "n", .dtype = "b" },
        { .layer = "l", .op = "o", .name = "n", .shape = "b" },
        { .layer = "l", .op = "o", .name = "n", .spec = "b" },
        { .layer = "l", .op = "o", .name = "n", .definition = "b" },
        { .layer = "l", .op = "o", .name = "n", .definition = "c" },
    };
    char sha[KG_COUNT_OF(rows)][KG_SHA256_HEX_SIZE];
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        kg_case_definition_sha(&rows[i], sha[i]);
        for (size_t k = 0; k < i; k++) ck_assert_msg(strcmp(sha[i], sha[k]) != 0, "rows %zu and %zu", k, i);
    }
    /* sha256("layer=l\nop=o\nname=n\n"), by another program */
    ck_assert_str_eq(sha[0], "4d4921bfcc641799f217de8448361aa6713a0b607d139a23441b279ccb02fcb6");
}

static void seeds_follow_run_and_key(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    /* the first 16 digits of sha256("1\nunit/x/y"), by another program */
    ck_assert_uint_eq(kg_case_seed(1, "unit/x/y"), UINT64_C(0x59ee3e6e8501deac));
    ck_assert_uint_ne(kg_case_seed(1, "unit/x/y"), kg_case_seed(2, "unit/x/y"));
    ck_assert_uint_ne(kg_case_seed(1, "unit/x/y"), kg_case_seed(1, "unit/x/z"));
}

static void lines_come_whole(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    struct kg_line_reader reader = { 0 };
    size_t len;
    ck_assert_int_eq(write(fds[1], "one\ntw", 6), 6);
    close(fds[1]);
    ck_assert(kg_line_reader_fill(&reader, fds[0]));
    ck_assert_str_eq(kg_line_reader_next(&reader, &len), "one");
    ck_assert_uint_eq(len, 3);
    ck_assert_ptr_null(kg_line_reader_next(&reader, &len));
    ck_assert_uint_eq(kg_line_reader_left(&reader), 2);
    ck_assert(!kg_line_reader_fill(&reader, fds[0]));
    ck_assert(reader.at_end);
    close(fds[0]);
    kg_line_reader_free(&reader);
}

static void log_keeps_both_ends(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_bounded_log log = { 0 };
    struct kg_buffer text = KG_BUFFER_INIT, last = KG_BUFFER_INIT;
    kg_bounded_log_append(&log, "first\n", 6);
    for (int i = 0; i < 200000; i++) kg_bounded_log_append(&log, "0123456789\n", 11);
    kg_bounded_log_append(&log, "bell\a \xff last\n\n", 14);
    kg_bounded_log_text(&log, &text);
    kg_bounded_log_last(&log, 30, &last);
    ck_assert_uint_le(text.len, KG_LOG_HEAD_BYTES + 2 * KG_LOG_TAIL_BYTES + 100);
    ck_assert_int_eq(memcmp(text.data, "first\n", 6), 0);
    ck_assert_ptr_nonnull(strstr(text.data, " bytes left out here]"));
    ck_assert_str_eq(last.data, "0123456789\nbell? ? last");
    kg_buffer_free(&text);
    kg_buffer_free(&last);
    kg_bounded_log_free(&log);
}

static void log_that_is_short_is_whole(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_bounded_log log = { 0 };
    struct kg_buffer text = KG_BUFFER_INIT, last = KG_BUFFER_INIT;
    kg_bounded_log_last(&log, 100, &last);
    ck_assert_uint_eq(last.len, 0);
    kg_bounded_log_append(&log, "a\nb\n", 4);
    kg_bounded_log_text(&log, &text);
    kg_bounded_log_last(&log, 100, &last);
    ck_assert_str_eq(text.data, "a\nb\n");
    ck_assert_str_eq(last.data, "a\nb");
    kg_buffer_free(&text);
    kg_buffer_free(&last);
    kg_bounded_log_free(&log);
}

/* An end event as programs send it, with text put in the place of one row. */
static enum kg_status read_lists(const char *errors, const char *timings, const char *metrics, const char *memory,
                                 json_t **lists, struct kg_error *err) {
    char *text =
        kg_xasprintf("{\"errors\":%s,\"timings\":%s,\"metrics\":%s,\"memory\":%s}", errors, timings, metrics, memory);
    json_t *end = json_loads(text, 0, NULL);
    ck_assert_msg(end != NULL, "the test's own JSON: %s", text);
    const enum kg_status status = kg_result_lists_read(end, lists, err);
    json_decref(end);
    free(text);
    return status;
}

#define TIMING(n_, samples_)                                                                                           \
    "[{\"name\":\"t\",\"kind\":\"host\",\"state\":\"warm\",\"n\":" n_ ",\"median\":1,\"mad\":0,\"ci_lo\":1,"           \
    "\"ci_hi\":1,\"min\":1,\"max\":1,\"bytes\":0,\"flops\":0,\"valid\":true,\"samples\":" samples_ "}]"

static void result_lists_take_known_fields_only(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    json_t *lists;
    struct kg_error err;
    ck_assert_int_eq(read_lists("[]", TIMING("2", "[1, 2.5]"),
                                "[{\"name\":\"m\",\"unit\":\"bytes\",\"value\":null,\"evil\":[1]}]",
                                "[{\"tag\":\"kv\",\"peak_bytes\":3,\"left_bytes\":0}]", &lists, &err),
                     KG_OK);
    const json_t *metric = json_array_get(json_object_get(lists, "metrics"), 0);
    ck_assert_uint_eq(json_object_size(metric), 3);
    ck_assert_ptr_null(json_object_get(metric, "evil"));
    ck_assert_uint_eq(json_array_size(json_object_get(lists, "timings")), 1);
    json_decref(lists);
}

#define COMPARED(more_)                                                                                                \
    "[{\"name\":\"x\",\"n\":4,\"n_nonfinite\":0,\"max_abs\":1e-3,\"max_rel\":0.5,\"rms_rel\":1,\"nmse\":1,"            \
    "\"one_minus_cos\":0,\"worst_index\":2,\"worst_got\":1,\"worst_want\":null,\"tolerance\":{\"nmse\":1},"            \
    "\"why\":\"y\",\"margin\":0.5,\"judged\":true" more_ "}]"

/* Why a limit is far is there where it is stated. */
static void result_lists_keep_the_reason_of_a_far_limit(struct kg_record *rec, const void *arg) {
    static const char *const FAR[] = { NULL, "theory" };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FAR); i++) {
        json_t *lists;
        struct kg_error err;
        ck_assert_int_eq(
            read_lists(FAR[i] ? COMPARED(",\"far\":\"theory\"") : COMPARED(""), "[]", "[]", "[]", &lists, &err), KG_OK);
        const char *far = kg_json_text(json_array_get(json_object_get(lists, "errors"), 0), "far");
        ck_assert_str_eq(far ? far : "none", FAR[i] ? FAR[i] : "none");
        json_decref(lists);
    }
}

static void result_lists_refuse_other_types(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const struct {
        const char *errors, *timings, *metrics, *memory, *named;
    } ROWS[] = {
        { "{}", "[]", "[]", "[]", "errors" },
        { "[7]", "[]", "[]", "[]", "errors[0]" },
        { "[{\"name\":\"x\"}]", "[]", "[]", "[]", "'n'" },
        { COMPARED(",\"far\":1"), "[]", "[]", "[]", "'far'" },
        { "[]", TIMING("3", "[1, 2]"), "[]", "[]", "3 but 2" },
        { "[]", TIMING("1", "[-1]"), "[]", "[]", "'samples'" },
        { "[]", TIMING("-1", "[]"), "[]", "[]", "'n'" },
        { "[]", "[]", "[{\"name\":1,\"unit\":\"x\",\"value\":1}]", "[]", "'name'" },
        { "[]", "[]", "[]", "[{\"tag\":\"x\",\"peak_bytes\":1.5,\"left_bytes\":0}]", "'peak_bytes'" },
        { "[]", "[]", "[]", "null", "memory" },
    };
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        json_t *lists;
        struct kg_error err;
        ck_assert_msg(read_lists(ROWS[i].errors, ROWS[i].timings, ROWS[i].metrics, ROWS[i].memory, &lists, &err) ==
                          KG_ERR_FORMAT,
                      "row %zu was taken", i);
        ck_assert_msg(strstr(err.message, ROWS[i].named) != NULL, "row %zu: %s", i, err.message);
    }
}

/* Whatever bytes come, an event is refused or holds what it must; nothing is read outside it (the sanitizers' builds).
 */
static void damaged_events_are_refused_or_whole(struct kg_record *rec, const void *arg) {
    (void)arg;
    enum { N_TRIES = 20000, MAX_CHANGES = 4 };
    static const char EVENT[] =
        "{\"errors\":" COMPARED("") ",\"timings\":" TIMING("2", "[1,2]") ",\"metrics\":[],\"memory\":[]}";
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    size_t n_taken = 0;
    for (int i = 0; i < N_TRIES; i++) {
        char text[sizeof EVENT];
        memcpy(text, EVENT, sizeof text);
        const uint64_t n_changes = 1 + kg_rng_below(&rng, MAX_CHANGES);
        for (uint64_t k = 0; k < n_changes; k++)
            text[kg_rng_below(&rng, sizeof text - 1)] = (char)kg_rng_below(&rng, 256);
        json_t *event = json_loadb(text, sizeof text - 1, JSON_REJECT_DUPLICATES, NULL), *lists;
        struct kg_error err;
        if (event && kg_result_lists_read(event, &lists, &err) == KG_OK) {
            n_taken++;
            ck_assert(json_is_array(json_object_get(lists, "memory")));
            (void)kg_result_lists_outside(lists);
            json_decref(lists);
        }
        json_decref(event);
    }
    kg_record_metric(rec, "still_whole", "count", (double)n_taken);
    ck_assert_uint_lt(n_taken, N_TRIES / 2);
}

static void shell_words_stay_one_word(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const char *const WORDS[] = { "plain/word-1.0",    "two words", "it's", "$(touch x) `y` \\ \"",
                                         "unit/a/b[cpu,*,?]", "",          "-x",   "a\nb" };
    for (size_t i = 0; i < KG_COUNT_OF(WORDS); i++) {
        struct kg_buffer command = KG_BUFFER_INIT;
        kg_buffer_puts(&command, "printf %s. ");
        kg_shell_quote(&command, WORDS[i]);
        FILE *pipe = popen(command.data, "r");
        char got[64];
        const size_t len = fread(got, 1, sizeof got - 1, pipe);
        got[len] = '\0';
        pclose(pipe);
        kg_buffer_free(&command);
        ck_assert_msg(len == strlen(WORDS[i]) + 1 && memcmp(got, WORDS[i], len - 1) == 0, "'%s' came as '%s'", WORDS[i],
                      got);
    }
}

static void failure_folders_are_safe_and_distinct(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const char *const KEYS_IN[] = {
        "unit/a/b", "unit/a.b/c", "unit/a/b.c", "unit/a/b[-,-,../..]", "unit/a/b[-,-,x%y\\z]", ".hidden/a/b"
    };
    char *folders[KG_COUNT_OF(KEYS_IN)];
    for (size_t i = 0; i < KG_COUNT_OF(KEYS_IN); i++) {
        folders[i] = kg_failure_folder(KEYS_IN[i]);
        ck_assert_ptr_null(strpbrk(folders[i], "/\\% []"));
        ck_assert_int_ne(folders[i][0], '.');
        for (size_t k = 0; k < i; k++) ck_assert_str_ne(folders[i], folders[k]);
    }
    for (size_t i = 0; i < KG_COUNT_OF(KEYS_IN); i++) free(folders[i]);
    static const struct {
        const char *program, *path;
    } LOGS[] = {
        { "unit/test_gguf", "logs/unit.test_gguf.log" },
        { "caf\xe9 [#]/test_x", "logs/caf_____.test_x-745c3b3a.log" },
        { "100%/test_x", "logs/100_.test_x-e08288ba.log" },
    };
    for (size_t i = 0; i < KG_COUNT_OF(LOGS); i++) {
        char *path = kg_log_path(LOGS[i].program);
        ck_assert_str_eq(path, LOGS[i].path);
        free(path);
    }
    ck_assert(kg_attachment_name_ok("got.bin"));
    static const char *const BAD[] = { "", ".x", "../x", "a/b", "a b", "caf\xc3\xa9" };
    for (size_t i = 0; i < KG_COUNT_OF(BAD); i++) ck_assert_msg(!kg_attachment_name_ok(BAD[i]), "'%s'", BAD[i]);
}

static void make_file(const char *dir, const char *name, mode_t mode) {
    char *path = kg_path_join(dir, name);
    ck_assert_int_eq(kg_file_write(path, "", 0, NULL), KG_OK);
    ck_assert_int_eq(chmod(path, mode), 0);
    free(path);
}

static void discovery_takes_programs_only(struct kg_record *rec, const void *arg) {
    (void)arg;
    const char *dir = kg_scratch_dir(rec);
    static const char *const FOLDERS[] = { "unit", "unit/deeper", "haiku", "unit/test_folder" };
    for (size_t i = 0; i < KG_COUNT_OF(FOLDERS); i++) {
        char *path = kg_path_join(dir, FOLDERS[i]);
        ck_assert_int_eq(kg_dir_make(path, NULL), KG_OK);
        free(path);
    }
    make_file(dir, "unit/test_b", 0755);
    make_file(dir, "unit/test_a", 0755);
    make_file(dir, "unit/test_a.o", 0755);
    make_file(dir, "unit/test_data", 0644);
    make_file(dir, "unit/other", 0755);
    make_file(dir, "unit/deeper/test_deep", 0755);
    make_file(dir, "haiku/test_h", 0755);
    make_file(dir, "test_top", 0755);
    make_file(dir, "unit/bench_b", 0755);
    struct kg_suite_programs programs;
    ck_assert_int_eq(kg_suites_discover(dir, "test_", &programs, NULL), KG_OK);
    static const char *const EXPECTED[] = { "haiku/test_h", "test_top", "unit/test_a", "unit/test_b" };
    ck_assert_uint_eq(programs.n_items, KG_COUNT_OF(EXPECTED));
    for (size_t i = 0; i < KG_COUNT_OF(EXPECTED); i++) ck_assert_str_eq(programs.items[i].name, EXPECTED[i]);
    kg_suite_programs_free(&programs);
    ck_assert_int_eq(kg_suites_discover(dir, "bench_", &programs, NULL), KG_OK);
    ck_assert_uint_eq(programs.n_items, 1);
    ck_assert_str_eq(programs.items[0].name, "unit/bench_b");
    kg_suite_programs_free(&programs);
}

/* A program that nobody can look at is not left out of a run: its cases would be missing in silence. */
static void discovery_of_what_cannot_be_looked_at(struct kg_record *rec, const void *arg) {
    const char *dir = kg_scratch_dir(rec);
    struct kg_suite_programs programs;
    struct kg_error err;
    char *round = kg_path_join(dir, "test_round"), *gone = kg_path_join(dir, "test_gone");
    (void)arg;
    make_file(dir, "test_a", 0755);
    ck_assert_int_eq(symlink("nothing", gone), 0);
    ck_assert_int_eq(kg_suites_discover(dir, "test_", &programs, &err), KG_OK);
    ck_assert_uint_eq(programs.n_items, 1);
    kg_suite_programs_free(&programs);
    ck_assert_int_eq(symlink("test_round", round), 0);
    kg_must_fail(kg_suites_discover(dir, "test_", &programs, &err), KG_ERR_IO, &err, round, NULL);
    free(gone);
    free(round);
}

static size_t n_open_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

/* A run of many programs would come to an end of its descriptors. */
static void child_leaves_no_descriptor(struct kg_record *rec, const void *arg) {
    const struct kg_child_surroundings around = { .seed = 1 };
    const struct kg_child_spec spec = { .path = "/bin/true", .cases = "a\n", .surroundings = &around };
    const size_t n_before = n_open_descriptors();
    struct kg_child child;
    struct kg_error err;
    int wait_status;
    (void)rec;
    (void)arg;
    kg_must(kg_child_start(&spec, &child, &err), &err);
    while (!kg_child_ended(&child, &wait_status)) poll(NULL, 0, 1);
    kg_must(kg_child_trouble(&child, spec.path, &err), &err);
    kg_child_close(&child);
    ck_assert_int_eq(wait_status, 0);
    ck_assert_uint_eq(n_open_descriptors(), n_before);
}

/* An event that JSON cannot hold ends the program; a line "(null)" would blame the one who reads it. */
static void event_that_is_not_utf8(struct kg_record *rec, const void *arg) {
    char *path = kg_path_join(kg_scratch_dir(rec), "events"), *text;
    struct kg_error err;
    size_t len;
    int wait_status;
    (void)arg;
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    const pid_t pid = fork();
    if (pid == 0) {
        kg_event_write(fd, json_pack("[o]", json_stringn_nocheck("\xFF", 1)));
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &wait_status, 0), pid);
    close(fd);
    kg_must(kg_file_read(path, &text, &len, &err), &err);
    ck_assert_uint_eq(len, 0);
    ck_assert(WIFEXITED(wait_status));
    ck_assert_int_eq(WEXITSTATUS(wait_status), KG_EXIT_INTERNAL);
    free(text);
    free(path);
}

#define RUNNER(name_)                                                                                                  \
    { .layer = "unit", .op = "runner", .name = #name_, .run = name_ }

static const struct kg_case CASES[] = {
    RUNNER(keys_read_back_one_way),
    RUNNER(definition_hash_covers_every_field),
    RUNNER(seeds_follow_run_and_key),
    RUNNER(lines_come_whole),
    RUNNER(log_keeps_both_ends),
    RUNNER(log_that_is_short_is_whole),
    RUNNER(result_lists_take_known_fields_only),
    RUNNER(result_lists_keep_the_reason_of_a_far_limit),
    RUNNER(result_lists_refuse_other_types),
    RUNNER(damaged_events_are_refused_or_whole),
    RUNNER(shell_words_stay_one_word),
    RUNNER(failure_folders_are_safe_and_distinct),
    RUNNER(discovery_takes_programs_only),
    RUNNER(discovery_of_what_cannot_be_looked_at),
    RUNNER(child_leaves_no_descriptor),
    RUNNER(event_that_is_not_utf8),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
