/* The runner of programs: what a child wrote, how it ended, and that one which hangs is ended. */
#include "suites/harness/process.h"
#include "suites/harness/case.h"
#include "base/file.h"
#include "base/program.h"
#include "base/size.h"
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct process_row {
    const char *name;
    const char *argv[4];
    const char *input;
    const char *env[2];
    bool broken_stdout, closed_stdout;
    double timeout_s;
    int exit_code, signal;
    bool timed_out;
    const char *out, *err;
};

static const struct process_row ROWS[] = {
    { .name = "exit_code", .argv = { "/bin/sh", "-c", "exit 5" }, .exit_code = 5, .out = "", .err = "" },
    { .name = "both_streams", .argv = { "/bin/sh", "-c", "echo a; echo b >&2" }, .out = "a\n", .err = "b\n" },
    { .name = "standard_input", .argv = { "/bin/cat" }, .input = "some text", .out = "some text", .err = "" },
    { .name = "empty_input_ends", .argv = { "/bin/cat" }, .out = "", .err = "" },
    { .name = "environment",
      .argv = { "/bin/sh", "-c", "printf %s \"$HOME\"" },
      .env = { "HOME=/nowhere" },
      .out = "/nowhere",
      .err = "" },
    { .name = "signal_ends_it",
      .argv = { "/bin/sh", "-c", "kill -SEGV $$" },
      .exit_code = -1,
      .signal = SIGSEGV,
      .out = "",
      .err = "" },
    { .name = "hang_is_killed",
      .argv = { "/bin/sh", "-c", "exec sleep 60" },
      .timeout_s = 0.2,
      .exit_code = -1,
      .signal = SIGKILL,
      .timed_out = true,
      .out = "",
      .err = "" },
    { .name = "no_such_program", .argv = { "/nowhere/at/all" }, .exit_code = 127, .out = "", .err = "" },
    { .name = "broken_stdout_gets_the_signal",
      .argv = { "/bin/cat" },
      .input = "text",
      .broken_stdout = true,
      .exit_code = -1,
      .signal = SIGPIPE,
      .out = "",
      .err = "" },
    { .name = "closed_stdout",
      .argv = { "/bin/sh", "-c", "[ -e /dev/fd/1 ] && exit 1; exit 0" },
      .closed_stdout = true,
      .out = "",
      .err = "" },
};

static void runs_as_said(struct kg_record *rec, const void *arg) {
    const struct process_row *const row = arg;
    const struct kg_process process = {
        .argv = row->argv,
        .input = row->input,
        .input_len = row->input ? strlen(row->input) : 0,
        .env = row->env,
        .timeout_s = row->timeout_s,
        .broken_stdout = row->broken_stdout,
        .closed_stdout = row->closed_stdout,
    };
    struct kg_process_result result;
    struct kg_error err = { 0 };
    (void)rec;
    ck_assert_msg(kg_process_run(&process, &result, &err) == KG_OK, "%s", err.message);
    ck_assert_int_eq(result.exit_code, row->exit_code);
    ck_assert_int_eq(result.signal, row->signal);
    ck_assert_int_eq(result.timed_out, row->timed_out);
    ck_assert_str_eq(result.out, row->out);
    ck_assert_str_eq(result.err, row->err);
    ck_assert_uint_eq(result.out_len, strlen(row->out));
    kg_process_result_free(&result);
}

