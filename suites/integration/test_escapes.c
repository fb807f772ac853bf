/* Whatever a bundle, a file or an argument holds, what kigo prints shows it and is driven by none of it: every verb, in
 * every form it has. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "bundle/archive.h"
#include "cli/commands.h"
#include "fleet/fleet.h"
#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include "suites/integration/hostile_store.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/edit_model.h"
#include "suites/support/history_lab.h"
#include "suites/support/html_tags.h"
#include "suites/support/rig.h"
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum form { TEXT = 1, JSON = 2, CSV = 4, MARKDOWN = 8, HTML = 16 };
#define ROWS (TEXT | JSON | CSV | MARKDOWN)

enum { MOST_ARGS = 20, MOST_PLACES = 16 };

/* A call: its verb and arguments, of which those that begin with '@' are places. */
struct call {
    const char *args[10];
    unsigned forms;
    bool quiet; /* prints nothing of what is hostile */
    const char *input;
};

#define CALL(forms_, ...)                                                                                              \
    { .args = { __VA_ARGS__ }, .forms = (forms_) }
#define QUIET(forms_, ...)                                                                                             \
    { .args = { __VA_ARGS__ }, .forms = (forms_), .quiet = true }
#define FED(input_, ...)                                                                                               \
    { .args = { __VA_ARGS__ }, .forms = TEXT, .quiet = true, .input = (input_) }

/* Over a store whose runs hold hostile strings, in a folder of such a name. */
static const struct call STORE_CALLS[] = {
    QUIET(TEXT | MARKDOWN, "list"), /* the short list has ids and counts */
    CALL(JSON | CSV, "list"),
    CALL(ROWS, "show", "@RUN"),
    CALL(ROWS, "show", "@RUN", "--case", "*"),
    CALL(TEXT | MARKDOWN, "show", "@RUN", "--slowest", "3"),
    CALL(TEXT | JSON, "verify", "@RUN"),
    CALL(TEXT | JSON, "verify", "--all"),
    CALL(TEXT | JSON, "verify", "--all", "--chain"),
    CALL(ROWS, "diff", "@BASE", "@RUN", "--all"),
    CALL(ROWS, "history", "@KEY"),
    QUIET(ROWS, "steps"),
    CALL(ROWS, "regress", "@RUN", "--all"),
    CALL(ROWS, "regress", "@RUN", "--baseline", "@BASE", "--all"),
    CALL(HTML | MARKDOWN | CSV, "report", "@RUN"),
    CALL(HTML | MARKDOWN | CSV, "report", "@RUN", "--against", "@BASE"),
    CALL(HTML | MARKDOWN, "report", "--history"),
    CALL(ROWS, "query", "SELECT * FROM bundle"),
    CALL(ROWS, "query", "SELECT * FROM tcase"),
    CALL(ROWS, "query", "SELECT * FROM result"),
    CALL(ROWS, "query", "SELECT * FROM metric"),
    CALL(ROWS, "query", "SELECT * FROM env, build"),
    CALL(ROWS, "query", "SELECT '@TEXT' AS \"@TEXT\", x'1b', char(27, 8238)"),
    QUIET(TEXT | JSON, "annotate", "note", "@RUN", "--case", "@KEY", "--why", "@TEXT", "--author", "@TEXT"),
    CALL(ROWS, "annotate", "list"),
    CALL(ROWS, "query", "SELECT * FROM annotation"),
    QUIET(TEXT | JSON, "waive", "@KEY", "--until", "2199-01-01", "--why", "@TEXT", "--author", "@TEXT"),
    CALL(ROWS, "regress", "@RUN", "--baseline", "@BASE", "--all"),
    QUIET(TEXT | JSON, "accept", "@KEY", "--run", "@RUN", "--why", "@TEXT", "--author", "@TEXT"),
    QUIET(TEXT | JSON, "pin", "@RUN", "--why", "@TEXT", "--author", "@TEXT"),
    QUIET(TEXT | JSON, "checkpoint"),
    CALL(TEXT | JSON, "export", "@RUN", "-o", "@ARCHIVE"),
    CALL(TEXT, "import", "@ARCHIVE"),
    QUIET(JSON, "import", "@ARCHIVE"),
    CALL(TEXT | JSON, "push", "@RUN", "--history", "postgresql://u@/%1B%5B31mx?host=/nowhere/at/all", "--wait", "0"),
    CALL(TEXT | JSON, "sign", "@RUN", "--key", "@NAME"),
    CALL(TEXT | JSON | MARKDOWN, "signoff", "@SPRINT", "@RUN", "--figures"),
    CALL(TEXT | JSON, "signoff", "@SPRINT", "@RUN", "--unsigned", "--repository", "@NAME"),
    CALL(TEXT | JSON, "signoff", "@SPRINT", "@BASE", "--unsigned", "--repository", "@REPOSITORY", "--commit",
         "@COMMIT"),
    CALL(TEXT | JSON, "verify", "--signoffs"),
    CALL(TEXT, "confirm", "@RUN", "--baseline-build", "@NAME"),
    CALL(TEXT | JSON, "selfcheck", "@TEXT", "@TEXT", "@TEXT", "@TEXT", "@TEXT", "@TEXT"),
    CALL(TEXT | JSON, "rerun", "@RUN", "@TEXT"),
    QUIET(TEXT | JSON, "recover"),
    QUIET(TEXT | JSON, "reindex"),
    QUIET(TEXT | JSON, "prune", "--keep", "1"),
    QUIET(TEXT | JSON, "prune", "--keep", "1", "--apply", "--author", "@TEXT"),
    CALL(TEXT, "verify", "--chain"),
    QUIET(JSON, "verify", "--chain"),
};

