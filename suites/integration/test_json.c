/* Every verb's --json: one document on standard output and nothing else, of the form that docs/schemas says. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/program.h"
#include "base/size.h"
#include "bundle/archive.h"
#include "suites/integration/check_lab.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include "suites/support/hf_maker.h"
#include "suites/support/rig.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Verbs without --json, and why. */
static const struct {
    const char *verb, *why;
} EXEMPT[] = {
    { "report", "it writes pages; kigo show --json has what they show" },
};

/* What verbs printed, each in a file of the scratch folder, and what is to be held against which schema. */
enum { MOST_ANSWERS = 64 };
struct answers {
    struct kg_record *rec;
    const char *validate;             /* docs/schemas/validate */
    char *args[2 * MOST_ANSWERS + 2]; /* verb, file, ...; NULL */
    size_t n;
};

static void begin(struct answers *a, struct kg_record *rec) {
    *a = (struct answers){ .rec = rec, .validate = kg_fixture_path("../docs/schemas/validate") };
}

/* Runs `kigo ARGS... --json`; exit_code -1: any. */
static void ask(struct answers *a, int exit_code, const char *input, const char *const *args) {
    const char *argv[40] = { kg_program_path() };
    struct kg_process_result r;
    struct kg_error err;
    json_error_t why;
    size_t n = 1;
    ck_assert_uint_lt(a->n + 2, KG_COUNT_OF(a->args));
    for (; *args; args++) argv[n++] = *args;
    argv[n++] = "--json";
    EXPECT_OK(
        kg_process_run(&(struct kg_process){ .argv = argv, .input = input, .input_len = input ? strlen(input) : 0 }, &r,
                       &err),
        err);
    ck_assert_msg(exit_code < 0 || r.exit_code == exit_code, "kigo %s ended with %d: %.2000s", argv[1], r.exit_code,
                  r.err);
    json_t *document = json_loadb(r.out, r.out_len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    ck_assert_msg(document != NULL, "kigo %s --json: %s: %.500s%.500s", argv[1], why.text, r.out, r.err);
    ck_assert(r.out[r.out_len - 1] == '\n');
    json_decref(document);
    char *path = kg_xasprintf("%s/%zu.json", kg_scratch_dir(a->rec), a->n / 2);
    EXPECT_OK(kg_file_write(path, r.out, r.out_len, &err), err);
    a->args[a->n++] = kg_xstrdup(argv[1]);
    a->args[a->n++] = path;
    kg_process_result_free(&r);
}
#define ASK(a, exit_code, ...) ask(a, exit_code, NULL, ARGS(__VA_ARGS__))

/* Runs a program of this machine; false if it is missing, and the case is skipped for that. */
static bool run_wanted(struct kg_record *rec, const char *const *argv, const char *what) {
    struct kg_program program = { .argv = argv, .max_out_bytes = 1 << 16 };
    struct kg_program_result result;
    struct kg_error err;
    const enum kg_status status = kg_program_run(&program, &result, &err);
    const bool missing = status == KG_ERR_NOT_FOUND || (status == KG_OK && result.exit_code == 77);
    if (missing) kg_record_skip(rec, "%s", status == KG_OK ? kg_buffer_text(&result.out) : err.message);
    else {
        EXPECT_OK(status, err);
        ck_assert_msg(result.exit_code == 0, "%s: %.3000s%.500s", what, kg_buffer_text(&result.out),
                      kg_buffer_text(&result.errors));
    }
    kg_program_result_free(&result);
    return !missing;
}

/* All answers together: a Python takes longer to start than kigo to answer. */
static void end(struct answers *a) {
    const char *schemas[KG_COUNT_OF(a->args) + 2] = { "python3", a->validate },
                                               *jq[MOST_ANSWERS + 4] = { "jq", "-e", "." };
    for (size_t i = 0; i < a->n; i++) schemas[i + 2] = a->args[i];
    for (size_t i = 1; i < a->n; i += 2) jq[3 + i / 2] = a->args[i];
    if (run_wanted(a->rec, schemas, "docs/schemas")) run_wanted(a->rec, jq, "jq");
    for (size_t i = 0; i < a->n; i++) free(a->args[i]);
}

static const char SPRINT[] =
    "{\"sprint\": \"sample\", \"title\": \"A sample\", \"stories\": [{\"spec\": \"FT-1\", \"title\": \"one\", "
    "\"needs\":"
    " \"any\", \"cases\": [{\"what\": \"all pass\", \"match\": \"bench/linear/*\", \"at_least\": 2}], \"figures\":"
    " [{\"what\": \"errors\", \"figure\": \"max_abs <= 1\", \"of\": {\"match\": \"bench/linear/*\", \"error\": "
    "\"y\"}}]}"
    "]}";

static void fail_last(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    if (i == 1) c->status = "fail";
    if (i == 2) c->max_abs *= 3;
}

static void verbs_over_bundles(struct kg_record *rec, const void *arg) {
    enum { N_COMMITS = 6, N_CASES = 3, N_EQUAL = 6 };
    struct answers a;
    struct kg_history_lab lab;
    struct kg_error err;
    char *ids[N_EQUAL], *archive = kg_path_join(kg_scratch_dir(rec), "run.tar.zst"),
                        *other = kg_path_join(kg_scratch_dir(rec), "other"),
                        *sprint = kg_path_join(kg_scratch_dir(rec), "sample.json");
    (void)arg;
    begin(&a, rec);
    kg_history_lab_open_in(&lab, kg_scratch_dir(rec), N_COMMITS);
    kg_must(kg_dir_make(other, &err), &err);
    kg_must(kg_file_write(sprint, SPRINT, sizeof SPRINT - 1, &err), &err);
    for (size_t i = 0; i < N_EQUAL; i++)
        ids[i] =
            kg_history_lab_run(&lab, (struct kg_made_run){ .commit = lab.commits[0], .n_cases = N_CASES, .canary = 1 });
    free(kg_history_lab_run(
        &lab, (struct kg_made_run){ .commit = lab.commits[1], .n_cases = N_CASES, .canary = 1, .fill = fail_last }));
#define ASK_OF_STORE(exit_code, ...) ASK(&a, exit_code, __VA_ARGS__, "--bundles", lab.root)
    ASK_OF_STORE(0, "list");
    ASK_OF_STORE(0, "show", "latest");
    ASK_OF_STORE(0, "verify", "--all", "--chain", "--signoffs");
    ASK_OF_STORE(0, "checkpoint");
    if (!kg_archive_missing()) { /* or transfer's cases are skipped with the reason */
        ASK_OF_STORE(0, "export", "latest", "-o", archive);
        ASK(&a, 0, "import", archive, "--bundles", other);
    }
    ASK_OF_STORE(0, "diff", ids[0], "latest", "--all");
    ASK_OF_STORE(0, "history", "*");
    ASK_OF_STORE(0, "history", "*", "--figure", "*");
    ASK_OF_STORE(0, "steps");
    ASK_OF_STORE(1, "regress", "--all");
    ASK_OF_STORE(-1, "confirm");
    ASK_OF_STORE(-1, "selfcheck", ids[0], ids[1], ids[2], ids[3], ids[4], ids[5]);
    ASK_OF_STORE(0, "annotate", "note", "latest", "--why", "a reason");
    ASK_OF_STORE(0, "waive", "bench/*", "--until", "2030-12-31", "--why", "known");
    ASK_OF_STORE(0, "accept", "bench/*", "--why", "the new norm");
    ASK_OF_STORE(0, "pin", "latest");
    ASK_OF_STORE(0, "annotate", "list");
    ASK_OF_STORE(0, "prune", "--keep", "1");
    ASK_OF_STORE(0, "query", "SELECT * FROM figure NATURAL JOIN run");
    ASK_OF_STORE(0, "query", "--schema");
    ASK_OF_STORE(0, "reindex");
    ASK_OF_STORE(0, "recover");
    ASK_OF_STORE(-1, "signoff", sprint, "latest", "--figures", "--repository", lab.repository);
    ASK_OF_STORE(-1, "signoff", sprint, "latest", "--repository", lab.repository, "--commit", lab.commits[1]);
#undef ASK_OF_STORE
    end(&a);
    for (size_t i = 0; i < N_EQUAL; i++) free(ids[i]);
    kg_history_lab_close(&lab);
    free(sprint);
    free(other);
    free(archive);
}

static void sign_a_bundle(struct kg_record *rec, const void *arg) {
    struct answers a;
    const char *root = kg_scratch_dir(rec);
    char *key = kg_verb_key(rec, root, "key");
    (void)arg;
    if (!key) return;
    begin(&a, rec);
    char *dir = kg_verb_seal(root);
    ASK(&a, 0, "sign", dir, "--key", key);
    ASK(&a, 0, "show", dir, "--bundles", root); /* whose signatures count is the folder's to say */
    ASK(&a, 0, "verify", dir, "--bundles", root);
    end(&a);
    free(dir);
    free(key);
}

static void verbs_over_models(struct kg_record *rec, const void *arg) {
    const char *model = kg_fixture_path(KG_HAIKU_MODEL);
    char *hf = kg_path_join(kg_scratch_dir(rec), "hf"), *gguf = kg_path_join(kg_scratch_dir(rec), "m.gguf"),
         *made = kg_path_join(kg_scratch_dir(rec), "s.gguf"), *rounded = kg_path_join(kg_scratch_dir(rec), "q.gguf"),
         *out = kg_path_join(kg_scratch_dir(rec), "out.safetensors");
    struct answers a;
    (void)arg;
    begin(&a, rec);
    kg_hf_make(hf, kg_hf_expected("llama_bias"), NULL);
    ASK(&a, 0, "inspect", model);
    ASK(&a, 0, "inspect", model, "--plan", "--backend", "cpu");
    ASK(&a, 0, "convert", hf, "-o", gguf, "--type", "q8_0");
    ASK(&a, 0, "inspect", gguf, "--tensors");
    ASK(&a, 0, "synth", "--like", "tiny-gpt2", "--arch", "gpt2", "--type", "f32", "-o", made);
    ASK(&a, 0, "quantize", made, "-o", rounded, "--type", "q4_k_m");
    ask(&a, 0, "the old pond", ARGS("tokenize", "-m", model));
    ask(&a, 0, "500 501", ARGS("tokenize", "-m", model, "--decode"));
    ASK(&a, 0, "devices");
    ASK(&a, 0, "generate", "-m", model, "--backend", "cpu", "-p", "the old pond", "-n", "3");
    ask(&a, 0, "the old pond\n", ARGS("chat", "-m", model, "--backend", "cpu", "-n", "2")); /* a line an answer */
    ASK(&a, 0, "logits", "-m", model, "--backend", "cpu", "--ids", "5,6,7");
    ASK(&a, 0, "op", "--list");
    ASK(&a, 0, "op", "add", "--in", kg_fixture_path("ops/add.residual.safetensors"), "-o", out, "--backend", "cpu");
    end(&a);
    free(out);
    free(rounded);
    free(made);
    free(gguf);
    free(hf);
}

static void verbs_over_suites(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    struct answers a;
    (void)arg;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    kg_lab_add(&lab, "bench_beside", "bench_beside");
    begin(&a, rec);
    ASK(&a, 0, "check", "--list", "--suites", lab.suites);
    ASK(&a, 1, "check", "--suites", lab.suites, "--bundles", lab.bundles, "--filter", "unit/mixed/*");
    char *dir = kg_lab_bundle(&lab);
    ASK(&a, -1, "rerun", dir, "--here", "--suites", lab.suites, "--bundles", lab.bundles);
    ASK(&a, 0, "bench", "--list", "--suites", lab.suites);
    end(&a);
    free(dir);
    kg_lab_close(&lab);
}

/* The verbs that `kigo --help` lists, and "" at their end. malloc'ed. */
static char *list_verbs(void) {
    const char *const argv[] = { kg_program_path(), "--help", NULL };
    struct kg_process_result r;
    struct kg_buffer verbs = KG_BUFFER_INIT;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv }, &r, &err), err);
    const char *line = strstr(r.out, "commands:\n");
    ck_assert(line);
    for (line = strchr(line, '\n') + 1; strncmp(line, "  ", 2) == 0; line = strchr(line, '\n') + 1)
        kg_buffer_printf(&verbs, "%.*s\n", (int)strcspn(line + 2, " "), line + 2);
    kg_process_result_free(&r);
    ck_assert_ptr_nonnull(verbs.data);
    return verbs.data;
}

