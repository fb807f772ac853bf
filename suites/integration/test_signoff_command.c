/* kigo signoff as its users call it: what it writes, and every run that it refuses. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/git.h"
#include "bundle/records.h"
#include "run/publish.h"
#include "signoff/judge.h"
#include "suites/integration/signoff_office.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/made_gpu.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define UNPROVEN                                                                                                       \
    ", {\"what\": \"none\", \"figure\": \"value >= 1\", \"of\": {\"match\": \"bench/*\", \"metric\": \"speed\"}}"

static void expect_file(const char *dir, const char *name, const char *holds) {
    char *path = kg_path_join(dir, name), *text;
    size_t size_bytes;
    struct kg_error err;
    EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
    ck_assert_msg(strstr(text, holds) != NULL, "%s lacks '%s': %s", name, holds, text);
    free(text);
    free(path);
}

/* They are said once, beside the statement. */
static void expect_no_records(const char *documents) {
    json_t *statement = NULL, *criterion;
    struct kg_error err;
    size_t i;
    EXPECT_OK(kg_bundle_read_json(documents, "statement.intoto.json", &statement, &err), err);
    const json_t *said = json_object_get(json_object_get(statement, "predicate"), "kigo");
    ck_assert_uint_gt(json_array_size(json_object_get(said, "criteria")), 0);
    json_array_foreach(json_object_get(said, "criteria"), i, criterion)
        ck_assert_ptr_null(json_object_get(criterion, "records"));
    json_decref(statement);
}

static const struct verdict_row {
    const char *name, *limit, *more, *status, *verdict;
    int exit_code;
} VERDICTS[] = {
    { "met", "1e-2", "", "pass", "met", KG_EXIT_OK },
    { "missed_by_a_figure", "1e-3", "", "pass", "missed", KG_EXIT_FAILED },
    { "missed_by_a_case", "1e-2", "", "fail", "missed", KG_EXIT_FAILED },
    { "unproven", "1e-2", UNPROVEN, "pass", "unproven", KG_EXIT_INCONCLUSIVE },
    { "unproven_by_a_skip", "1e-2", "", "skip", "unproven", KG_EXIT_INCONCLUSIVE },
    { "missed_outweighs_unproven", "1e-3", UNPROVEN, "pass", "missed", KG_EXIT_FAILED },
};

static void verdict(struct kg_record *rec, const void *arg) {
    const struct verdict_row *row = arg;
    struct kg_office o;
    if (!kg_office_open(&o, rec, row->limit, row->more)) return kg_office_close(&o);
    char *dir = kg_office_run(&o, row->status, true, true);
    json_t *answer = kg_verb_json(o.root, SIGNOFF(&o, dir), row->exit_code);
    ck_assert_str_eq(kg_json_text(answer, "verdict"), row->verdict);
    const char *documents = kg_json_text(answer, "dir"), *id = strrchr(dir, '/') + 1;
    expect_file(documents, "signoff.md", row->verdict);
    expect_file(documents, "signoff.md", row->exit_code == KG_EXIT_OK ? "Z.\n\n## Criteria" : "Z.\n\n## Not met");
    expect_file(documents, "signoff.html", id);
    expect_file(documents, "statement.intoto.json", "https://in-toto.io/Statement/v1");
    expect_file(documents, "statement.intoto.json", id);
    expect_no_records(documents);
    const json_t *criterion = json_array_get(json_object_get(answer, "criteria"), 1);
    const json_t *record = json_array_get(json_object_get(criterion, "records"), 0);
    ck_assert_str_eq(kg_json_text(record, "record"), "unit/sample/case_0");
    ck_assert_str_eq(kg_json_text(record, "run"), id);
    kg_verb_expect(o.root, ARGS("verify", "--all", "--allowed-signers", o.allowed), KG_EXIT_OK, NULL); /* no bundle */
    json_decref(answer);
    free(dir);
    kg_office_close(&o);
}