/* Arguments, and files that say what they like. */
static const struct call OTHER_CALLS[] = {
    CALL(TEXT | JSON, "inspect", "@MODEL"),
    CALL(TEXT | JSON, "inspect", "@MODEL", "--full"),
    CALL(TEXT | JSON, "inspect", "@NAME"),
    CALL(TEXT | JSON, "inspect", "@MODEL", "--plan", "--backend", "cpu"),
    CALL(TEXT, "convert", "@NAME", "-o", "@OUT"),
    CALL(TEXT, "synth", "--like", "@NAME", "-o", "@OUT"),
    QUIET(TEXT | JSON, "quantize", "@MODEL", "-o", "@OUT", "--type", "q4_k_m", "--force"),
    CALL(TEXT, "quantize", "@NAME", "-o", "@OUT", "--type", "q4_k_m", "--force"),
    CALL(TEXT, "quantize", "@MODEL", "-o", "@OUT", "--type", "@NAME", "--force"),
    CALL(TEXT, "tokenize", "-m", "@NAME"),
    FED("1 x\x1b[31m\xE2\x80\xAE\xFF", "tokenize", "-m", "@MODEL", "--decode"),
    FED(KG_HOSTILE, "tokenize", "-m", "@MODEL", "--jsonl"),
    CALL(TEXT, "generate", "-m", "@NAME", "-p", "x"),
    QUIET(TEXT, "generate", "-m", "@MODEL", "-p", "x", "-n", "1", "--stop", ""),
    CALL(TEXT, "chat", "-m", "@NAME"),
    FED("/x\x1b[31m\xE2\x80\xAE\nFORGED\n", "chat", "-m", "@MODEL"),
    FED("/load x\x1b[31m\xE2\x80\xAE\n", "chat", "-m", "@MODEL"),
    CALL(TEXT, "logits", "-m", "@MODEL", "--ids", "@TEXT", "--backend", "cpu"),
    CALL(TEXT, "op", "@TEXT"),
    CALL(TEXT, "op", "linear", "--in", "@NAME", "-o", "@OUT"),
    QUIET(TEXT | JSON, "op", "--list"),
    CALL(TEXT, "check", "--suites", "@NAME"),
    CALL(TEXT, "check", "--case", "@TEXT", "--list"),
    CALL(TEXT, "bench", "--model", "@NAME"),
    CALL(TEXT, "bench", "--report", "@NAME"),
    QUIET(TEXT | JSON, "devices"),
    CALL(TEXT | JSON, "show", "@TEXT"),
    CALL(TEXT, "query", "SELECT @TEXT"),
    CALL(TEXT, "list", "@TEXT"),
    CALL(TEXT, "list", "--@TEXT"),
    CALL(TEXT, "list", "--limit", "@TEXT"),
    CALL(TEXT, "list", "--bundles", "@NAME"),
    CALL(TEXT, "import", "@NAME"),
    CALL(TEXT, "pull", "x", "--history", "postgresql://u@/%1B%5B31mx?host=/nowhere/at/all", "--wait", "0"),
    QUIET(TEXT, "pull", "x", "--history", "@TEXT"),
    CALL(TEXT, "fleet", "@TEXT"),
    CALL(TEXT, "web", "@TEXT"),
    QUIET(TEXT, "web", "--listen", "@TEXT"),
    CALL(TEXT, "@TEXT"),
};

