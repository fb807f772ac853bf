/* The README's commands that need what a case has not, run as they are printed with something in its place: a small
 * folder of Hugging Face's form for the one that is downloaded, the CPU for the GPU, a run of this build for RUN. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/archive.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/support/hf_maker.h"
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INDENT "    "

static char *readme(void) {
    char *text = NULL;
    size_t len;
    struct kg_error err;
    kg_must(kg_file_read(kg_fixture_path("../README.md"), &text, &len, &err), &err);
    return text;
}

/* In the case's scratch folder, whose bin/ comes first in PATH, then kigo; no GPU is seen. The output holds both
 * streams. */
static struct kg_process_result shell(const struct kg_record *rec, const char *command, const char *input) {
    static const char SCRIPT[] =
        "cd \"$1\" && PATH=$1/bin:${0%/*}:$PATH && export PATH CUDA_VISIBLE_DEVICES= && "
        "unset KIGO_POLICY && KIGO_BUNDLES=$1/store && export KIGO_BUNDLES && eval \"$2\" 2>&1";
    struct kg_process_result r;
    struct kg_error err;
    const struct kg_process process = { .argv = ARGS("/bin/sh", "-c", SCRIPT, kg_program_path(), kg_scratch_dir(rec),
                                                     command),
                                        .input = input,
                                        .input_len = input ? strlen(input) : 0 };
    kg_must(kg_process_run(&process, &r, &err), &err);
    return r;
}

/* The command that begins so in an indented line, without its comment, `from` replaced by `by` (all of them; NULL:
 * none). malloc'ed; fails if the page has none. */
static char *command_of(const char *page, const char *begin, const char *from, const char *by) {
    char *start = kg_xasprintf("\n" INDENT "%s", begin);
    const char *at = strstr(page, start);
    struct kg_buffer out = KG_BUFFER_INIT;
    ck_assert_msg(at != NULL, "README.md has no command '%s'", begin);
    at += 1 + strlen(INDENT);
    char *line = kg_xstrndup(at, strcspn(at, "\n")), *comment = strstr(line, " #");
    if (comment) *comment = '\0';
    const char *rest = line;
    for (const char *found; from && (found = strstr(rest, from)); rest = found + strlen(from)) {
        kg_buffer_append(&out, rest, (size_t)(found - rest));
        kg_buffer_puts(&out, by);
    }
    ck_assert_msg(!from || rest != line, "'%s' has no '%s'", line, from);
    kg_buffer_puts(&out, rest);
    free(line);
    free(start);
    return out.data;
}

static void expect(const struct kg_process_result *r, const char *command, int exit_code, const char *says) {
    ck_assert_msg(r->exit_code == exit_code, "%s\nended with %d: %.2000s", command, r->exit_code, r->out);
    /* A model of random weights may write a NUL. */
    ck_assert_msg(memmem(r->out, r->out_len, says, strlen(says)) != NULL, "%s\nsays no '%s': %.2000s", command, says,
                  r->out);
}

static void put_file(const char *dir, const char *name, const char *text, mode_t mode) {
    char *path = kg_path_join(dir, name);
    struct kg_error err;
    kg_must(kg_file_write(path, text, strlen(text), &err), &err);
    ck_assert_int_eq(chmod(path, mode), 0);
    free(path);
}

/* The published chat template, beside the weights. */
static void put_template(const char *dir) {
    json_error_t why;
    json_t *chats = json_load_file(kg_fixture_path("tokenizers/chats/chats.json"), 0, &why);
    ck_assert_msg(chats != NULL, "%s", why.text);
    put_file(dir, "chat_template.jinja",
             json_string_value(json_object_get(json_object_get(chats, "templates"), "gpt-oss")), 0600);
    json_decref(chats);
}

