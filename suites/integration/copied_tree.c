#include "suites/integration/copied_tree.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/places.h"
#include "bundle/source_tree.h"
#include "suites/harness/must.h"
#include <check.h>
#include <stdlib.h>

int kg_shell(const char *text, const char *const words[3], char **said) {
    const struct kg_process process = { .argv = ARGS("/bin/sh", "-euc", text, "sh", words[0], words[1], words[2]) };
    struct kg_process_result r;
    struct kg_error err;
    kg_must(kg_process_run(&process, &r, &err), &err);
    const int exit_code = r.exit_code;
    if (said) *said = kg_xasprintf("%s%s", r.out, r.err);
    kg_process_result_free(&r);
    return exit_code;
}

void kg_must_shell(const char *text, const char *const words[3]) {
    char *said;
    const int exit_code = kg_shell(text, words, &said);
    ck_assert_msg(exit_code == 0, "exit code %d: %s", exit_code, said);
    free(said);
}

void kg_copied_tree_open(struct kg_copied_tree *c, const struct kg_record *rec, const char *layer,
                         const char *program) {
    const char *build = kg_places()->made;
    c->dir = kg_xstrdup(kg_scratch_dir(rec));
    c->tree = kg_path_join(c->dir, "tree");
    c->bundles = kg_path_join(c->tree, "proof-bundles");
    kg_must_shell(
        "mkdir \"$3\"; cut -c67- \"$2/src/bundle/built_from.inc.list\" >\"$3.list\"\n"
        "printf '%s\\n' configure.ac suites/check.tap >>\"$3.list\"\n"
        "tar -C \"$1\" -cf - -T \"$3.list\" | tar -C \"$3\" -xf -; chmod -R u+w \"$3\"; cp \"$2/kigo\" \"$3\"\n",
        (const char *const[]){ kg_source_tree(), build, c->tree });
    char *from = kg_xasprintf("%s/suites/harness/selftest/%s", build, program);
    char *to = kg_xasprintf("%s/suites/%s/%s", c->tree, layer, program);
    kg_must_shell("cp \"$1\" \"$2\"; printf '%s\\n' /kigo /proof-bundles \"/${2#\"$3\"/}\" >\"$3/.gitignore\"",
                  (const char *const[]){ from, to, c->tree });
    free(from);
    free(to);
}

void kg_copied_tree_close(struct kg_copied_tree *c) {
    free(c->dir);
    free(c->tree);
    free(c->bundles);
}

bool kg_copied_tree_commit(const struct kg_copied_tree *c, struct kg_record *rec, const char *subject) {
    if (kg_shell("command -v git", (const char *const[]){ "", "", "" }, NULL) != 0) {
        kg_record_skip(rec, "no git on this machine");
        return false;
    }
    kg_must_shell("cd \"$1\"; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; git init -q; git add .\n"
                  "git -c user.name=k -c user.email=k@localhost commit -q --date 2001-02-03T04:05:06Z -m \"$2\"\n",
                  (const char *const[]){ c->tree, subject, "" });
    return true;
}