/* What the places of calls stand for. */
struct places {
    const char *names[MOST_PLACES];
    char *texts[MOST_PLACES];
    size_t n;
};

static void add_place(struct places *places, const char *name, char *text) {
    ck_assert_uint_lt(places->n, MOST_PLACES);
    places->names[places->n] = name;
    places->texts[places->n++] = text;
}

static void free_places(struct places *places) {
    for (size_t i = 0; i < places->n; i++) free(places->texts[i]);
}

/* An argument with its places filled; malloc'ed. */
static char *fill(const struct places *places, const char *arg) {
    struct kg_buffer out = KG_BUFFER_INIT;
    while (*arg) {
        size_t i = 0;
        while (i < places->n && strncmp(arg, places->names[i], strlen(places->names[i])) != 0) i++;
        if (i < places->n) kg_buffer_puts(&out, places->texts[i]);
        else kg_buffer_append(&out, arg, 1);
        arg += i < places->n ? strlen(places->names[i]) : 1;
    }
    return out.data ? out.data : kg_xstrdup("");
}

/* No hidden character but what lays the output out, and no line that a stored one has made. */
static void expect_shown(const char *said, const char *text, size_t len, bool csv) {
    for (size_t at = 0; at < len;) {
        uint32_t c = 0;
        const size_t n = kg_utf8_sequence(text + at, len - at, &c);
        const bool layout = c == '\n' || c == '\t' || (csv && c == '\r' && at + 1 < len && text[at + 1] == '\n');
        ck_assert_msg(n > 0, "%s: byte %02X at %zu is no UTF-8: %.60s", said, (unsigned char)text[at], at, text + at);
        ck_assert_msg(layout || !kg_is_hidden(c), "%s: U+%04X at %zu: %s", said, (unsigned)c, at,
                      kg_quote(text + at, len - at < 60 ? len - at : 60).text);
        at += n;
    }
    for (const char *line = text; !csv && line; line = strchr(line, '\n')) {
        line += *line == '\n';
        ck_assert_msg(strncmp(line, "FORGED", 6) != 0, "%s: a stored line became a line of the output: %.80s", said,
                      line);
    }
}

