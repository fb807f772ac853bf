#include "suites/integration/crash_scenes.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/git.h"
#include "bundle/transfer.h"
#include "run/publish.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *bundles_of(const struct kg_crash_place *p) {
    return kg_path_join(p->world, "bundles");
}

/* Another bundle for the place's folder; the first is the scene's run. */
static void seal_one(struct kg_crash_place *p) {
    char *bundles = bundles_of(p), *dir = kg_verb_seal(bundles), hex[KG_SHA256_HEX_SIZE];
    char *tags = kg_path_join(dir, "tagmanifest-sha256.txt");
    const char *id = strrchr(dir, '/') + 1;
    struct kg_error err;
    EXPECT_OK(kg_sha256_file(tags, hex, &err), err);
    if (!p->run) p->run = kg_xstrdup(id);
    p->sealed = kg_xrealloc(p->sealed, (p->n_sealed + 1) * sizeof *p->sealed);
    p->sealed[p->n_sealed++] = kg_xasprintf("%s %s", id, hex);
    free(tags);
    free(dir);
    free(bundles);
}

static void two_runs(struct kg_crash_place *p, struct kg_record *rec) {
    (void)rec;
    for (int i = 0; i < 2; i++) seal_one(p);
}

static void many_runs(struct kg_crash_place *p, struct kg_record *rec) {
    for (int i = 0; i < 2; i++) two_runs(p, rec);
}

static void two_runs_and_key(struct kg_crash_place *p, struct kg_record *rec) {
    two_runs(p, rec);
    p->key = kg_verb_key(rec, p->dir, "key");
    if (p->key) p->allowed = kg_verb_allowed(p->dir, "allowed", "ci@example.org", p->key);
}

static void dead_run(struct kg_crash_place *p, struct kg_record *rec) {
    struct kg_bundle *bundle;
    struct kg_error err;
    char *bundles = bundles_of(p);
    two_runs(p, rec);
    EXPECT_OK(kg_maker_open(bundles, 3, &bundle, &err), err);
    EXPECT_OK(kg_maker_run(bundle, 0, "pass", &err), err);
    EXPECT_OK(kg_maker_run(bundle, 1, "started", &err), err);
    char *data = kg_path_join(kg_bundle_dir(bundle), "data");
    kg_maker_append(data, "results.ndjson", "{\"key\": \"unit/samp");
    kg_bundle_close(bundle);
    free(data);
    free(bundles);
}

static void run_from_elsewhere(struct kg_crash_place *p, struct kg_record *rec) {
    char *elsewhere = kg_path_join(p->dir, "elsewhere"), *dir = kg_verb_seal(elsewhere);
    struct kg_error err;
    p->archive = kg_path_join(p->dir, "run.tar");
    p->imported = kg_xstrdup(strrchr(dir, '/') + 1);
    const enum kg_status status = kg_bundle_export(dir, p->archive, &err);
    if (status == KG_ERR_UNSUPPORTED) {
        kg_record_skip(rec, "%s", err.message);
        free(p->archive);
        p->archive = NULL;
    } else {
        EXPECT_OK(status, err);
    }
    two_runs(p, rec);
    free(dir);
    free(elsewhere);
}

static void checkpoint_before(struct kg_crash_place *p, struct kg_record *rec) {
    two_runs_and_key(p, rec);
    if (!p->key) return;
    char *bundles = bundles_of(p), *out = kg_path_join(p->world, "checkpoint");
    kg_verb_expect(bundles, ARGS("checkpoint", "-o", out, "--sign", p->key), KG_EXIT_OK, NULL);
    seal_one(p);
    free(out);
    free(bundles);
}

static void signed_run(struct kg_crash_place *p, struct kg_record *rec) {
    two_runs_and_key(p, rec);
    if (!p->key) return;
    char *bundles = bundles_of(p);
    kg_verb_expect(bundles, ARGS("sign", p->run, "--key", p->key), KG_EXIT_OK, NULL);
    free(bundles);
}

static void git(const char *dir, const char *const *args) {
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_error err;
    EXPECT_OK(kg_git(dir, args, 4096, &out, NULL, &err), err);
    kg_buffer_free(&out);
}

static void write_text(const char *path, const char *text) {
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
}