static void statement_is_signed(struct kg_record *rec, const void *arg) {
    struct kg_office o;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-2", "")) return kg_office_close(&o);
    char *dir = kg_office_run(&o, "pass", true, true), *out = kg_path_join(kg_scratch_dir(rec), "out");
    kg_verb_expect(o.root, SIGNOFF(&o, dir, "-o", out, "--sign", o.key), KG_EXIT_OK, NULL);
    expect_file(out, "statement.intoto.json.sig", "-----BEGIN SSH SIGNATURE-----");
    /* What was signed off stays, wherever the documents went. */
    for (size_t i = 0; i < 2; i++) free(kg_office_run(&o, "pass", true, false));
    json_t *pruned = kg_verb_json(o.root, ARGS("prune", "--keep", "1"), KG_EXIT_OK);
    const json_t *rows = json_object_get(pruned, "bundles"), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        const char *kept = kg_json_text(row, "kept");
        if (strcmp(kg_json_text(row, "bundle_id"), strrchr(dir, '/') + 1) == 0)
            ck_assert_msg(kept != NULL, "a run that was signed off would go");
    }
    json_decref(pruned);
    free(out);
    free(dir);
    kg_office_close(&o);
}

/* Ways for a run to be no evidence. */
static char *partial(const struct kg_office *o) {
    char *dir = kg_office_run(o, "pass", true, false);
    kg_maker_replace(dir, "data/summary.json", "\"complete\"", "\"partial\"");
    kg_maker_replace(dir, "data/summary.json", "\"verdict\": \"pass\"", "\"verdict\": \"incomplete\"");
    kg_maker_replace(dir, "data/summary.json", "\"exit_code\": 0", "\"exit_code\": 5");
    kg_maker_replace(dir, "bag-info.txt", "Kigo-State: complete", "Kigo-State: partial");
    kg_maker_replace(dir, "bag-info.txt", "Kigo-Verdict: pass", "Kigo-Verdict: incomplete");
    kg_maker_rehash(dir);
    kg_verb_expect(o->root, ARGS("sign", dir, "--key", o->key), KG_EXIT_OK, NULL);
    return dir;
}

static char *dirty(const struct kg_office *o) {
    kg_office_write(o->source, "int main(void) { return 1; }\n");
    return kg_office_run(o, "pass", true, true);
}

/* The record leaves open whether the sources were changed: verify says so. */
static char *dirty_unknown(const struct kg_office *o) {
    char *dir = kg_office_run(o, "pass", true, false);
    kg_maker_replace(dir, "data/source.json", "\"dirty\": false", "\"dirty\": null");
    kg_maker_rehash(dir);
    return dir;
}

static char *unsigned_run(const struct kg_office *o) {
    return kg_office_run(o, "pass", true, false);
}

static char *no_gpu(const struct kg_office *o) {
    return kg_office_run(o, "pass", false, true);
}

static char *changed(const struct kg_office *o) {
    char *dir = kg_office_run(o, "pass", true, true);
    kg_maker_replace(dir, "data/results.ndjson", "0.001", "0.000");
    return dir;
}

static char *changed_and_rehashed(const struct kg_office *o) {
    char *dir = kg_office_run(o, "pass", true, true);
    kg_maker_replace(dir, "data/env.json", "made GPU", "true GPU");
    kg_maker_rehash(dir);
    return dir;
}

static char *other_signer(const struct kg_office *o) {
    char *dir = kg_office_run(o, "pass", true, false), *key = kg_xasprintf("%s-stranger", o->key);
    kg_verb_expect(o->root, ARGS("sign", dir, "--key", key), KG_EXIT_OK, NULL);
    free(key);
    return dir;
}