/* No cell that a spreadsheet computes. */
static void expect_safe_cells(const char *said, const char *csv) {
    while (*csv) {
        const bool quoted = *csv == '"';
        char *end;
        csv += quoted;
        strtod(csv, &end);
        const bool number = *csv != '\t' && strchr(",\r\"", *end);
        const bool dash = *csv == '-' && strchr(",\r", csv[1]);
        ck_assert_msg(!*csv || number || dash || !strchr("=+-@\t", *csv), "%s: a cell begins with %.60s", said, csv);
        for (; *csv && (quoted || !strchr(",\n", *csv)); csv++) {
            if (!quoted || *csv != '"') continue;
            if (csv[1] != '"') break;
            csv++;
        }
        csv += quoted && *csv == '"';
        csv += strspn(csv, "\r");
        csv += *csv == ',' || *csv == '\n';
    }
}

static void expect_json(const char *said, const char *text) {
    json_error_t why;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    ck_assert_msg(json != NULL, "%s: no JSON: %s: %.100s", said, why.text, text);
    json_decref(json);
}

static void run(const struct places *places, const struct call *call, enum form form, const char *const *more,
                size_t *n_shown) {
    static const struct {
        enum form form;
        const char *option;
    } OPTIONS[] = { { JSON, "--json" }, { CSV, "--csv" }, { MARKDOWN, "--markdown" } };
    const char *argv[MOST_ARGS] = { kg_program_path() };
    char *filled[MOST_ARGS];
    size_t n = 1;
    for (size_t i = 0; i < KG_COUNT_OF(call->args) && call->args[i]; i++)
        argv[n++] = filled[i] = fill(places, call->args[i]);
    const size_t n_filled = n - 1;
    for (size_t i = 0; i < KG_COUNT_OF(OPTIONS); i++)
        if (form == OPTIONS[i].form) argv[n++] = OPTIONS[i].option;
    for (; *more; more++) argv[n++] = *more;
    char *said = kg_xasprintf("kigo %s %s, form %d", call->args[0], call->args[1] ? call->args[1] : "", (int)form);
    const struct kg_process process = { .argv = argv,
                                        .input = call->input,
                                        .input_len = call->input ? strlen(call->input) : 0 };
    struct kg_process_result r;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, &r, &err), err);
    ck_assert_msg(r.signal == 0 && r.exit_code >= 0 && r.exit_code != KG_EXIT_INTERNAL,
                  "%s: signal %d, exit code %d: %s", said, r.signal, r.exit_code, r.err);
    ck_assert_uint_eq(strlen(r.out), r.out_len);
    expect_shown(said, r.out, r.out_len, form == CSV);
    expect_shown(said, r.err, r.err_len, false);
    if (form == CSV) expect_safe_cells(said, r.out);
    if (form == JSON && r.out_len > 0) expect_json(said, r.out);
    if (form == HTML) kg_expect_html_closed(r.out);
    const bool shown = kg_shows_hostile(r.out) || kg_shows_hostile(r.err);
    ck_assert_msg(shown || call->quiet, "%s shows none of it: %.300s%.300s", said, r.out, r.err);
    *n_shown += shown;
    kg_process_result_free(&r);
    free(said);
    for (size_t i = 0; i < n_filled; i++) free(filled[i]);
}

static void run_all(struct kg_record *rec, const struct places *places, const struct call *calls, size_t n_calls,
                    const char *const *more) {
    size_t n_shown = 0;
    for (size_t i = 0; i < n_calls; i++) {
        const char *verb = calls[i].args[0];
        if (kg_archive_missing() && (strcmp(verb, "export") == 0 || strcmp(verb, "import") == 0)) continue;
        if (kg_fleet_missing() && (strcmp(verb, "push") == 0 || strcmp(verb, "pull") == 0)) continue;
        for (unsigned form = TEXT; form <= HTML; form <<= 1)
            if (calls[i].forms & form) run(places, &calls[i], form, more, &n_shown);
    }
    kg_record_metric(rec, "shown", "count", (double)n_shown);
}

/* The last of the runs is slower, less accurate, and has a case that fails, one that was skipped and one less. */
static void worsen(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    c->time_ns *= 2;
    c->max_abs *= 3;
    if (i == 0) c->status = "fail";
    if (i == 1) c->status = "skip";
    c->absent = i == 5;
}