/* The caller's variables, less those whose beginnings are named, and those that are added. */
static void program_environment(struct kg_record *rec, const void *arg) {
    static const char *const ARGV[] = { "/bin/sh", "-c", "printf %s:%s:%s \"$KG_KEPT\" \"${KG_GONE-none}\" \"$KG_NEW\"",
                                        NULL };
    static const char *const WITHOUT[] = { "KG_NOBODY", "KG_GO", NULL }, *const ENV[] = { "KG_NEW=3", NULL };
    static const struct { const char *const *without, *out; } CALLS[] = { { NULL, "1:2:3" }, { WITHOUT, "1:none:3" } };
    (void)rec;
    (void)arg;
    setenv("KG_KEPT", "1", 1);
    setenv("KG_GONE", "2", 1);
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        const struct kg_program program = {
            .argv = ARGV, .without = CALLS[i].without, .env = ENV, .max_out_bytes = 100
        };
        struct kg_program_result result;
        struct kg_error err = { 0 };
        ck_assert_msg(kg_program_run(&program, &result, &err) == KG_OK, "%s", err.message);
        ck_assert_str_eq(kg_buffer_text(&result.out), CALLS[i].out);
        kg_program_result_free(&result);
    }
    unsetenv("KG_KEPT");
    unsetenv("KG_GONE");
}

/* A program may say nothing, or little; what an earlier call has left in errno changes nothing. */
static void program_of_few_words(struct kg_record *rec, const void *arg) {
    static const char *const WORDS[] = { "", "x" };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(WORDS); i++) {
        const char *const argv[] = { "/bin/sh", "-c", "printf \"$0\"; printf \"$0\" >&2; exit 3", WORDS[i], NULL };
        const struct kg_program program = { .argv = argv, .max_out_bytes = 100 };
        struct kg_program_result result;
        struct kg_error err = { 0 };
        errno = EINTR;
        ck_assert_msg(kg_program_run(&program, &result, &err) == KG_OK, "%s", err.message);
        ck_assert_int_eq(result.exit_code, 3);
        ck_assert_str_eq(kg_buffer_text(&result.out), WORDS[i]);
        ck_assert_str_eq(kg_buffer_text(&result.errors), WORDS[i]);
        kg_program_result_free(&result);
    }
}

/* A result that was freed is an empty one. */
static void freed_result_is_empty(struct kg_record *rec, const void *arg) {
    struct kg_process_result result = { .out = strdup("a"), .err = strdup("b"), .out_len = 1, .exit_code = 3 };
    (void)rec;
    (void)arg;
    kg_process_result_free(&result);
    ck_assert_ptr_null(result.out);
    ck_assert_ptr_null(result.err);
    ck_assert_uint_eq(result.out_len, 0);
    ck_assert_int_eq(result.exit_code, 0);
}

static const char *ready_path; /* of a file that the program makes once it does not hear that it should end */

static bool is_ready(void *unused) {
    (void)unused;
    return kg_path_exists(ready_path);
}

/* A program that does not end when it is asked to is killed: it never gets to what it would do half a minute later. */
static void deaf_program_is_killed(struct kg_record *rec, const void *arg) {
    char *ready = kg_path_join(kg_scratch_dir(rec), "ready"), *late = kg_path_join(kg_scratch_dir(rec), "late");
    const struct kg_program program = { .argv = ARGS("/bin/sh", "-c", "trap '' TERM; : >\"$1\"; sleep 30; : >\"$2\"",
                                                     "sh", ready, late),
                                        .cancelled = is_ready,
                                        .patience_ms = 50 };
    struct kg_program_result result;
    struct kg_error err;
    (void)arg;
    ready_path = ready;
    ck_assert_int_eq(kg_program_run(&program, &result, &err), KG_ERR_CANCELLED);
    ck_assert_int_eq(result.exit_code, -1);
    ck_assert(!kg_path_exists(late));
    kg_program_result_free(&result);
    free(late);
    free(ready);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OWN[] = { { "program_environment", program_environment },
                { "program_of_few_words", program_of_few_words },
                { "deaf_program_is_killed", deaf_program_is_killed },
                { "freed_result_is_empty", freed_result_is_empty } };
    for (size_t i = 0; i < KG_COUNT_OF(OWN); i++)
        kg_case_list_add(list,
                         &(struct kg_case){ .layer = "unit", .op = "process", .name = OWN[i].name, .run = OWN[i].run });
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(
            list, &(struct kg_case){
                      .layer = "unit", .op = "process", .name = ROWS[i].name, .run = runs_as_said, .arg = &ROWS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