static bool is_exempt(const char *verb) {
    for (size_t i = 0; i < KG_COUNT_OF(EXEMPT); i++)
        if (strcmp(EXEMPT[i].verb, verb) == 0) return true;
    return false;
}

/* A failing verb says why on standard error, and nothing on standard output. */
static void expect_silent(const char *const *argv) {
    struct kg_process_result r;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv }, &r, &err), err);
    ck_assert_msg(r.exit_code > 0, "kigo %s %s: exit code %d", argv[1], argv[2], r.exit_code);
    ck_assert_msg(r.out_len == 0, "kigo %s %s: %.500s", argv[1], argv[2], r.out);
    ck_assert_msg(strncmp(r.err, "kigo", 4) == 0, "kigo %s %s says '%.500s'", argv[1], argv[2], r.err);
    kg_process_result_free(&r);
}

static void every_verb_has_json_and_a_schema(struct kg_record *rec, const void *arg) {
    struct answers a;
    char *verbs = list_verbs(), *rest = verbs, *verb;
    size_t n_with = 0, n_schemas = 0;
    struct kg_dir_list files;
    struct kg_error err;
    (void)arg;
    begin(&a, rec);
    while ((verb = strsep(&rest, "\n")) && *verb) {
        const char *const help[] = { kg_program_path(), "help", verb, NULL }, *const wrong[] = {
            kg_program_path(), verb, "--no-such-option", "--json", NULL
        };
        struct kg_process_result r;
        EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = help }, &r, &err), err);
        const bool knows = strstr(r.out, "\n      --json ") != NULL;
        kg_process_result_free(&r);
        ck_assert_msg(knows != is_exempt(verb), "kigo %s %s", verb, knows ? "is exempt" : "knows no --json");
        if (!knows) continue;
        expect_silent(wrong);
        a.args[a.n++] = kg_xstrdup(verb);
        a.args[a.n++] = kg_xstrdup("-");
        n_with++;
    }
    char *folder = kg_xstrdup(kg_fixture_path("../docs/schemas"));
    EXPECT_OK(kg_dir_list(folder, &files, &err), err);
    for (size_t i = 0; i < files.n_names; i++) n_schemas += strstr(files.names[i], ".json") != NULL;
    for (size_t i = 0; i < a.n; i += 2) {
        char *path = kg_xasprintf("%s/%s.json", folder, a.args[i]);
        ck_assert_msg(kg_path_exists(path), "docs/schemas has no %s.json", a.args[i]);
        free(path);
    }
    ck_assert_uint_eq(n_schemas, n_with);
    const char *argv[KG_COUNT_OF(a.args) + 2] = { "python3", a.validate };
    for (size_t i = 0; i < a.n; i++) argv[i + 2] = a.args[i];
    run_wanted(rec, argv, "docs/schemas");
    for (size_t i = 0; i < a.n; i++) free(a.args[i]);
    kg_dir_list_free(&files);
    free(folder);
    free(verbs);
}

