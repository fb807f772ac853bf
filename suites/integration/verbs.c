#include "suites/integration/verbs.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/program.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 16 };

/* Messages quote the first 2000 bytes of what kigo wrote: Check ends the program at a message over 8 KB. */

void kg_verb_run(const char *root, const char *const *args, bool json, struct kg_process_result *result) {
    const char *argv[MAX_ARGS + 5] = { kg_program_path() };
    size_t n = 1;
    for (size_t i = 0; i < MAX_ARGS && args[i]; i++) argv[n++] = args[i];
    argv[n++] = "--bundles";
    argv[n++] = root;
    if (json) argv[n++] = "--json";
    const struct kg_process process = { .argv = argv };
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, result, &err), err);
}

void kg_verb_expect(const char *root, const char *const *args, int exit_code, char **out) {
    struct kg_process_result result;
    kg_verb_run(root, args, false, &result);
    ck_assert_msg(result.exit_code == exit_code, "kigo %s ended with %d, not %d: %.2000s%.2000s", args[0],
                  result.exit_code, exit_code, result.out, result.err);
    if (exit_code == KG_EXIT_USAGE || exit_code == KG_EXIT_INCOMPLETE)
        ck_assert_msg(strncmp(result.err, "kigo ", 5) == 0, "kigo %s says nothing", args[0]);
    if (out) *out = kg_xstrdup(result.out);
    kg_process_result_free(&result);
}

json_t *kg_verb_json(const char *root, const char *const *args, int exit_code) {
    struct kg_process_result result;
    json_error_t error;
    kg_verb_run(root, args, true, &result);
    ck_assert_msg(result.exit_code == exit_code, "kigo %s ended with %d: %.2000s%.2000s", args[0], result.exit_code,
                  result.out, result.err);
    json_t *json = json_loads(result.out, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "kigo %s --json: %s in %.2000s", args[0], error.text, result.out);
    kg_process_result_free(&result);
    return json;
}

void kg_verb_refuses(const char *root, const char *const *args, int exit_code, const char *says) {
    struct kg_process_result result;
    kg_verb_run(root, args, false, &result);
    ck_assert_msg(result.exit_code == exit_code, "kigo %s ended with %d, not %d: %.2000s%.2000s", args[0],
                  result.exit_code, exit_code, result.out, result.err);
    ck_assert_msg(strstr(result.err, says) || strstr(result.out, says), "kigo %s does not say '%s': %.2000s%.2000s",
                  args[0], says, result.out, result.err);
    kg_process_result_free(&result);
}

int64_t kg_verb_integer(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    ck_assert_msg(json_is_integer(value), "no integer '%s'", name);
    return json_integer_value(value);
}

char *kg_verb_key(struct kg_record *rec, const char *dir, const char *name) {
    char *path = kg_path_join(dir, name);
    const char *const argv[] = { "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path, NULL };
    const struct kg_program program = { .argv = argv, .max_out_bytes = 4096 };
    struct kg_program_result result;
    struct kg_error err;
    const enum kg_status status = kg_program_run(&program, &result, &err);
    if (status == KG_OK) ck_assert_msg(result.exit_code == 0, "ssh-keygen: %s", kg_buffer_text(&result.errors));
    kg_program_result_free(&result);
    if (status == KG_OK) return path;
    kg_record_skip(rec, "%s", err.message);
    free(path);
    return NULL;
}

char *kg_verb_allowed(const char *dir, const char *name, const char *signer, const char *key) {
    char *public_path = kg_xasprintf("%s.pub", key), *path = kg_path_join(dir, name), *public_key;
    struct kg_buffer line = KG_BUFFER_INIT;
    size_t size_bytes;
    struct kg_error err;
    EXPECT_OK(kg_file_read(public_path, &public_key, &size_bytes, &err), err);
    kg_buffer_printf(&line, "%s %s", signer, public_key);
    EXPECT_OK(kg_file_write(path, line.data, line.len, &err), err);
    kg_buffer_free(&line);
    free(public_key);
    free(public_path);
    return path;
}

/* The id in <root>/.chain: the bundle that was sealed last. malloc'ed folder. */
static char *last_sealed(const char *root) {
    char *path = kg_path_join(root, ".chain"), *text;
    size_t size_bytes;
    struct kg_error err;
    EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
    char *dir = kg_xasprintf("%s/%.*s", root, (int)strcspn(text, " "), text);
    free(text);
    free(path);
    return dir;
}

char *kg_verb_seal(const char *root) {
    static const char *const PASS[] = { "pass" };
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_maker_write(root, PASS, 1, &summary, &err), err);
    return last_sealed(root);
}