/* hub/ is the repository; bin/hf copies of it what is not excluded, and takes no other call than the page's. */
static void make_hub(const struct kg_record *rec) {
    static const char HF[] = "#!/bin/sh\n"
                             "[ \"$*\" = 'download openai/gpt-oss-20b --exclude */* --local-dir gpt-oss-20b' ] || {\n"
                             "    echo \"hf: $*\" >&2; exit 2\n"
                             "}\n"
                             "mkdir \"$6\" && find hub -maxdepth 1 -type f -exec cp {} \"$6\" \\;\n";
    static const struct kg_hf_changes CHANGES = {
        .config = "{\"max_position_embeddings\": 4096, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 128.0, "
                  "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"original_max_position_embeddings\": 32, "
                  "\"truncate\": false}}",
        .more_tokens = ",{\"id\":259,\"content\":\"<|start|>\",\"special\":true}"
                       ",{\"id\":260,\"content\":\"<|message|>\",\"special\":true}"
                       ",{\"id\":261,\"content\":\"<|channel|>\",\"special\":true}"
                       ",{\"id\":262,\"content\":\"<|return|>\",\"special\":true}"
                       ",{\"id\":263,\"content\":\"<|call|>\",\"special\":true}",
    };
    struct kg_error err;
    char *hub = kg_path_join(kg_scratch_dir(rec), "hub"), *bin = kg_path_join(kg_scratch_dir(rec), "bin");
    char *other = kg_path_join(hub, "original");
    kg_hf_make(hub, kg_hf_expected("gpt_oss_mxfp4"), &CHANGES);
    put_template(hub);
    kg_must(kg_dir_make(other, &err), &err);
    put_file(other, "model.safetensors", "the same weights in another form", 0600);
    kg_must(kg_dir_make(bin, &err), &err);
    put_file(bin, "hf", HF, 0700);
    free(other);
    free(bin);
    free(hub);
}

/* Downloaded, converted, asked and chatted with. */
static void published_model(struct kg_record *rec, const void *arg) {
    static const char GPU[] = " --backend cuda --dtype f16";
    static const struct {
        const char *begin, *without, *input, *says, *instead;
    } STEPS[] = {
        { "hf download ", NULL, NULL, "", "" },
        { "kigo convert ", NULL, NULL, "tensors were MXFP4 and stay as they were", "" },
        { "kigo generate -m gpt-oss", GPU, NULL, " tokens (", "" },
        { "kigo chat ", GPU, "/help\n", "Ctrl-C         stops an answer", "" },
        { "kigo bench -m gpt-oss", " --backend cuda", NULL, "  tg32 @ d16  ", " --backend cpu --quick" },
    };
    char *page = readme();
    (void)arg;
    make_hub(rec);
    for (size_t i = 0; i < KG_COUNT_OF(STEPS); i++) {
        char *command = command_of(page, STEPS[i].begin, STEPS[i].without, STEPS[i].instead);
        struct kg_process_result r = shell(rec, command, STEPS[i].input);
        expect(&r, command, 0, STEPS[i].says);
        kg_process_result_free(&r);
        free(command);
    }
    free(page);
}

/* A call in the text's own line, between backquotes or in a comment. malloc'ed. */
static char *call_in_text(const char *page, const char *call) {
    ck_assert_msg(strstr(page, call) != NULL, "README.md has no '%s'", call);
    return kg_xstrdup(call);
}

/* The commands that write, on a run of this build: what each ends with, and says. RUN and FILE are what a reader puts
 * in their place. Without libarchive the two of archives are refused, and the run stays where it is. */
