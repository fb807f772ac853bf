/* kigo signoff: a sprint's acceptance criteria against the runs that are to prove them. */
#include "base/beneath.h"
#include "base/clock.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "base/zstd.h"
#include "bundle/beside.h"
#include "bundle/signed_off.h"
#include "bundle/source_tree.h"
#include "cli/asked_runs.h"
#include "cli/commands.h"
#include "cli/sprint.h"
#include "cli/trust.h"
#include "history/ancestry.h"
#include "signoff/judge.h"
#include "signoff/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct signoff_options {
    struct kg_asked asked;
    const char *allowed_signers, *repository, *commit, *output, *sign, *sprints;
    bool unsigned_too, figures, markdown, json;
};

/* What weighs most decides: something is not what it says, before something that is not there. */
static int refuse(const struct kg_bundle_findings *refusals, const struct signoff_options *o) {
    int code = KG_EXIT_INCOMPLETE;
    struct kg_error err;
    for (size_t i = 0; i < refusals->n_items; i++) {
        const char *what = refusals->items[i].what;
        if (strcmp(what, "partial") != 0 && strcmp(what, "gpu") != 0 && strcmp(what, "twice") != 0)
            code = KG_EXIT_INTEGRITY;
        kg_say(stderr, "kigo signoff: refused: %s: %s %s\n", what, refusals->items[i].path, refusals->items[i].detail);
    }
    if (o->json &&
        kg_cli_print_json(json_pack("{s:s, s:o}", "verdict", "refused", "refusals", kg_cli_findings_json(refusals)),
                          &err) != KG_OK)
        return kg_cli_error("signoff", &err);
    return code;
}

/* A document, whose hash enters `hashes` (NULL: it does not). */
static enum kg_status put(const char *dir, const char *name, const struct kg_buffer *text, json_t *hashes,
                          struct kg_error *err) {
    char *path = kg_path_join(dir, name), hex[KG_SHA256_HEX_SIZE];
    const enum kg_status status = kg_file_write(path, kg_buffer_text(text), text->len, err);
    kg_sha256_hex(kg_buffer_text(text), text->len, hex);
    if (hashes) json_object_set_new(hashes, name, json_string(hex));
    free(path);
    return status;
}

/* The criteria as they were: the sprint's file may change later. */
static enum kg_status put_criteria(const char *dir, const struct kg_sprint *sprint, const char *path, json_t *hashes,
                                   struct kg_error *err) {
    struct kg_buffer text = KG_BUFFER_INIT;
    char *bytes = NULL;
    size_t size_bytes;
    enum kg_status status = kg_file_read_regular(path, &bytes, &size_bytes, err);
    if (status == KG_OK) kg_buffer_append(&text, bytes, size_bytes);
    if (status == KG_OK) status = put(dir, KG_SIGNOFF_CRITERIA, &text, hashes, err);
    const char *written = json_string_value(json_object_get(hashes, KG_SIGNOFF_CRITERIA));
    if (status == KG_OK && strcmp(written, sprint->sha256) != 0)
        status = kg_fail(err, KG_ERR_BUSY, "%s was changed meanwhile", path);
    free(bytes);
    kg_buffer_free(&text);
    return status;
}

/* The records of all criteria, one frame: the same runs, cases and members again and again. */
static enum kg_status put_records(const char *dir, const json_t *document, json_t *hashes, struct kg_error *err) {
    struct kg_buffer text = KG_BUFFER_INIT, frame = KG_BUFFER_INIT;
    kg_signoff_records(document, &text);
    enum kg_status status = kg_zstd_compress(kg_buffer_text(&text), text.len, &frame, err);
    if (status == KG_OK) status = put(dir, KG_SIGNOFF_RECORDS ".zst", &frame, hashes, err);
    kg_buffer_free(&frame);
    kg_buffer_free(&text);
    return status;
}

