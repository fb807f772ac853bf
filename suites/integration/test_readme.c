/* The README's commands, run as they stand there: what it shows as output is what they print, their verbs and options
 * are there, and those that a reader pastes leave the folder of bundles as it was. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDENT "    "

static char *readme(void) {
    char *text = NULL;
    size_t len;
    struct kg_error err;
    kg_must(kg_file_read(kg_fixture_path("../README.md"), &text, &len, &err), &err);
    char *page = kg_xstrdup(text);
    free(text);
    return page;
}

/* A shell command in a folder, with kigo in PATH and no GPU to be seen: figures of the cpu are what the page shows. */
static struct kg_process_result shell(const char *dir, const char *bundles, const char *command) {
    static const char SCRIPT[] =
        "cd \"$1\" && PATH=${0%/*}:$PATH && export PATH CUDA_VISIBLE_DEVICES= && unset KIGO_BUNDLES KIGO_POLICY && "
        "if [ -n \"$2\" ]; then KIGO_BUNDLES=$2 && export KIGO_BUNDLES; fi && eval \"$3\" 2>&1";
    struct kg_process_result r;
    struct kg_error err;
    const struct kg_process process = { .argv = ARGS("/bin/sh", "-c", SCRIPT, kg_program_path(), dir,
                                                     bundles ? bundles : "", command) };
    kg_must(kg_process_run(&process, &r, &err), &err);
    return r;
}

/* Puts `by` in the place of every match. */
static char *replaced(const char *text, const char *pattern, const char *by) {
    regex_t regex;
    regmatch_t match;
    struct kg_buffer out = KG_BUFFER_INIT;
    ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED), 0);
    while (*text && regexec(&regex, text, 1, &match, 0) == 0) {
        kg_buffer_append(&out, text, (size_t)match.rm_so);
        kg_buffer_puts(&out, by);
        text += match.rm_eo;
    }
    kg_buffer_puts(&out, text);
    regfree(&regex);
    return out.data ? out.data : kg_xstrdup("");
}

/* A line without what is measured and differs from run to run: times, rates, shares of a time, the name of a run that
 * the command has made, and the blanks that line these up. */
static char *unmeasured(const char *line, size_t len, const char *command) {
    static const char *const MEASURED[][2] = { { "[0-9]+(\\.[0-9]+)? (ms|s|tokens/s)", "N s" },
                                               { "[0-9]+(\\.[0-9]+)?%", "N%" },
                                               { " +", " " } };
    char *text = kg_xstrndup(line, len);
    for (size_t i = 0; i < KG_COUNT_OF(MEASURED); i++) {
        char *less = replaced(text, MEASURED[i][0], MEASURED[i][1]);
        free(text);
        text = less;
    }
    static const char RUN[] = "[0-9]{8}T[0-9]{6}Z-[0-9a-f]{12}(-dirty)?-[0-9a-f]{8}";
    char *named = replaced(command, RUN, "");
    if (strcmp(named, command) == 0) {
        char *less = replaced(text, RUN, "RUN");
        free(text);
        text = less;
    }
    free(named);
    return text;
}

/* "..." stands for any text. */
static bool matches(const char *want, const char *got) {
    const char *gap = strstr(want, "...");
    if (!gap) return strcmp(want, got) == 0;
    if (strncmp(want, got, (size_t)(gap - want)) != 0) return false;
    want = gap + 3;
    for (got += gap - (want - 3);; got++) {
        if (matches(want, got)) return true;
        if (!*got) return false;
    }
}

static size_t line_of(const char *text) {
    return strcspn(text, "\n");
}

/* The lines below `shown`, to the next command or the block's end, are what was printed; a line "..." stands for any
 * lines. */
static void expect_printed(const char *command, const char *shown, const char *printed) {
    bool any = false;
    while (strncmp(shown, INDENT, 4) == 0 && shown[4] != '$') {
        const size_t n_want = line_of(shown);
        const char *const at = printed;
        char *want = unmeasured(shown + 4, n_want - 4, command);
        if (strcmp(want, "...") == 0) any = true;
        else
            for (bool found = false; !found;) {
                ck_assert_msg(*printed != '\0', "%s\nprints no '%s' but:\n%.1500s", command, want, at);
                const size_t n_got = line_of(printed);
                char *got = unmeasured(printed, n_got, command);
                found = matches(want, got);
                ck_assert_msg(found || any, "%s\nREADME: %s\nprinted: %s", command, want, got);
                printed += n_got + (printed[n_got] == '\n');
                free(got);
                any = any && !found;
            }
        free(want);
        shown += n_want + (shown[n_want] == '\n');
    }
    ck_assert_msg(any || !*printed, "%s\nprints more than the README shows:\n%.1500s", command, printed);
}

/* The fixtures and a copy of the committed runs that the page shows, in the case's folder; false if there are none, as
 * in an archive of the sources. */