static void commands_that_write(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *begin, *from, *by; /* from NULL: begin is all of it */
        int exit_codes[2];
        const char *says;
    } STEPS[] = {
        { "kigo confirm RUN", "RUN", "latest", { KG_EXIT_INCONCLUSIVE }, "nothing to measure again" },
        { "kigo rerun RUN", "RUN", "latest", { KG_EXIT_OK }, "2 of 2 cases the same\n" },
        /* refused: no GPU, and this tree may have been edited */
        { "kigo signoff fp16 RUN",
          "RUN...",
          "latest",
          { KG_EXIT_INCOMPLETE, KG_EXIT_INTEGRITY },
          "criteria for a GPU" },
        { "ssh-keygen -t ed25519 -C ci@example.org -f FILE", NULL, NULL, { KG_EXIT_OK }, "FILE.pub" },
        { "kigo sign RUN", "RUN", "latest", { KG_EXIT_OK }, "signed with ED25519 key" },
        { "kigo export RUN", "RUN", "latest", { KG_EXIT_OK }, ".tar.zst: " },
        { "kigo import FILE", NULL, NULL, { KG_EXIT_OK }, "" },
    };
    static const char TAKE_IN[] = " && mv store sent && mv *.tar.zst FILE";
    char *page = readme();
    (void)arg;
    struct kg_process_result r;
    const bool has_keys = kg_process_has_program("ssh-keygen");
    if (!has_keys) kg_record_skip(rec, "no ssh-keygen");
    if (has_keys) {
        r = shell(rec, "kigo check -q --filter 'unit/kv_cache/*'", NULL);
        expect(&r, "kigo check", KG_EXIT_OK, "2 passed");
        kg_process_result_free(&r);
    }
    for (size_t i = 0; i < KG_COUNT_OF(STEPS) && has_keys; i++) {
        const bool is_export = strncmp(STEPS[i].begin, "kigo export", 11) == 0;
        const bool of_archives = is_export || strncmp(STEPS[i].begin, "kigo import", 11) == 0;
        const char *missing = of_archives ? kg_archive_missing() : NULL;
        char *command = STEPS[i].from ? command_of(page, STEPS[i].begin, STEPS[i].from, STEPS[i].by)
                                      : call_in_text(page, STEPS[i].begin);
        char *whole = kg_xasprintf("%s%s", command, is_export && !missing ? TAKE_IN : "");
        r = shell(rec, whole, NULL);
        const int other = STEPS[i].exit_codes[1];
        if (missing) expect(&r, command, KG_EXIT_USAGE, missing);
        else expect(&r, command, other && r.exit_code == other ? other : STEPS[i].exit_codes[0], STEPS[i].says);
        kg_process_result_free(&r);
        free(whole);
        free(command);
    }
    /* What was sent has come back, and is the only run. */
    r = shell(rec, "kigo verify --all", NULL);
    if (has_keys) expect(&r, "kigo verify --all", KG_EXIT_OK, "1 bundle, 0 bad");
    kg_process_result_free(&r);
    free(page);
}

/* Which case runs each command of the page, and what it has in the place of what a case has not. */
static const struct account {
    const char *begin, *program, *key;
    const char *instead; /* NULL: as it is printed */
} ACCOUNTS[] = {
    { "./bootstrap demo", "test_demo", "integration/demo/bootstrap_leaves_kernels_out_of_the_demo_without_a_gpu",
      "programs that write down their calls: it would install packages and build for minutes; .ci/run does" },
    { "./bootstrap check", "test_demo", "integration/demo/bootstrap_leaves_kernels_out_of_the_demo_without_a_gpu",
      "the same; and it is the run that this case is of" },
    { "$ kigo ", "test_readme", "integration/readme/transcripts_are_true", NULL },
    { "hf download ", "test_readme_commands", "integration/readme_commands/published_model", "a program of that name" },
    { "kigo convert ", "test_readme_commands", "integration/readme_commands/published_model", "a small model" },
    { "kigo generate -m gpt-oss", "test_readme_commands", "integration/readme_commands/published_model", "the CPU" },
    { "kigo chat ", "test_readme_commands", "integration/readme_commands/published_model", "the CPU" },
    { "kigo bench -m gpt-oss", "test_readme_commands", "integration/readme_commands/published_model", "the CPU" },
    { "kigo regress ", "test_readme", "integration/readme/pasted_questions_change_nothing", "runs that were made up" },
    { "kigo steps ", "test_readme", "integration/readme/pasted_questions_change_nothing", "runs that were made up" },
    { "kigo report ", "test_readme", "integration/readme/pasted_questions_change_nothing", "runs that were made up" },
    { "kigo verify ", "test_readme", "integration/readme/pasted_questions_change_nothing", "runs that were made up" },
    { "kigo confirm ", "test_confirm_rebuild", "integration/confirm/as_in_the_readme",
      "small programs for the two builds; on a run in which nothing is flagged, commands_that_write" },
    { "kigo rerun ", "test_readme_commands", "integration/readme_commands/commands_that_write", "a run of two cases" },
    { "kigo signoff ", "test_readme_commands", "integration/readme_commands/commands_that_write",
      "a run without a GPU, which is refused; integration/signoff has others" },
    { "kigo export ", "test_readme_commands", "integration/readme_commands/commands_that_write", "a run of two cases" },
    { "kigo sign ", "test_readme_commands", "integration/readme_commands/commands_that_write", "a run of two cases" },
    { ".ci/gpu", "test_ci", "integration/ci/readme_commands", "kigo as a script that plays runs: there is no GPU" },
};