/* All documents; the statement last, since it has the hashes of the others. *statement is the caller's reference. */
static enum kg_status put_documents(const char *dir, const struct kg_sprint *sprint, const char *sprint_path,
                                    const char *key, const json_t *judged, json_t **statement, struct kg_error *err) {
    json_t *document = json_copy((json_t *)(uintptr_t)judged);
    json_object_set_new(document, "records", json_string(KG_SIGNOFF_RECORDS ".zst"));
    struct kg_buffer markdown = KG_BUFFER_INIT, html = KG_BUFFER_INIT, json = KG_BUFFER_INIT;
    json_t *hashes = json_object();
    kg_signoff_markdown(document, &markdown);
    kg_signoff_html(document, &html);
    enum kg_status status = kg_dir_make_synced(dir, err);
    if (status == KG_OK) status = put_criteria(dir, sprint, sprint_path, hashes, err);
    if (status == KG_OK) status = put(dir, "signoff.md", &markdown, hashes, err);
    if (status == KG_OK) status = put(dir, "signoff.html", &html, hashes, err);
    if (status == KG_OK) status = put_records(dir, document, hashes, err);
    *statement = kg_signoff_statement(document, hashes);
    char *text = json_dumps(*statement, 0); /* programs read it */
    kg_buffer_printf(&json, "%s\n", text);
    free(text);
    if (status == KG_OK) status = put(dir, KG_SIGNOFF_STATEMENT, &json, NULL, err);
    char *path = kg_path_join(dir, KG_SIGNOFF_STATEMENT);
    if (status == KG_OK && key) status = kg_sign_beside(key, KG_SIGN_SIGNOFF, path, err);
    free(path);
    json_decref(document);
    json_decref(hashes);
    kg_buffer_free(&markdown);
    kg_buffer_free(&html);
    kg_buffer_free(&json);
    return status;
}

/* dir: of the documents, NULL if there are none. */
static enum kg_status answer(const json_t *document, const char *dir, const struct signoff_options *o,
                             struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    if (o->json) {
        json_t *copy = json_copy((json_t *)(uintptr_t)document);
        if (dir) json_object_set_new(copy, "dir", kg_json_utf8(dir));
        return kg_cli_print_json(copy, err);
    }
    if (o->markdown) kg_signoff_table(document, &out);
    else kg_cli_criteria_print(document, dir, &out);
    return kg_cli_print(&out, err);
}

/* What prune and verify ask of a sign-off: the runs it names, and where its documents are. */
static enum kg_status put_note(const char *root, const char *name, const json_t *statement, const char *dir,
                               const char *documents, struct kg_error *err) {
    char hex[KG_SHA256_HEX_SIZE];
    enum kg_status status = kg_beneath_hash(dir, KG_SIGNOFF_STATEMENT, hex, err);
    json_t *note = json_pack("{s:O, s:s, s:s}", "subject", json_object_get(statement, "subject"), "documents",
                             documents, "statement_sha256", hex);
    if (status == KG_OK) status = kg_beside_write(root, KG_SIGNOFFS, name, note, err);
    json_decref(note);
    return status;
}

/* Documents, the note beside the bundles that makes prune keep them, and the answer. */
static enum kg_status put_all(const json_t *document, const struct kg_sprint *sprint, const char *sprint_path,
                              int64_t now_us, const struct signoff_options *o, const char *key, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->asked.bundles);
    const bool in_fleet = kg_cli_asked_is_fleet(&o->asked); /* where no prune asks for a note */
    char compact[KG_UTC_TEXT_SIZE];
    kg_clock_utc_compact(now_us, compact);
    json_t *statement = NULL;
    char *name = kg_xasprintf("%s-%s", sprint->name, compact);
    char *here = kg_xasprintf(KG_SIGNOFFS "/%s", name),
         *dir = o->output ? kg_xstrdup(o->output) : kg_path_join(root, here);
    enum kg_status status = o->output ? KG_OK : kg_beneath_make_folder(root, here, err);
    if (status == KG_OK) status = put_documents(dir, sprint, sprint_path, key, document, &statement, err);
    if (status == KG_OK && !in_fleet) status = put_note(root, name, statement, dir, o->output ? o->output : here, err);
    if (status == KG_OK) status = answer(document, dir, o, err);
    free(dir);
    free(here);
    free(name);
    json_decref(statement);
    return status;
}