/* The commit is a true one, the sources another commit's. */
/* The commit is its own, the sources are not the commit's. */
static char *sources_of_another_commit(const struct kg_office *o) {
    char *dir = kg_office_run(o, "pass", true, false);
    json_t *source = NULL;
    struct kg_error err;
    EXPECT_OK(kg_bundle_read_json(dir, "data/source.json", &source, &err), err);
    kg_maker_replace(dir, "data/source.json", kg_json_text(source, "content_sha256"),
                     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    kg_maker_rehash(dir);
    kg_verb_expect(o->root, ARGS("sign", dir, "--key", o->key), KG_EXIT_OK, NULL);
    json_decref(source);
    return dir;
}

static char *commit_not_at_hand(const struct kg_office *o) {
    char *dir = kg_office_run(o, "pass", true, true), *git_dir = kg_path_join(o->repository, ".git");
    struct kg_error err;
    EXPECT_OK(kg_path_remove(git_dir, &err), err);
    kg_office_git(o->repository, ARGS("init", "-q"));
    kg_office_write(o->source, "int main(void) { return 4; }\n");
    kg_office_commit(o->repository);
    free(git_dir);
    return dir;
}

static const struct refused_row {
    const char *name;
    char *(*make)(const struct kg_office *o);
    const char *what;
    int exit_code, with_unsigned; /* exit codes, the second with --unsigned */
} REFUSED[] = {
    { "partial", partial, "partial", KG_EXIT_INCOMPLETE, KG_EXIT_INCOMPLETE },
    { "dirty", dirty, "dirty", KG_EXIT_INTEGRITY, KG_EXIT_INTEGRITY },
    { "dirty_unknown", dirty_unknown, "integrity", KG_EXIT_INTEGRITY, KG_EXIT_INTEGRITY },
    { "not_signed", unsigned_run, "signature", KG_EXIT_INTEGRITY, KG_EXIT_OK },
    { "no_gpu", no_gpu, "gpu", KG_EXIT_INCOMPLETE, KG_EXIT_INCOMPLETE },
    { "changed", changed, "integrity", KG_EXIT_INTEGRITY, KG_EXIT_INTEGRITY },
    { "changed_and_rehashed", changed_and_rehashed, "signature", KG_EXIT_INTEGRITY, KG_EXIT_INTEGRITY },
    { "other_signer", other_signer, "signature", KG_EXIT_INTEGRITY, KG_EXIT_INTEGRITY },
    { "sources_of_another_commit", sources_of_another_commit, "source", KG_EXIT_INTEGRITY, KG_EXIT_INTEGRITY },
    { "commit_not_at_hand", commit_not_at_hand, "source", KG_EXIT_INTEGRITY, KG_EXIT_INTEGRITY },
};

static void refused(struct kg_record *rec, const void *arg) {
    const struct refused_row *row = arg;
    struct kg_office o;
    if (!kg_office_open(&o, rec, "1e-2", "")) return kg_office_close(&o);
    free(kg_verb_key(rec, o.keys, "ci-stranger"));
    char *dir = row->make(&o);
    json_t *answer = kg_verb_json(o.root, SIGNOFF(&o, dir), row->exit_code);
    ck_assert_str_eq(kg_json_text(answer, "verdict"), "refused");
    const json_t *first = json_array_get(json_object_get(answer, "refusals"), 0);
    ck_assert_str_eq(kg_json_text(first, "what"), row->what);
    ck_assert_uint_eq(kg_maker_count(o.root, "signoffs"), 0); /* nothing is written of what was refused */
    kg_verb_expect(o.root, SIGNOFF(&o, dir, "--unsigned"), row->with_unsigned, NULL);
    json_decref(answer);
    free(dir);
    kg_office_close(&o);
}

static void runs_together(struct kg_record *rec, const void *arg) {
    struct kg_office o;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-2", "")) return kg_office_close(&o);
    char *skipped = kg_office_run(&o, "skip", true, true), *passed = kg_office_run(&o, "pass", true, true);
    kg_verb_expect(o.root, SIGNOFF(&o, skipped), KG_EXIT_INCONCLUSIVE, NULL);
    kg_verb_refuses(o.root, SIGNOFF(&o, passed, passed), KG_EXIT_INCOMPLETE, "was given before");
    kg_office_write(o.source, "int main(void) { return 3; }\n");
    kg_office_commit(o.repository);
    char *later = kg_office_run(&o, "pass", true, true);
    kg_verb_refuses(o.root, SIGNOFF(&o, passed, later), KG_EXIT_INTEGRITY, "of other sources");
    free(later);
    free(passed);
    free(skipped);
    kg_office_close(&o);
}

/* The commit that is signed, HEAD unless it is named: its own runs, and those of commits with the same sources. */
static void one_commit(struct kg_record *rec, const void *arg) {
    struct kg_office o;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-2", "")) return kg_office_close(&o);
    char *run = kg_office_run(&o, "pass", true, true), *notes = kg_path_join(o.repository, "NOTES");
    kg_office_write(notes, "no source");
    kg_office_commit(o.repository);
    json_t *answer = kg_verb_json(o.root, SIGNOFF(&o, run), KG_EXIT_OK);
    expect_file(kg_json_text(answer, "dir"), "signoff.md", "runs of other commits have the sources of this one");
    json_decref(answer);
    kg_office_write(o.source, "int main(void) { return 5; }\n");
    kg_office_commit(o.repository);
    kg_verb_refuses(o.root, SIGNOFF(&o, run), KG_EXIT_INTEGRITY, "commit: ");
    kg_verb_refuses(o.root, SIGNOFF(&o, run, "--commit", "nothing"), KG_EXIT_USAGE, "nothing");
    kg_verb_expect(o.root, SIGNOFF(&o, run, "--commit", "HEAD~1"), KG_EXIT_OK, NULL);
    kg_verb_expect(o.root, SIGNOFF(&o, run, "--commit", "HEAD~2"), KG_EXIT_OK, NULL);
    free(notes);
    free(run);
    kg_office_close(&o);
}

static void one_model_of_gpu(struct kg_record *rec, const void *arg) {
    struct kg_office o;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-2", "")) return kg_office_close(&o);
    char *run = kg_office_run(&o, "pass", true, false), *other = kg_office_run(&o, "pass", false, false);
    kg_verb_expect(o.root, SIGNOFF(&o, run, other, "--unsigned"), KG_EXIT_OK, NULL);
    kg_made_gpu(other, "another GPU");
    kg_verb_refuses(o.root, SIGNOFF(&o, run, other, "--unsigned"), KG_EXIT_INTEGRITY,
                    "'another GPU', not 'a made GPU'");
    kg_maker_replace(kg_scratch_dir(rec), "sample.json", "\"A sample\"", "\"A sample\", \"gpu\": \"another GPU\"");
    kg_verb_refuses(o.root, SIGNOFF(&o, run, "--unsigned"), KG_EXIT_INTEGRITY, "'a made GPU', not 'another GPU'");
    kg_verb_expect(o.root, SIGNOFF(&o, other, "--unsigned"), KG_EXIT_OK, NULL);
    free(other);
    free(run);
    kg_office_close(&o);
}

/* Figures alone, of a run that is no evidence but verifies: nothing is written. */
static void figures_of_any_run(struct kg_record *rec, const void *arg) {
    struct kg_office o;
    char *text = NULL;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-2", "")) return kg_office_close(&o);
    kg_office_write(o.source, "int main(void) { return 5; }\n");
    char *dir = kg_office_run(&o, "pass", true, false), *id = strrchr(dir, '/') + 1;
    kg_verb_refuses(o.root, ARGS("signoff", o.sprint, id), KG_EXIT_INTEGRITY, "not signed");
    json_t *answer = kg_verb_json(o.root, ARGS("signoff", o.sprint, id, "--figures"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(json_object_get(answer, "criteria")), 1); /* none of cases */
    ck_assert_int_eq(kg_verb_integer(answer, "n_met"), 1);
    ck_assert_ptr_null(json_object_get(answer, "dir"));
    kg_verb_expect(o.root, ARGS("signoff", o.sprint, id, "--figures", "--markdown"), KG_EXIT_OK, &text);
    ck_assert_msg(strstr(text, "\n| FT-1 | errors | max\\_abs &lt;= 1e-2 | met | 0.002, the worst of several | "
                               "`unit/sample/case_1` |\n"),
                  "%s", text);
    ck_assert_uint_eq(kg_maker_count(o.root, "signoffs"), 0);
    kg_verb_refuses(o.root, ARGS("signoff", o.sprint, id, "--figures", "-o", "out"), KG_EXIT_USAGE, "writes nothing");
    kg_verb_refuses(o.root, ARGS("signoff", o.sprint, id, "--markdown"), KG_EXIT_USAGE, "goes with --figures");
    kg_maker_replace(dir, "data/results.ndjson", "0.00", "0.01");
    kg_verb_refuses(o.root, ARGS("signoff", o.sprint, id, "--figures"), KG_EXIT_INTEGRITY, "integrity");
    json_decref(answer);
    free(text);
    free(dir);
    kg_office_close(&o);
}

static void wrong_calls(struct kg_record *rec, const void *arg) {
    struct kg_office o;
    (void)arg;
    if (!kg_office_open(&o, rec, "1e-2", "")) return kg_office_close(&o);
    kg_verb_refuses(o.root, ARGS("signoff"), KG_EXIT_USAGE, "usage");
    kg_verb_refuses(o.root, ARGS("signoff", o.sprint), KG_EXIT_USAGE, "usage");
    kg_verb_refuses(o.root, ARGS("signoff", "no-such-sprint", "latest"), KG_EXIT_USAGE,
                    "there is no sprint 'no-such-sprint'");
    kg_verb_refuses(o.root, SIGNOFF(&o, "latest"), KG_EXIT_USAGE, "no bundle");
    kg_office_write(o.sprint, "{}");
    kg_verb_refuses(o.root, SIGNOFF(&o, "latest"), KG_EXIT_INTEGRITY, "a sprint lacks 'sprint'");
    kg_office_close(&o);
}

/* What `kigo <verb>` would run, a plan line each. */
static json_t *planned(const char *verb) {
    const char *const argv[] = { kg_program_path(), verb, "--list", "--json", NULL };
    const struct kg_process process = { .argv = argv };
    struct kg_process_result result;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, &result, &err), err);
    ck_assert_msg(result.exit_code == 0, "kigo %s --list: %s", verb, result.err);
    json_t *lines = json_loads(result.out, 0, NULL);
    ck_assert(json_is_array(lines));
    kg_process_result_free(&result);
    return lines;
}

