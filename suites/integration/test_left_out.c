/* What was left out of a folder of bundles on purpose, as a repository commits only some: kigo verify --chain. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/left_out.h"
#include "bundle/source_tree.h"
#include "suites/harness/must.h"
#include "suites/integration/copied_tree.h"
#include "suites/integration/verbs.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A root of two bundles whose first is gone; "<its id> <hash of its tag manifest>", malloc'ed. */
static char *make_gap(const char *root) {
    char *first = kg_verb_seal(root), *tags = kg_path_join(first, "tagmanifest-sha256.txt"), sha256[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    free(kg_verb_seal(root));
    kg_must(kg_sha256_file(tags, sha256, &err), &err);
    kg_must(kg_path_remove(first, &err), &err);
    char *link = kg_xasprintf("%s %s", strrchr(first, '/') + 1, sha256);
    free(tags);
    free(first);
    return link;
}

static void write_list(const char *root, const char *text) {
    char *list = kg_path_join(root, KG_LEFT_OUT);
    struct kg_error err;
    kg_must(kg_file_write(list, text, strlen(text), &err), &err);
    free(list);
}

/* The bundle that is gone must be listed with its very tag manifest and a reason. */
static void lists(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *link = make_gap(root), *space = strchr(link, ' ');
    const struct {
        char *text;
        const char *finding; /* NULL: none, and the list's run is not missed */
    } rows[] = {
        { kg_xasprintf("# the first\n\n%s of no claim\n", link), NULL },
        { kg_xasprintf("# none\n"), "removed" },
        { kg_xasprintf("%s\n", link), "format" },
        { kg_xasprintf("%s \t\n", link), "format" },
        { kg_xasprintf("%.*s of no claim\n", (int)(space - link), link), "format" },
        { kg_xasprintf("%.*s %064d of no claim\n", (int)(space - link), link, 7), "replaced" },
    };
    (void)arg;
    kg_verb_refuses(root, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, link); /* what to write into the list */
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        write_list(root, rows[i].text);
        json_t *answer =
            kg_verb_json(root, ARGS("verify", "--chain"), rows[i].finding ? KG_EXIT_INTEGRITY : KG_EXIT_OK);
        const json_t *chain = json_object_get(answer, "chain");
        const json_t *finding = json_array_get(json_object_get(chain, "findings"), 0);
        ck_assert_int_eq(kg_verb_integer(chain, "n_left_out"), !rows[i].finding);
        ck_assert_int_eq(kg_verb_integer(chain, "n_links"), 1); /* .chain's */
        if (rows[i].finding) ck_assert_str_eq(json_string_value(json_object_get(finding, "what")), rows[i].finding);
        json_decref(answer);
        free(rows[i].text);
    }
    free(link);
}

static const char *left_out_signature(const json_t *answer) {
    const json_t *chain = json_object_get(answer, "chain");
    return json_string_value(json_object_get(json_object_get(chain, "left_out_signature"), "state"));
}

/* Who trusts nobody's word asks for a signature; one over other bytes, or for another purpose, is a finding in any
 * case. */
static void signed_list(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *keys = kg_path_join(root, "keys"), *key;
    struct kg_error err;
    (void)arg;
    kg_must(kg_dir_make(keys, &err), &err);
    if ((key = kg_verb_key(rec, keys, "ci"))) {
        static const char SIGN[] = "rm -f \"$2.sig\"; ssh-keygen -Y sign -q -f \"$1\" -n \"$3\" \"$2\"";
        char *allowed = kg_verb_allowed(keys, "allowed", "ci@example.org", key);
        char *bundles = kg_path_join(root, "bundles"), *list = kg_path_join(bundles, KG_LEFT_OUT), *link;
        kg_must(kg_dir_make(bundles, &err), &err);
        link = make_gap(bundles);
        char *text = kg_xasprintf("%s of no claim\n", link);
        write_list(bundles, text);
        const char *const ask[] = { "verify", "--chain", "--allowed-signers", allowed, "--require-signature", NULL };
        kg_verb_refuses(bundles, ask, KG_EXIT_INTEGRITY, "not signed");
        kg_must_shell(SIGN, (const char *const[]){ key, list, "kigo-bundle" });
        kg_verb_refuses(bundles, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "signature");
        kg_must_shell(SIGN, (const char *const[]){ key, list, "kigo-left-out" });
        json_t *answer = kg_verb_json(bundles, ask, KG_EXIT_OK);
        ck_assert_str_eq(left_out_signature(answer), "good");
        json_decref(answer);
        char *longer = kg_xasprintf("%s# and more\n", text);
        write_list(bundles, longer);
        kg_verb_refuses(bundles, ARGS("verify", "--chain"), KG_EXIT_INTEGRITY, "signature");
        free(longer);
        free(text);
        free(link);
        free(list);
        free(bundles);
        free(allowed);
        free(key);
    }
    free(keys);
}

/* This project's own: in a fresh clone, whatever else lies in this one's folder. */
static void committed_bundles(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec), *const words[] = { kg_source_tree(), root, "" };
    (void)arg;
    if (kg_shell("[ -e \"$1/.git\" ] && command -v git", words, NULL) != 0)
        return kg_record_skip(rec, "not in a git repository: the committed bundles are not here");
    kg_must_shell(
        "cd \"$1\"; git -c safe.directory='*' ls-files -z proof-bundles | tar -cf - --null -T - | tar -xf - -C \"$2\"",
        words);
    char *bundles = kg_path_join(root, "proof-bundles"), *said;
    kg_verb_expect(bundles, ARGS("verify", "--chain"), KG_EXIT_OK, &said);
    ck_assert_msg(strstr(said, "links hold"), "%s", said);
    free(said);
    free(bundles);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "left_out", .name = #function, .run = function }

static const struct kg_case CASES[] = { CASE(lists),
                                        CASE(signed_list),
                                        { .layer = "integration",
                                          .op = "left_out",
                                          .name = "committed_bundles",
                                          .source_tree = true,
                                          .run = committed_bundles } };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
