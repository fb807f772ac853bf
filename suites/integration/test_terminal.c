/* What verbs print on a terminal: lines that fit, colours where they are wanted, and rows that a person can read. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/visible.h"
#include "suites/harness/must.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/hf_maker.h"
#include "suites/support/terminal.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define GREEN "\033[32mpass\033[0m"
#define RED "\033[31mfail\033[0m"

/* A run that passed and one that failed. */
static const char *make_store(struct kg_record *rec) {
    static const char *const PASS[] = { "pass" }, *const FAIL[] = { "fail" };
    const char *root = kg_scratch_dir(rec);
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_maker_write(root, PASS, 1, &summary, &err), err);
    EXPECT_OK(kg_maker_write(root, FAIL, 1, &summary, &err), err);
    return root;
}

/* `kigo ARGS` on a terminal of so many columns, with a shell's settings before it; all it writes, malloc'ed. NULL:
 * there is no terminal, and the case is skipped. */
static char *on_terminal(struct kg_record *rec, int n_columns, const char *settings, const char *args) {
    static const char END[] = "(it has ended)";
    struct kg_terminal terminal;
    char *command =
        kg_xasprintf("stty cols %d -opost; unset NO_COLOR; export TERM=xterm KIGO_BUNDLES='%s' %s; '%s' %s; "
                     "printf '%s'",
                     n_columns, kg_scratch_dir(rec), settings, kg_program_path(), args, END);
    const char *const argv[] = { "/bin/sh", "-c", command, NULL };
    char *out = NULL;
    if (kg_terminal_open(&terminal, rec, argv)) {
        kg_terminal_expect(&terminal, END);
        out = kg_xstrndup(terminal.screen.data, terminal.seen - strlen(END));
        kg_terminal_close(&terminal);
    }
    free(command);
    return out;
}

/* The widest line of it, in columns. */
static size_t widest(const char *text) {
    size_t most = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char *one = kg_xstrndup(line, strcspn(line, "\n"));
        const size_t width = kg_visible_width(one);
        most = width > most ? width : most;
        free(one);
    }
    return most;
}

/* Columns that say most stay longest; a pipe has them all. */
static void list_fits(struct kg_record *rec, const void *arg) {
    static const struct {
        int n_columns;
        const char *holds, *lacks;
    } SIZES[] = { { 160, "signature", "\342\200\246" },
                  { 80, "verdict", "norun" },
                  { 60, "verdict", "seconds" },
                  { 35, "p\342\200\246", "pass" },
                  { 30, "\342\200\246", "verdict" } };
    (void)arg;
    const char *root = make_store(rec);
    for (size_t i = 0; i < KG_COUNT_OF(SIZES); i++) {
        char *out = on_terminal(rec, SIZES[i].n_columns, "NO_COLOR=1", "list");
        if (!out) return;
        ck_assert_msg(widest(out) <= (size_t)SIZES[i].n_columns && widest(out) > 20, "%d columns: %s",
                      SIZES[i].n_columns, out);
        ck_assert_msg(strstr(out, SIZES[i].holds) && !strstr(out, SIZES[i].lacks), "%d columns: %s", SIZES[i].n_columns,
                      out);
        free(out);
    }
    char *piped;
    kg_verb_expect(root, ARGS("list"), KG_EXIT_OK, &piped);
    ck_assert_msg(strstr(piped, "timeout") && strstr(piped, "signature") && widest(piped) > 80, "%s", piped);
    free(piped);
}

struct colour_row {
    const char *name, *settings, *args;
    bool coloured;
};
static const struct colour_row COLOURS[] = {
    { "colours_on_a_terminal", "", "list", true },
    { "colours_no_color", "NO_COLOR=1", "list", false },
    { "colours_empty_no_color", "NO_COLOR=", "list", true },
    { "colours_never", "", "list --color never", false },
    { "colours_always", "NO_COLOR=1", "list --color=always", true },
    { "colours_dumb", "TERM=dumb", "list", false },
    { "colours_json", "", "list --json --color=always", false },
    { "colours_markdown", "", "list --markdown --color=always", false },
    { "colours_csv", "", "list --csv --color=always", false },
    { "colours_into_a_pipe", "", "list | cat", false },
    { "colours_always_into_a_pipe", "", "list --color always | cat", true },
};