static size_t count_matches(const json_t *lines, const json_t *selector) {
    const char *spec = kg_json_text(selector, "spec");
    const json_t *line;
    size_t i, n = 0;
    json_array_foreach(lines, i, line) {
        const char *tag = kg_json_text(line, "spec");
        const bool tagged = !spec || (tag && strcmp(tag, spec) == 0);
        n += tagged && kg_patterns_match(json_object_get(selector, "match"), kg_json_text(line, "key"));
    }
    return n;
}

/* Those of a model that is given to bench, which has no case here. */
static bool is_of_a_model(const json_t *selector) {
    const char *pattern = kg_json_text(selector, "match");
    return json_object_get(selector, "where") || (pattern && strncmp(pattern, "bench/model/", 12) == 0);
}

/* A pattern that nothing matches would stay unproven for ever: each is held against what is planned. */
static void criteria_have_cases(struct kg_record *rec, const void *arg) {
    const char *sprint_name = arg;
    char *path = kg_xasprintf("%s/../suites/sprints/%s.json", kg_fixture_path("."), sprint_name);
    json_t *lines = planned("check"), *bench = planned("bench");
    struct kg_sprint sprint;
    struct kg_error err;
    const json_t *story, *asked;
    size_t s, i;
    (void)rec;
    (void)arg;
    EXPECT_OK(kg_sprint_load(path, &sprint, &err), err);
    json_array_extend(lines, bench);
    json_array_foreach(sprint.stories, s, story) {
        const json_t *cases = json_object_get(story, "cases"), *figures = json_object_get(story, "figures");
        json_array_foreach(cases, i, asked) {
            const size_t n = count_matches(lines, asked), at_least = (size_t)kg_json_int(asked, "at_least", 1);
            ck_assert_msg(n >= at_least, "%s: %zu cases, wanted %zu", kg_json_text(asked, "what"), n, at_least);
        }
        json_array_foreach(figures, i, asked) {
            const json_t *of = json_object_get(asked, "of");
            if (is_of_a_model(of)) continue;
            ck_assert_msg(count_matches(lines, of) > 0, "%s: no case", kg_json_text(asked, "what"));
        }
    }
    kg_sprint_free(&sprint);
    json_decref(bench);
    json_decref(lines);
    free(path);
}