static char *sprint_in(const char *dir) {
    char *path = kg_path_join(dir, "sprint.json"), *title = kg_hostile_text("title");
    json_t *sprint =
        json_pack("{s:s, s:s, s:[{s:s, s:s, s:[{s:s, s:s}], s:[{s:s, s:s, s:{s:s, s:s}}]}]}", "sprint", "made", "title",
                  title, "stories", "spec", title, "title", title, "cases", "what", title, "match", "*", "figures",
                  "what", title, "figure", "nmse <= 1", "of", "match", "*", "error", title);
    ck_assert_ptr_nonnull(sprint);
    ck_assert_int_eq(json_dump_file(sprint, path, 0), 0);
    json_decref(sprint);
    free(title);
    return path;
}

/* A store of six runs of one line of commits; the folder's name is hostile, too. */
static void make_store(struct kg_record *rec, struct kg_history_lab *lab, struct places *places) {
    enum { RUNS = 6, CASES = 6 };
    char *dir = kg_xasprintf("%s/%s", kg_scratch_dir(rec), KG_HOSTILE_NAME), *ids[RUNS];
    struct kg_made_run run = { .n_cases = CASES,
                               .canary = 1,
                               .kernels = "[{\"name\":\"k\",\"arch\":\"a\",\"registers\":1}]" };
    size_t n_strings = 0;
    kg_history_lab_open_in(lab, dir, RUNS);
    for (size_t i = 0; i < RUNS; i++) {
        run.commit = lab->commits[i];
        if (i == RUNS - 1) run.fill = worsen;
        ids[i] = kg_history_lab_run(lab, run);
        char *bundle = kg_path_join(lab->root, ids[i]);
        n_strings += kg_hostile_records(bundle);
        free(bundle);
    }
    kg_record_metric(rec, "strings", "count", (double)n_strings);
    add_place(places, "@RUN", kg_xstrdup(ids[RUNS - 1]));
    add_place(places, "@BASE", kg_xstrdup(ids[RUNS - 2]));
    add_place(places, "@KEY", kg_hostile_text(kg_made_case_key(2)));
    add_place(places, "@TEXT", kg_xstrdup(KG_HOSTILE));
    add_place(places, "@NAME", kg_xasprintf("%s/%s", dir, KG_HOSTILE_NAME));
    add_place(places, "@REPOSITORY", kg_xstrdup(dir));
    add_place(places, "@COMMIT", kg_xstrdup(lab->commits[RUNS - 2]));
    add_place(places, "@ARCHIVE", kg_path_join(dir, "run.tar.zst"));
    add_place(places, "@SPRINT", sprint_in(dir));
    char *signoffs = kg_path_join(lab->root, "signoffs"), *note = kg_xasprintf("%s/%s.json", signoffs, KG_HOSTILE_NAME);
    struct kg_error err;
    EXPECT_OK(kg_dir_make(signoffs, &err), err);
    EXPECT_OK(kg_file_write(note, KG_HOSTILE, strlen(KG_HOSTILE), &err), err);
    free(note);
    free(signoffs);
    for (size_t i = 0; i < RUNS; i++) free(ids[i]);
    free(dir);
}

static void verbs_over_a_store(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct places places = { .n = 0 };
    (void)arg;
    make_store(rec, &lab, &places);
    run_all(rec, &places, STORE_CALLS, KG_COUNT_OF(STORE_CALLS), ARGS("--bundles", lab.root));
    free_places(&places);
    kg_history_lab_close(&lab);
}