/* A repository, a run of its sources, and a sprint that the run meets. */
static void run_to_sign_off(struct kg_crash_place *p, struct kg_record *rec) {
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_error err;
    if (kg_git(".", ARGS("--version"), 4096, &out, NULL, NULL) == KG_ERR_NOT_FOUND) {
        kg_record_skip(rec, "no git on this machine");
        return;
    }
    kg_buffer_free(&out);
    p->repository = kg_path_join(p->dir, "repository");
    p->sprint = kg_path_join(p->dir, "sample.json");
    char *src = kg_path_join(p->repository, "src"), *source = kg_path_join(src, "main.c"), *bundles = bundles_of(p);
    EXPECT_OK(kg_dir_make(src, &err), err);
    write_text(source, "int main(void) { return 0; }\n");
    write_text(p->sprint, "{\"sprint\": \"sample\", \"title\": \"A sample\", \"stories\": [{\"spec\": \"S-1\", "
                          "\"title\": \"one\", \"cases\": [{\"what\": \"all pass\", \"match\": \"unit/sample/*\", "
                          "\"at_least\": 1}]}]}");
    git(p->repository, ARGS("init", "-q"));
    git(p->repository, ARGS("add", "-A"));
    git(p->repository, ARGS("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false",
                            "commit", "-q", "-m", "sources"));
    json_t *run = json_pack("{s:[s]}", "argv", "check"), *line = kg_maker_plan_line(0);
    const struct kg_bundle_options options = { .root = bundles, .source_dir = p->repository, .run = run, .seed = 7 };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    EXPECT_OK(kg_maker_run(bundle, 0, "pass", &err), err);
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    p->run = kg_xstrdup(kg_bundle_id(bundle));
    kg_bundle_close(bundle);
    json_decref(line);
    json_decref(run);
    free(bundles);
    free(source);
    free(src);
}

/* What kigo says in the folder; NULL if it ends with 0 and says `want`. */
static char *wrong_answer(const char *world, const char *const *args, const char *want) {
    struct kg_process_result result;
    char *bundles = kg_path_join(world, "bundles"), *complaint = NULL;
    kg_verb_run(bundles, args, false, &result);
    if (result.exit_code != 0 || !strstr(result.out, want))
        complaint = kg_xasprintf("kigo %s ends with %d, no '%s': %.600s%.600s", args[0], result.exit_code, want,
                                 result.out, result.err);
    kg_process_result_free(&result);
    free(bundles);
    return complaint;
}

static char *is_signed(const struct kg_crash_place *p, const char *world, const char *said) {
    (void)said;
    return wrong_answer(world, ARGS("verify", p->run, "--require-signature", "--allowed-signers", p->allowed), "ok");
}

/* "bundle <path> (<verdict>)" names the run. */
static char *sealed_is_signed(const struct kg_crash_place *p, const char *world, const char *said) {
    const char *line = strstr(said, "\nbundle "), *end = strstr(line, " (");
    while (end > line && end[-1] != '/') end--;
    char *id = kg_xstrndup(end, strcspn(end, " "));
    char *complaint =
        wrong_answer(world, ARGS("verify", id, "--require-signature", "--allowed-signers", p->allowed), "ok");
    free(id);
    return complaint;
}

static char *is_noted(const struct kg_crash_place *p, const char *world, const char *said) {
    (void)said;
    (void)p;
    return wrong_answer(world, ARGS("annotate", "list"), "the reason why");
}

static char *is_imported(const struct kg_crash_place *p, const char *world, const char *said) {
    (void)said;
    char *dir = kg_xasprintf("%s/bundles/%s", world, p->imported);
    char *complaint = kg_path_is_dir(dir) ? NULL : kg_xstrdup("what was imported is lost");
    free(dir);
    return complaint;
}

/* Of four, the older two. */
static char *is_pruned(const struct kg_crash_place *p, const char *world, const char *said) {
    char *complaint = NULL;
    (void)said;
    for (size_t i = 0; i < 2 && !complaint; i++) {
        char *dir = kg_xasprintf("%s/bundles/%.*s", world, (int)strcspn(p->sealed[i], " "), p->sealed[i]);
        if (kg_path_exists(dir)) complaint = kg_xasprintf("%s was pruned and is here again", dir);
        free(dir);
    }
    return complaint;
}

static char *checkpoint_holds(const struct kg_crash_place *p, const char *world, const char *said) {
    (void)said;
    char *path = kg_path_join(world, "checkpoint");
    char *complaint = wrong_answer(
        world, ARGS("verify", "--chain", "--since", path, "--allowed-signers", p->allowed, "--require-signature"), "");
    free(path);
    return complaint;
}

static char *is_signed_off(const struct kg_crash_place *p, const char *world, const char *said) {
    (void)said;
    (void)p;
    return wrong_answer(world, ARGS("verify", "--signoffs"), "sample-");
}

static void nothing(struct kg_crash_place *p, struct kg_record *rec) {
    (void)p;
    (void)rec;
}