/* The tree's sealed runs, without the run under way; those of changed sources are no evidence. */
static struct kg_evidence runs_of_the_tree(void) {
    char *root = kg_xasprintf("%s/../proof-bundles", kg_fixture_path("."));
    struct kg_dir_list names = { NULL, 0 };
    struct kg_error err;
    if (kg_dir_list(root, &names, &err) != KG_OK) names.n_names = 0;
    struct kg_evidence evidence = { kg_xcalloc(names.n_names + 1, sizeof *evidence.runs), 0 };
    for (size_t i = 0; i < names.n_names; i++) {
        struct kg_evidence_run *run = &evidence.runs[evidence.n_runs];
        struct kg_bundle_findings findings = { NULL, 0 };
        char *dir = kg_path_join(root, names.names[i]);
        char *seal = kg_path_join(dir, "tagmanifest-sha256.txt");
        if (kg_path_exists(seal) && kg_bundle_read_json(dir, "data/env.json", &run->env, NULL) == KG_OK &&
            !strstr(names.names[i], "-dirty-")) {
            EXPECT_OK(kg_records_load_results(dir, &run->records, &findings, &err), err);
            ck_assert_msg(findings.n_items == 0, "%s: %zu findings", dir, findings.n_items);
            run->dir = kg_xstrdup(dir);
            run->id = strrchr(run->dir, '/') + 1;
            run->has_gpu = json_array_size(json_object_get(run->env, "gpus")) > 0;
            evidence.n_runs++;
        } else {
            json_decref(run->env);
            run->env = NULL;
        }
        kg_bundle_findings_free(&findings);
        free(seal), free(dir);
    }
    kg_dir_list_free(&names);
    free(root);
    return evidence;
}