/* The line's row; NULL if it has none. */
static const struct account *account_of(const char *line) {
    for (size_t i = 0; i < KG_COUNT_OF(ACCOUNTS); i++)
        if (strncmp(line, ACCOUNTS[i].begin, strlen(ACCOUNTS[i].begin)) == 0) return &ACCOUNTS[i];
    return NULL;
}

static void expect_planned(const struct account *row) {
    char *name = kg_xasprintf("integration/%s", row->program), *program = kg_xstrdup(kg_suites_path(name));
    struct kg_process_result r;
    struct kg_error err;
    const struct kg_process process = { .argv = ARGS(program, "--list", "--case", row->key) };
    kg_must(kg_process_run(&process, &r, &err), &err);
    ck_assert_msg(r.exit_code == 0 && strstr(r.out, row->key) != NULL, "%s has no case %s", row->program, row->key);
    kg_process_result_free(&r);
    free(program);
    free(name);
}

/* A command is an indented line of a name and a word behind it, in a block that begins with one. */
static void every_command_has_its_case(struct kg_record *rec, const void *arg) {
    static const char *const STARTS[] = { "kigo ", "$ ", "./", ".ci/", "hf " };
    bool used[KG_COUNT_OF(ACCOUNTS)] = { false };
    char *page = readme();
    size_t n = 0;
    (void)arg;
    for (const char *at = page; (at = strstr(at, "\n" INDENT)) != NULL;) {
        at += 1 + strlen(INDENT);
        bool is_command = false;
        for (size_t i = 0; i < KG_COUNT_OF(STARTS); i++)
            is_command = is_command || strncmp(at, STARTS[i], strlen(STARTS[i])) == 0;
        if (!is_command) continue;
        const struct account *row = account_of(at);
        ck_assert_msg(row != NULL, "no case runs README's '%.*s'", (int)strcspn(at, "\n"), at);
        used[row - ACCOUNTS] = true;
        n++;
    }
    for (size_t i = 0; i < KG_COUNT_OF(ACCOUNTS); i++) {
        ck_assert_msg(used[i], "README has no '%s'", ACCOUNTS[i].begin);
        expect_planned(&ACCOUNTS[i]);
        kg_record_transcript(rec, json_pack("{s:s, s:s, s:s*}", "command", ACCOUNTS[i].begin, "case", ACCOUNTS[i].key,
                                            "instead", ACCOUNTS[i].instead));
    }
    kg_record_metric(rec, "commands", "count", (double)n);
    free(page);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "readme_commands", .name = #function, .source_tree = true, .run = function }
static const struct kg_case CASES[] = {
    CASE(published_model),
    CASE(commands_that_write),
    CASE(every_command_has_its_case),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
