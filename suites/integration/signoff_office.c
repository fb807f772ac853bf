#include "suites/integration/signoff_office.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/git.h"
#include "run/publish.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/made_gpu.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char SPRINT[] =
    "{\"sprint\": \"sample\", \"title\": \"A sample\", \"stories\": [{\"spec\": \"FT-1\", \"title\": \"one\", "
    "\"needs\": "
    "\"gpu\", \"cases\": [{\"what\": \"all pass\", \"match\": \"unit/sample/*\", \"at_least\": 2}], \"figures\": ["
    "{\"what\": \"errors\", \"figure\": \"max_abs <= %s\", \"of\": {\"match\": \"unit/sample/*\", \"error\": "
    "\"logits\"}}%s]}]}";

void kg_office_write(const char *path, const char *text) {
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
}

void kg_office_git(const char *dir, const char *const *args) {
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_error err;
    EXPECT_OK(kg_git(dir, args, 4096, &out, NULL, &err), err);
    kg_buffer_free(&out);
}

void kg_office_commit(const char *repository) {
    kg_office_git(repository, ARGS("add", "-A"));
    kg_office_git(repository, ARGS("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false",
                                   "commit", "-q", "-m", "sources"));
}

static bool has_git(struct kg_record *rec) {
    struct kg_buffer out = KG_BUFFER_INIT;
    const bool there = kg_git(".", ARGS("--version"), 4096, &out, NULL, NULL) != KG_ERR_NOT_FOUND;
    kg_buffer_free(&out);
    if (!there) kg_record_skip(rec, "no git on this machine");
    return there;
}

/* A repository with a source file in a commit, a folder for bundles outside of it, a sprint, a key. */
bool kg_office_open(struct kg_office *o, struct kg_record *rec, const char *limit, const char *more) {
    struct kg_error err;
    const char *dir = kg_scratch_dir(rec);
    *o = (struct kg_office){ .repository = kg_path_join(dir, "repository"),
                             .root = kg_path_join(dir, "bundles"),
                             .keys = kg_path_join(dir, "keys"),
                             .sprint = kg_path_join(dir, "sample.json") };
    if (!has_git(rec)) return false;
    char *src = kg_path_join(o->repository, "src"), *sprint = kg_xasprintf(SPRINT, limit, more);
    EXPECT_OK(kg_dir_make(src, &err), err);
    EXPECT_OK(kg_dir_make(o->root, &err), err);
    EXPECT_OK(kg_dir_make(o->keys, &err), err);
    o->source = kg_path_join(src, "main.c");
    kg_office_write(o->source, "int main(void) { return 0; }\n");
    kg_office_write(o->sprint, sprint);
    kg_office_git(o->repository, ARGS("init", "-q"));
    kg_office_commit(o->repository);
    o->key = kg_verb_key(rec, o->keys, "ci");
    if (o->key) o->allowed = kg_verb_allowed(o->keys, "allowed", "ci@example.org", o->key);
    free(sprint);
    free(src);
    return o->key != NULL;
}

void kg_office_close(struct kg_office *o) {
    free(o->repository);
    free(o->source);
    free(o->root);
    free(o->sprint);
    free(o->keys);
    free(o->key);
    free(o->allowed);
}

/* A sealed and signed run of two cases from the repository's sources. malloc'ed folder. */
char *kg_office_run(const struct kg_office *o, const char *status, bool has_gpu, bool is_signed) {
    json_t *run = json_pack("{s:[s]}", "argv", "check");
    const struct kg_bundle_options options = { .root = o->root, .source_dir = o->repository, .run = run, .seed = 7 };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    for (size_t i = 0; i < 2; i++) {
        json_t *line = kg_maker_plan_line(i);
        EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
        json_decref(line);
    }
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    EXPECT_OK(kg_maker_run(bundle, 0, "pass", &err), err);
    EXPECT_OK(kg_maker_run(bundle, 1, status, &err), err);
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    char *dir = kg_xstrdup(kg_bundle_dir(bundle));
    kg_bundle_close(bundle);
    json_decref(run);
    kg_made_gpu(dir, has_gpu ? "a made GPU" : NULL);
    if (is_signed) kg_verb_expect(o->root, ARGS("sign", dir, "--key", o->key), KG_EXIT_OK, NULL);
    return dir;
}