/* A name that is planned but spelt otherwise in the records (a timing, a metric, a partner) leaves a criterion
 * unproven: the runs that are committed as evidence decide every one of them, whichever way. */
static void fp16_evidence_decides(struct kg_record *rec, const void *arg) {
    char *path = kg_xasprintf("%s/../suites/sprints/fp16.json", kg_fixture_path("."));
    struct kg_evidence evidence = runs_of_the_tree();
    struct kg_sprint sprint;
    struct kg_error err;
    const json_t *criterion;
    size_t i;
    (void)arg;
    EXPECT_OK(kg_sprint_load(path, &sprint, &err), err);
    bool any_gpu = false;
    for (i = 0; i < evidence.n_runs; i++) any_gpu |= evidence.runs[i].has_gpu;
    if (!any_gpu) kg_record_skip(rec, "no run on a GPU is in the tree's proof-bundles");
    json_t *judgement = kg_signoff_judge(&sprint, &evidence);
    json_array_foreach(json_object_get(judgement, "criteria"), i, criterion) {
        char *text = json_dumps(json_object_get(criterion, "notes"), JSON_COMPACT);
        ck_assert_msg(!any_gpu || strcmp(kg_json_text(criterion, "state"), "unproven") != 0, "%s: unproven, %s: %s",
                      kg_json_text(criterion, "what"), kg_json_text(criterion, "found"), text);
        free(text);
    }
    json_decref(judgement);
    kg_sprint_free(&sprint);
    kg_evidence_free(&evidence);
    free(path);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "signoff", .name = #function, .run = function }

static const struct kg_case CASES[] = { CASE(statement_is_signed),  CASE(one_commit),         CASE(one_model_of_gpu),
                                        CASE(runs_together),        CASE(figures_of_any_run), CASE(wrong_calls),
                                        CASE(fp16_evidence_decides) };

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    static const char *const SPRINTS[][2] = { { "fp16_criteria_have_cases", "fp16" },
                                              { "fused_criteria_have_cases", "fused" },
                                              { "mxfp4_criteria_have_cases", "mxfp4" },
                                              { "sdpa_fp16_criteria_have_cases", "sdpa-fp16" },
                                              { "sdpa_fp8_criteria_have_cases", "sdpa-fp8" } };
    for (size_t i = 0; i < KG_COUNT_OF(SPRINTS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "signoff",
                                                  .name = SPRINTS[i][0],
                                                  .run = criteria_have_cases,
                                                  .arg = SPRINTS[i][1] });
    for (size_t i = 0; i < KG_COUNT_OF(VERDICTS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "signoff",
                                                  .name = VERDICTS[i].name,
                                                  .run = verdict,
                                                  .arg = &VERDICTS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "signoff_refused",
                                                  .name = REFUSED[i].name,
                                                  .run = refused,
                                                  .arg = &REFUSED[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