static enum kg_status finish(const struct kg_sprint *sprint, const char *sprint_path,
                             const struct kg_evidence *evidence, const struct signoff_options *o, const char *commit,
                             const char *key, int *exit_code, struct kg_error *err) {
    char utc[KG_UTC_TEXT_SIZE];
    const int64_t now_us = kg_clock_utc_us();
    kg_clock_utc_text(now_us, utc);
    json_t *judgement = kg_signoff_judge(sprint, evidence), *document = kg_signoff_document(judgement, evidence, utc);
    if (commit) json_object_set_new(document, "commit", json_string(commit));
    const enum kg_status status =
        o->figures ? answer(document, NULL, o, err) : put_all(document, sprint, sprint_path, now_us, o, key, err);
    const char *verdict = kg_json_text(document, "verdict");
    *exit_code = strcmp(verdict, "met") == 0      ? KG_EXIT_OK
                 : strcmp(verdict, "missed") == 0 ? KG_EXIT_FAILED
                                                  : KG_EXIT_INCONCLUSIVE;
    json_decref(document);
    json_decref(judgement);
    return status;
}

static enum kg_status find_runs(struct kg_asked_runs *from, const char *const *runs, size_t n_runs, char **dirs,
                                struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n_runs && status == KG_OK; i++)
        status = kg_asked_runs_find(from, NULL, runs[i], &dirs[i], err);
    return status;
}

static int signoff(const struct signoff_options *o, const char *sprint_name, const char *const *runs, size_t n_runs) {
    const char *root = kg_cli_bundles_root(o->asked.bundles);
    char *path = kg_cli_sprint_path(o->sprints, sprint_name), **dirs = kg_xcalloc(n_runs, sizeof *dirs), *key = NULL;
    struct kg_asked_runs from = { 0 };
    struct kg_policy policy = { 0 };
    char commit[KG_COMMIT_SIZE];
    struct kg_evidence_rules rules = { .repository = o->repository      ? o->repository
                                                     : kg_source_tree() ? kg_source_tree()
                                                                        : ".",
                                       .policy = &policy,
                                       .unsigned_too = o->unsigned_too || o->figures,
                                       .any_source = o->figures };
    struct kg_sprint sprint = { 0 };
    struct kg_evidence evidence = { NULL, 0 };
    struct kg_bundle_findings refusals = { NULL, 0 };
    struct kg_error err;
    int exit_code = KG_EXIT_INTERNAL;
    enum kg_status status = kg_policy_load(root, o->allowed_signers, &policy, &err);
    if (status == KG_OK) status = kg_cli_sprint_load(path, sprint_name, &sprint, &err);
    if (status == KG_OK && o->figures) kg_sprint_keep_figures(&sprint);
    if (status == KG_OK && !o->figures) {
        status = kg_resolve_commit(rules.repository, o->commit ? o->commit : "HEAD", commit, &err);
        rules.commit = commit;
    }
    if (status == KG_OK) status = kg_cli_sign_key(o->sign, &key, &err);
    if (status == KG_OK) status = kg_asked_runs_open("signoff", &o->asked, &from, &err);
    if (status == KG_OK) status = find_runs(&from, runs, n_runs, dirs, &err);
    if (status == KG_OK) status = kg_evidence_load(&sprint, dirs, n_runs, &rules, &evidence, &refusals, &err);
    if (status == KG_OK && refusals.n_items > 0) exit_code = refuse(&refusals, o);
    else if (status == KG_OK) status = finish(&sprint, path, &evidence, o, rules.commit, key, &exit_code, &err);
    if (status != KG_OK) exit_code = kg_cli_error("signoff", kg_asked_runs_error(&from, &err));
    kg_asked_runs_close(&from);
    kg_bundle_findings_free(&refusals);
    kg_evidence_free(&evidence);
    kg_sprint_free(&sprint);
    for (size_t i = 0; i < n_runs; i++) free(dirs[i]);
    free(dirs);
    free(key);
    kg_policy_free(&policy);
    free(path);
    return exit_code;
}