/* What goes wrong after the arguments were understood. */
static void errors_print_no_document(struct kg_record *rec, const void *arg) {
    static const char *const CALLS[][8] = {
        { "list", "--bundles", "/nowhere/at/all" },
        { "query", "--bundles", "/nowhere/at/all", "SELECT 1" },
        { "show", "--bundles", "/nowhere/at/all", "latest" },
        { "verify", "--bundles", "/nowhere/at/all", "latest" },
        { "regress", "--bundles", "/nowhere/at/all" },
        { "diff", "--bundles", "/nowhere/at/all", "a", "b" },
        { "steps", "--bundles", "/nowhere/at/all" },
        { "history", "--bundles", "/nowhere/at/all", "*" },
        { "reindex", "--bundles", "/nowhere/at/all" },
        { "rerun", "--bundles", "/nowhere/at/all", "latest" },
        { "export", "--bundles", "/nowhere/at/all", "latest" },
        { "import", "/nowhere/at/all.tar" },
        { "push", "--all", "--history", "postgresql://u@/d?host=/nowhere/at/all", "--wait", "0" },
        { "pull", "2026", "--history", "postgresql://u@/d?host=/nowhere/at/all", "--wait", "0" },
        { "fleet", "status", "--history", "postgresql://u@/d?host=/nowhere/at/all", "--wait", "0" },
        { "web", "--port", "0", "--bundles", "/nowhere/at/all" },
        { "check", "--suites", "/nowhere/at/all" },
        { "check", "--list", "--suites", "/nowhere/at/all" },
        { "bench", "--suites", "/nowhere/at/all" },
        { "inspect", "/nowhere/at/all.gguf" },
        { "generate", "-m", "/nowhere/at/all.gguf", "-p", "x" },
        { "logits", "-m", "/nowhere/at/all.gguf", "--ids", "1" },
        { "tokenize", "-m", "/nowhere/at/all.gguf" },
        { "op", "add", "--in", "/nowhere/at/all", "-o", "/nowhere/out" },
        { "convert", "/nowhere/at/all", "-o", "/nowhere/out" },
    };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        const char *argv[12] = { kg_program_path() };
        size_t n = 1;
        while (CALLS[i][n - 1]) argv[n] = CALLS[i][n - 1], n++;
        argv[n] = "--json";
        expect_silent(argv);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "json", .name = #function, .timeout_s = 120, .source_tree = true, .run = function }

static const struct kg_case CASES[] = {
    CASE(verbs_over_bundles),
    CASE(sign_a_bundle),
    CASE(verbs_over_models),
    CASE(verbs_over_suites),
    CASE(every_verb_has_json_and_a_schema),
    CASE(errors_print_no_document),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
