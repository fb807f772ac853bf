/* What must hold after a crash. Complaints are texts, so that one bad moment does not hide the others. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "bundle/beside.h"
#include "bundle/sign.h"
#include "suites/harness/process.h"
#include "suites/integration/crash_scenes.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* Complains unless `kigo ARGS` ends with 0. *out (may be NULL): what it printed, the caller's. */
static char *kigo(const char *const *args, char **out) {
    enum { MOST_ARGS = 16 };
    const char *argv[MOST_ARGS + 2] = { kg_program_path() };
    struct kg_process_result result;
    struct kg_error err;
    char *complaint = NULL;
    for (size_t i = 0; i < MOST_ARGS && args[i]; i++) argv[i + 1] = args[i];
    const struct kg_process process = { .argv = argv };
    EXPECT_OK(kg_process_run(&process, &result, &err), err);
    if (result.exit_code != 0)
        complaint =
            kg_xasprintf("kigo %s ends with %d: %.600s%.600s", args[0], result.exit_code, result.out, result.err);
    if (out) *out = kg_xstrdup(result.out);
    kg_process_result_free(&result);
    return complaint;
}

static char *sealed_is_there(const char *bundles, const char *sealed, bool prunes) {
    const size_t len = strcspn(sealed, " ");
    char hex[KG_SHA256_HEX_SIZE] = "", *complaint = NULL;
    char *tags = kg_xasprintf("%s/%.*s/tagmanifest-sha256.txt", bundles, (int)len, sealed);
    char *tombstone = kg_xasprintf("%s/tombstones/%.*s.json", bundles, (int)len, sealed);
    const bool there = kg_sha256_file(tags, hex, NULL) == KG_OK;
    if (!(prunes && !there && kg_path_exists(tombstone)) &&
        (!there || (sealed[len] && strcmp(hex, sealed + len + 1) != 0)))
        complaint = kg_xasprintf("the sealed bundle %s is %s", sealed, there ? "another" : "lost");
    free(tombstone);
    free(tags);
    return complaint;
}

/* "bundle <path> (<verdict>)": the run was reported as sealed. */
static char *reported_is_there(const char *bundles, const char *said) {
    const char *line = strstr(said, "\nbundle "), *end = line ? strstr(line, " (") : NULL;
    if (!end) return NULL;
    while (end > line && end[-1] != '/') end--;
    char *id = kg_xstrndup(end, strcspn(end, " ")), *complaint = sealed_is_there(bundles, id, false);
    free(id);
    return complaint;
}

/* Every line of `results` is in a bundle. */
static char *results_are_there(const char *bundles, const char *results) {
    struct kg_dir_list ids;
    struct kg_buffer all = KG_BUFFER_INIT;
    char *complaint = NULL;
    if (!*results || kg_root_list(bundles, &ids, NULL) != KG_OK) return NULL;
    for (size_t i = 0; i < ids.n_names; i++) {
        char *path = kg_xasprintf("%s/%s/data/results.ndjson", bundles, ids.names[i]), *text = NULL;
        size_t size_bytes;
        if (kg_file_read(path, &text, &size_bytes, NULL) == KG_OK) kg_buffer_append(&all, text, size_bytes);
        free(text);
        free(path);
    }
    for (const char *line = results, *end; !complaint && (end = strchr(line, '\n')); line = end + 1) {
        char *one = kg_xstrndup(line, (size_t)(end - line) + 1);
        if (!strstr(kg_buffer_text(&all), one)) complaint = kg_xasprintf("a result is lost: %.200s", one);
        free(one);
    }
    kg_buffer_free(&all);
    kg_dir_list_free(&ids);
    return complaint;
}

static char *none_unfinished(const char *bundles) {
    struct kg_dir_list list = { 0 };
    char *complaint = NULL;
    if (kg_dir_list(bundles, &list, NULL) != KG_OK) return NULL;
    for (size_t i = 0; i < list.n_names && !complaint; i++)
        if (strncmp(list.names[i], ".tmp-", 5) == 0) complaint = kg_xasprintf("%s is left", list.names[i]);
    kg_dir_list_free(&list);
    return complaint;
}