int kg_cmd_signoff(int argc, char **argv) {
    enum { MAX_ARGS = 64 };
    struct signoff_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "unsigned",
          .kind = KG_OPTION_FLAG,
          .value = &o.unsigned_too,
          .help = "take runs that are not signed; a bad signature is refused still" },
        KG_ALLOWED_SIGNERS_OPTION(&o.allowed_signers),
        { .name = "repository",
          .kind = KG_OPTION_TEXT,
          .value = &o.repository,
          .metavar = "DIR",
          .help = "git repository that has the runs' commits (the source folder)" },
        { .name = "commit",
          .kind = KG_OPTION_TEXT,
          .value = &o.commit,
          .metavar = "REV",
          .help = "what is signed (HEAD of the repository): runs are of it, or of one with the same sources" },
        { .name = "sprints",
          .kind = KG_OPTION_TEXT,
          .value = &o.sprints,
          .metavar = "DIR",
          .help = "where sprints are by name ($KIGO_SPRINTS or suites/sprints of the source)" },
        { .name = "output",
          .letter = 'o',
          .kind = KG_OPTION_TEXT,
          .value = &o.output,
          .metavar = "DIR",
          .help = "where the documents go (signoffs/<sprint>-<utc> in the folder of bundles; of a fleet's runs it must "
                  "be said)" },
        { .name = "sign",
          .kind = KG_OPTION_TEXT,
          .value = &o.sign,
          .metavar = "FILE",
          .help = "sign the statement with this SSH key" },
        KG_ASKED_OPTIONS(&o.asked),
        KG_COLOR_OPTION,
        { .name = "figures",
          .kind = KG_OPTION_FLAG,
          .value = &o.figures,
          .help = "judge the figures alone and write nothing; runs may be unsigned and of any source" },
        { .name = "markdown",
          .kind = KG_OPTION_FLAG,
          .value = &o.markdown,
          .help = "with --figures: print a table of Markdown" },
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo signoff",
        .usage =
            "SPRINT RUN... [--unsigned] [--allowed-signers FILE] [--repository DIR] [--commit REV] [-o DIR] [--figures "
            "[--markdown]] [--json]",
        .summary =
            "Holds a sprint's acceptance criteria against runs: each is met, missed, or unproven, and the record\n"
            "that says so is named, in Markdown, HTML and an in-toto statement. Runs that do not verify, died,\n"
            "come from changed sources, are not signed, or had no GPU where one is needed, are refused.\n"
            "SPRINT is a name or a JSON file. Exit code: 0 all met, 1 missed, 3 unproven, 4 or 5 refused.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 2,
        .max_args = MAX_ARGS,
    };
    const char *args[MAX_ARGS];
    size_t n_args = 2; /* at least, as the parser saw to */
    int ended;
    if (!kg_cli_parse(&command, argc, argv, args, MAX_ARGS, &ended)) return ended;
    struct kg_error err;
    enum kg_status status = KG_OK;
    if (o.figures && (o.output || o.sign || o.commit))
        status = kg_fail(&err, KG_ERR_USAGE, "--figures writes nothing: it excludes --output, --sign, --commit");
    else if (kg_cli_asked_is_fleet(&o.asked) && !o.figures && !o.output)
        status = kg_fail(&err, KG_ERR_USAGE, "a fleet keeps no documents: say where they go, --output DIR");
    else if (o.markdown && (o.json || !o.figures))
        status = kg_fail(&err, KG_ERR_USAGE, "--markdown goes with --figures, and without --json");
    if (status != KG_OK) return kg_cli_error("signoff", &err);
    while (n_args < MAX_ARGS && args[n_args]) n_args++;
    return signoff(&o, args[0], args + 1, n_args - 1);
}