static void colours(struct kg_record *rec, const void *arg) {
    const struct colour_row *row = arg;
    make_store(rec);
    char *out = on_terminal(rec, 120, row->settings, row->args);
    if (!out) return;
    ck_assert_msg(strstr(out, "pass") && strstr(out, "fail"), "%s", out);
    ck_assert_msg((strstr(out, GREEN) && strstr(out, RED)) == row->coloured, "%s", out);
    ck_assert_msg((strchr(out, '\033') != NULL) == row->coloured, "%s", out);
    free(out);
}

/* One table of words for all of them. */
static void every_verb_has_the_same(struct kg_record *rec, const void *arg) {
    static const char *const CALLS[][2] = {
        { "show latest", RED },
        { "verify latest", "\033[32mok\033[0m" },
        { "verify --chain", "\033[32mok\033[0m" },
        { "regress latest", "\033[33minconclusive\033[0m" },
    };
    (void)arg;
    make_store(rec);
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        char *out = on_terminal(rec, 120, "", CALLS[i][0]);
        if (!out) return;
        ck_assert_msg(strstr(out, CALLS[i][1]) != NULL, "kigo %s: %s", CALLS[i][0], out);
        free(out);
    }
}

/* Marks of colours that come in a record are shown by number, like all that is hidden. */
static void record_cannot_colour(struct kg_record *rec, const void *arg) {
    (void)arg;
    make_store(rec);
    char *out =
        on_terminal(rec, 120, "", "query \"SELECT 'x' || char(14) || '0y' || char(15) || char(27) AS verdict\"");
    if (!out) return;
    ck_assert_msg(strstr(out, "x\\x0E0y\\x0F\\x1B") && !strstr(out, "\033[3"), "%s", out);
    free(out);
}

static void wrong_word(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    kg_verb_refuses(root, ARGS("list", "--color", "pink"), KG_EXIT_USAGE, "'pink' is none of auto, always and never");
}

#define NUMBERS(n) "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < " #n ") SELECT x FROM c"

static size_t count_lines(const char *text) {
    size_t n = 0;
    for (; (text = strchr(text, '\n')); text++) n++;
    return n;
}

/* 200 rows and their head; all into a pipe; as many as asked for. */
static void query_shows_what_can_be_read(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args;
        size_t n_rows;
        const char *says;
    } CALLS[] = {
        { "query '" NUMBERS(200) "'", 200, NULL },
        { "query '" NUMBERS(201) "'", 200, "the first 200 rows; 1 more are left out: --limit 0" },
        { "query '" NUMBERS(1000) "'", 200, "800 more are left out" },
        { "query --limit 0 '" NUMBERS(1000) "'", 1000, NULL },
        { "query -n 3 '" NUMBERS(1000) "'", 3, "997 more are left out" },
        { "query '" NUMBERS(1000) "' | cat", 1000, NULL },
    };
    (void)arg;
    make_store(rec);
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        char *out = on_terminal(rec, 100, "", CALLS[i].args);
        if (!out) return;
        ck_assert_msg(count_lines(out) == CALLS[i].n_rows + 1 + (CALLS[i].says != NULL), "%s: %zu lines: %.500s",
                      CALLS[i].args, count_lines(out), out);
        ck_assert_msg(CALLS[i].says ? strstr(out, CALLS[i].says) != NULL : !strstr(out, "left out"), "%s",
                      CALLS[i].args);
        free(out);
    }
}

/* What takes long shows how far it is; at its end the bar is full and has no dots. */
static void progress_of_a_conversion(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf"), *args = kg_xasprintf("convert '%s' -o '%s.gguf'", dir, dir);
    kg_hf_make(dir, kg_hf_expected("llama_bias"), NULL);
    char *out = on_terminal(rec, 120, "", args);
    if (out) ck_assert_msg(strstr(out, "converting [##############################] 100%") != NULL, "%s", out);
    free(out);
    free(args);
    free(dir);
}

static void build(struct kg_case_list *list) {
    static const struct kg_case CASES[] = {
        { .name = "list_fits", .run = list_fits },
        { .name = "every_verb_has_the_same_colours", .run = every_verb_has_the_same },
        { .name = "record_cannot_colour", .run = record_cannot_colour },
        { .name = "wrong_word", .run = wrong_word },
        { .name = "query_shows_what_can_be_read", .run = query_shows_what_can_be_read },
        { .name = "progress_of_a_conversion", .run = progress_of_a_conversion },
    };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        struct kg_case c = CASES[i];
        c.layer = "integration";
        c.op = "terminal";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(COLOURS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "terminal",
                                                  .name = COLOURS[i].name,
                                                  .run = colours,
                                                  .arg = &COLOURS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