#define CHECK "check", "--suites", "@S", "--bundles", "@B", "--filter", "unit/green/o*"
const struct kg_crash_scene KG_CRASH_SCENES[] = {
    { "first_check", nothing, { CHECK }, "\nbundle ", NULL, false },
    { "check", two_runs, { CHECK }, "\nbundle ", NULL, false },
    { "check_signed", two_runs_and_key, { CHECK, "--sign", "@K" }, "\nbundle ", sealed_is_signed, false },
    { "recover", dead_run, { "recover", "--bundles", "@B" }, "published 1", NULL, false },
    { "sign", two_runs_and_key, { "sign", "@R", "--key", "@K", "--bundles", "@B" }, "sign", is_signed, false },
    { "sign_again",
      signed_run,
      { "sign", "@R", "--key", "@K", "--again", "--bundles", "@B" },
      "sign",
      is_signed,
      false },
    { "import", run_from_elsewhere, { "import", "@A", "--bundles", "@B" }, "import", is_imported, false },
    { "prune",
      many_runs,
      { "prune", "--keep", "2", "--apply", "--author", "x", "--bundles", "@B" },
      "prune",
      is_pruned,
      true },
    { "reindex", two_runs, { "reindex", "--bundles", "@B" }, NULL, NULL, false },
    { "annotate",
      two_runs,
      { "annotate", "note", "@R", "--why", "the reason why", "--author", "x", "--bundles", "@B" },
      "note",
      is_noted,
      false },
    { "accept",
      two_runs,
      { "accept", "unit/sample/*", "--run", "@R", "--why", "the reason why", "--author", "x", "--bundles", "@B" },
      "accept",
      is_noted,
      false },
    { "checkpoint",
      checkpoint_before,
      { "checkpoint", "-o", "@W/checkpoint", "--sign", "@K", "--bundles", "@B" },
      "runs",
      checkpoint_holds,
      false },
    { "signoff",
      run_to_sign_off,
      { "signoff", "@P", "@R", "--unsigned", "--repository", "@G", "--bundles", "@B" },
      "met",
      is_signed_off,
      false },
};
const size_t KG_N_CRASH_SCENES = KG_COUNT_OF(KG_CRASH_SCENES);

bool kg_crash_place_open(struct kg_crash_place *p, const struct kg_crash_scene *scene, struct kg_record *rec) {
    struct kg_error err;
    *p = (struct kg_crash_place){ .dir = realpath(kg_scratch_dir(rec), NULL) };
    p->world = kg_path_join(p->dir, "world");
    p->suites = kg_path_join(p->dir, "suites");
    p->said = kg_path_join(p->dir, "said");
    EXPECT_OK(kg_dir_make(p->world, &err), err);
    EXPECT_OK(kg_dir_make(p->suites, &err), err);
    char *suite = kg_path_join(p->suites, "test_green");
    ck_assert_int_eq(symlink(kg_suites_path("harness/selftest/test_green"), suite), 0);
    free(suite);
    scene->prepare(p, rec);
    bool whole = true;
    for (size_t i = 0; i < KG_COUNT_OF(scene->args) && scene->args[i]; i++) {
        const char *arg = scene->args[i];
        whole = whole && (strcmp(arg, "@K") != 0 || p->key) && (strcmp(arg, "@A") != 0 || p->archive) &&
                (strcmp(arg, "@P") != 0 || p->sprint);
    }
    return whole;
}

void kg_crash_place_close(struct kg_crash_place *p) {
    for (size_t i = 0; i < p->n_sealed; i++) free(p->sealed[i]);
    char *const texts[] = { p->dir,     p->world,  p->suites,     p->said,    p->key,     p->run,
                            p->archive, p->sprint, p->repository, p->allowed, p->imported };
    for (size_t i = 0; i < KG_COUNT_OF(texts); i++) free(texts[i]);
    free(p->sealed);
    *p = (struct kg_crash_place){ 0 };
}

static char *expand(const struct kg_crash_place *p, const char *arg) {
    if (arg[0] != '@') return kg_xstrdup(arg);
    const char *value = NULL;
    switch (arg[1]) {
    case 'B': return kg_xasprintf("%s/bundles", p->world);
    case 'W': value = p->world; break;
    case 'S': value = p->suites; break;
    case 'K': value = p->key; break;
    case 'A': value = p->archive; break;
    case 'R': value = p->run; break;
    case 'P': value = p->sprint; break;
    default: value = p->repository;
    }
    ck_assert_ptr_nonnull(value);
    return kg_xasprintf("%s%s", value, arg + 2);
}

char **kg_crash_command(const struct kg_crash_place *p, const struct kg_crash_scene *scene) {
    char **argv = kg_xcalloc(KG_COUNT_OF(scene->args) + 2, sizeof *argv);
    argv[0] = kg_xstrdup(kg_program_path());
    for (size_t i = 0; i < KG_COUNT_OF(scene->args) && scene->args[i]; i++) argv[i + 1] = expand(p, scene->args[i]);
    return argv;
}

void kg_crash_command_free(char **argv) {
    for (size_t i = 0; argv[i]; i++) free(argv[i]);
    free(argv);
}