static void files_and_arguments(struct kg_record *rec, const void *arg) {
    struct places places = { .n = 0 };
    struct kg_error err;
    (void)arg;
    char *model = kg_xasprintf("%s/%s.gguf", kg_scratch_dir(rec), KG_HOSTILE_NAME);
    const struct kg_model_edit edit = { .str_key = "general.name",
                                        .str = KG_HOSTILE_NAME,
                                        .add_tensor = "=\x1b[31m\xE2\x80\xAE\xFF\nFORGED" };
    EXPECT_OK(kg_model_edit(kg_fixture_path(KG_HAIKU_MODEL), model, &edit, &err), err);
    add_place(&places, "@MODEL", model);
    add_place(&places, "@NAME", kg_xasprintf("%s/%s", kg_scratch_dir(rec), KG_HOSTILE_NAME));
    add_place(&places, "@OUT", kg_path_join(kg_scratch_dir(rec), "out"));
    add_place(&places, "@TEXT", kg_xstrdup(KG_HOSTILE));
    char *bundles = kg_path_join(kg_scratch_dir(rec), "bundles"); /* whatever this folder holds */
    EXPECT_OK(kg_dir_make(bundles, &err), err);
    setenv("KIGO_BUNDLES", bundles, 1);
    run_all(rec, &places, OTHER_CALLS, KG_COUNT_OF(OTHER_CALLS), ARGS(NULL));
    unsetenv("KIGO_BUNDLES");
    free(bundles);
    free_places(&places);
}

/* What contradicts itself is quoted: every string of one file is another, nothing else knows. */
static void findings_quote_what_they_found(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "data/plan.ndjson",  "data/results.ndjson",  "data/journal.ndjson",
                                         "data/summary.json", "data/env.json",        "data/build.json",
                                         "data/source.json",  "statement.intoto.json" };
    static const struct call CALLS[] = {
        CALL(TEXT | JSON, "verify", "--all"), CALL(ROWS, "show", "@RUN"),   QUIET(ROWS, "list"),
        QUIET(TEXT | JSON, "reindex"),        CALL(HTML, "report", "@RUN"), QUIET(TEXT, "diff", "@RUN", "@RUN"),
    };
    char *root = kg_path_join(kg_scratch_dir(rec), "root"), *to = kg_path_join(root, "20260101T000000Z-nogit-00000000");
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        struct places places = { .n = 0 };
        char *dir = kg_maker_copy(kg_maker_template(), to), *stray = kg_xasprintf("data/logs/%s", KG_HOSTILE_NAME);
        kg_hostile_file(dir, FILES[i]);
        kg_maker_append(dir, stray, "a file that no manifest names");
        kg_maker_append(dir, "manifest-sha256.txt", KG_HOSTILE);
        add_place(&places, "@RUN", kg_xstrdup(dir));
        run_all(rec, &places, CALLS, KG_COUNT_OF(CALLS), ARGS("--bundles", root));
        free_places(&places);
        free(stray);
        free(dir);
    }
    free(to);
    free(root);
}

static void every_verb_is_called(struct kg_record *rec, const void *arg) {
#define VERB(suffix, verb, summary) verb,
    static const char *const VERBS[] = { KG_COMMAND_LIST(VERB) };
#undef VERB
    (void)rec, (void)arg;
    for (size_t v = 0; v < KG_COUNT_OF(VERBS); v++) {
        size_t n = 0;
        for (size_t i = 0; i < KG_COUNT_OF(STORE_CALLS); i++) n += strcmp(STORE_CALLS[i].args[0], VERBS[v]) == 0;
        for (size_t i = 0; i < KG_COUNT_OF(OTHER_CALLS); i++) n += strcmp(OTHER_CALLS[i].args[0], VERBS[v]) == 0;
        ck_assert_msg(n > 0, "no call of kigo %s", VERBS[v]);
    }
}

#define CASE(name_)                                                                                                    \
    { .layer = "integration", .op = "escapes", .name = #name_, .run = name_, .timeout_s = 300 }

int main(int argc, char **argv) {
    static const struct kg_case CASES[] = {
        CASE(verbs_over_a_store),
        CASE(files_and_arguments),
        CASE(findings_quote_what_they_found),
        CASE(every_verb_is_called),
    };
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