static char *every_bundle_is_listed(const char *bundles) {
    struct kg_dir_list ids = { 0 };
    char *out = NULL, *complaint = kigo(ARGS("list", "--json", "--bundles", bundles), &out);
    ck_assert_int_eq(kg_root_list(bundles, &ids, NULL), KG_OK);
    for (size_t i = 0; i < ids.n_names && !complaint; i++)
        if (!strstr(out, ids.names[i])) complaint = kg_xasprintf("list does not know %s", ids.names[i]);
    kg_dir_list_free(&ids);
    free(out);
    return complaint;
}

static char *seals_another(const char *bundles) {
    static const char *const PASS[] = { "pass" };
    struct kg_bundle_summary summary;
    struct kg_error err;
    if (kg_maker_write(bundles, PASS, 1, &summary, &err) == KG_OK) return NULL;
    return kg_xasprintf("no run can be sealed: %s", err.message);
}

/* A run that died between its tag manifest and its signature is published without: verify says so until it is signed.
 */
static char *sign_unsigned(const struct kg_crash_place *place, const char *bundles) {
    struct kg_dir_list ids = { 0 };
    char *complaint = NULL;
    if (!place->key || kg_root_list(bundles, &ids, NULL) != KG_OK) return NULL;
    for (size_t i = 0; i < ids.n_names && !complaint; i++) {
        char *dir = kg_path_join(bundles, ids.names[i]), *signature = kg_path_join(dir, "tagmanifest-sha256.txt.sig");
        if (kg_signature_was_required(dir) && !kg_path_exists(signature))
            complaint = kigo(ARGS("sign", ids.names[i], "--key", place->key, "--bundles", bundles), NULL);
        free(signature);
        free(dir);
    }
    kg_dir_list_free(&ids);
    return complaint;
}

static char *all_verify(const char *bundles) {
    return kg_maker_count(bundles, "2") ? kigo(ARGS("verify", "--all", "--chain", "--bundles", bundles), NULL) : NULL;
}

/* Documents without their note in signoffs/ are no sign-off yet. */
static char *facts_are_read(const char *bundles) {
    char *pattern = kg_xasprintf("%s/signoffs/*.json", bundles), *complaint = NULL;
    glob_t found;
    if (glob(pattern, 0, NULL, &found) == 0) {
        globfree(&found);
        complaint = kigo(ARGS("verify", "--signoffs", "--bundles", bundles), NULL);
    }
    char *annotations = kg_path_join(bundles, "annotations");
    if (!complaint && kg_path_is_dir(annotations))
        complaint = kigo(ARGS("annotate", "list", "--bundles", bundles), NULL);
    free(annotations);
    free(pattern);
    return complaint;
}

char *kg_crash_complaint(const struct kg_crash_place *place, const struct kg_crash_scene *scene, const char *world,
                         const struct kg_crash_moment *moment) {
    char *bundles = kg_path_join(world, "bundles"), *complaint = NULL;
    const bool done = scene->done && strstr(moment->said, scene->done);
    if (!kg_path_is_dir(bundles)) { /* it had not come to making it */
        if (done || *moment->results) complaint = kg_xstrdup("the folder of bundles is lost");
        free(bundles);
        return complaint;
    }
    complaint = kigo(ARGS("list", "--bundles", bundles), NULL);
    if (!complaint && moment->run_first) complaint = seals_another(bundles);
    if (!complaint) complaint = kigo(ARGS("recover", "--bundles", bundles), NULL);
    for (size_t i = 0; i < place->n_sealed && !complaint; i++)
        complaint = sealed_is_there(bundles, place->sealed[i], scene->prunes);
    if (!complaint) complaint = reported_is_there(bundles, moment->said);
    if (!complaint) complaint = results_are_there(bundles, moment->results);
    if (!complaint) complaint = none_unfinished(bundles);
    if (!complaint && !done) complaint = sign_unsigned(place, bundles);
    if (!complaint) complaint = all_verify(bundles);
    if (!complaint) complaint = every_bundle_is_listed(bundles);
    if (!complaint) complaint = facts_are_read(bundles);
    if (!complaint && done && scene->after) complaint = scene->after(place, world, moment->said);
    free(bundles);
    return complaint;
}