static bool make_place(const struct kg_record *rec, const char *page) {
    static const char COPY[] =
        "mkdir fixtures proof-bundles && ln -s \"$0\"/fixtures/* fixtures && "
        "ln -sfn \"$2\" fixtures/unpacked && "
        "{ [ ! -f \"$0/proof-bundles/allowed_signers\" ] || "
        "cp \"$0/proof-bundles/allowed_signers\" proof-bundles/; } && for run in $(grep -o '\\$ kigo show "
        "2[^ ]*' \"$0/README.md\" "
        "| sed 's/.* //'); do [ -d \"$0/proof-bundles\" ] || exit 77; cp -R "
        "\"$0/proof-bundles/$run\" proof-bundles/ || "
        "exit 1; done";
    char *source = kg_xstrdup(kg_fixture_path("..")), *unpacked = kg_xstrdup(kg_unpacked_fixture_path("."));
    char *command = kg_xasprintf("cd \"$1\" && %s", COPY);
    struct kg_process_result r;
    struct kg_error err;
    const struct kg_process process = { .argv = ARGS("/bin/sh", "-c", command, source, kg_scratch_dir(rec), unpacked) };
    (void)page;
    kg_must(kg_process_run(&process, &r, &err), &err);
    ck_assert_msg(r.exit_code == 0 || r.exit_code == 77, "a run that the README shows is not committed: %s", r.err);
    const bool made = r.exit_code == 0;
    kg_process_result_free(&r);
    free(command);
    free(unpacked);
    free(source);
    return made;
}

static void transcripts_are_true(struct kg_record *rec, const void *arg) {
    static const char PROMPT[] = "\n" INDENT "$ ";
    char *page = readme();
    size_t n = 0;
    (void)arg;
    const bool can_verify = kg_process_has_program("ssh-keygen"), has_runs = can_verify && make_place(rec, page);
    if (!can_verify) kg_record_skip(rec, "no ssh-keygen, which verifies the runs' signatures");
    else if (!has_runs) kg_record_skip(rec, "these sources come without the committed bundles");
    if (!has_runs) {
        free(page);
        return;
    }
    for (const char *at = page; (at = strstr(at, PROMPT)); n++) {
        at += sizeof PROMPT - 1;
        char *command = kg_xstrndup(at, line_of(at));
        struct kg_process_result r = shell(kg_scratch_dir(rec), NULL, command);
        expect_printed(command, at + line_of(at) + 1, r.out);
        kg_process_result_free(&r);
        free(command);
        at -= 1;
    }
    ck_assert_uint_ge(n, 4);
    kg_record_metric(rec, "commands", "count", (double)n);
    free(page);
}

/* Whether a help text lists the option: "--name" and no longer name, or "-x,". */
static bool lists(const char *help, const char *option, size_t len) {
    for (const char *at = help; (at = memmem(at, strlen(at), option, len)); at++)
        if (at[-1] == ' ' && (len == 2 ? at[len] == ',' : strchr(" \n", at[len]) != NULL)) return true;
    return false;
}

static void expect_options(const char *line, size_t len) {
    char *command = kg_xstrndup(line, len), *rest = NULL;
    char *comment = strstr(command, " #");
    if (comment) *comment = '\0';
    strtok_r(command, " ", &rest);
    const char *verb = strtok_r(NULL, " ", &rest);
    ck_assert_ptr_nonnull(verb);
    struct kg_process_result r;
    struct kg_error err;
    const struct kg_process process = { .argv = ARGS(kg_program_path(), "help", verb) };
    kg_must(kg_process_run(&process, &r, &err), &err);
    ck_assert_msg(r.exit_code == 0, "the README's verb '%s': %s", verb, r.err);
    for (const char *word; (word = strtok_r(NULL, " ", &rest));)
        ck_assert_msg(word[0] != '-' || lists(r.out, word, strcspn(word, "=")), "kigo %s has no %s", verb, word);
    kg_process_result_free(&r);
    free(command);
}

static void verbs_and_options_are_real(struct kg_record *rec, const void *arg) {
    static const char *const STARTS[] = { "\n" INDENT "kigo ", "\n" INDENT "$ kigo " };
    char *page = readme();
    size_t n = 0;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(STARTS); i++)
        for (const char *at = page; (at = strstr(at, STARTS[i])); n++) {
            at = strstr(at, "kigo ");
            expect_options(at, line_of(at));
        }
    ck_assert_uint_gt(n, 12);
    kg_record_metric(rec, "commands", "count", (double)n);
    free(page);
}

/* Every file of the store but the index, which is derived. */
static char *store_of(const char *root) {
    struct kg_process_result r =
        shell(root, NULL, "find . -type f ! -name 'index.sqlite*' -exec sha256sum {} + | sort");
    char *text = kg_xstrdup(r.out);
    ck_assert_int_eq(r.exit_code, 0);
    kg_process_result_free(&r);
    return text;
}

/* The block below "## Ask": no placeholder stands in it, so a reader may paste it. */
static void pasted_questions_change_nothing(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    char *page = readme();
    size_t n = 0;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, 4, (struct kg_made_run){ .n_cases = 3, .canary = 1 });
    char *before = store_of(lab.root);
    const char *at = strstr(page, "\n## Ask\n");
    if (at) at = strstr(at, "\n" INDENT);
    ck_assert_ptr_nonnull(at);
    for (at++; strncmp(at, INDENT "kigo ", 9) == 0; n++) {
        char *command = kg_xstrndup(at + 4, line_of(at + 4));
        struct kg_process_result r = shell(lab.repository, lab.root, command);
        ck_assert_msg(r.exit_code == 0 || r.exit_code == 1 || r.exit_code == 3, "%s: exit code %d: %s", command,
                      r.exit_code, r.out);
        kg_process_result_free(&r);
        free(command);
        at += line_of(at) + 1;
    }
    char *after = store_of(lab.root);
    ck_assert_str_eq(after, before);
    ck_assert_uint_gt(strlen(before), 500);
    ck_assert_uint_ge(n, 4);
    free(after);
    free(before);
    free(page);
    kg_history_lab_close(&lab);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "readme", .name = #function, .source_tree = true, .run = function }
static const struct kg_case CASES[] = {
    CASE(transcripts_are_true),
    CASE(verbs_and_options_are_real),
    CASE(pasted_questions_change_nothing),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
