#include "cli/fresh_runs.h"
#include "base/file.h"
#include "base/program.h"
#include "base/say.h"
#include "bundle/internal.h"
#include "cli/long_write.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kg_status kg_fresh_open(const char *keep, struct kg_fresh_runs *runs, struct kg_error *err) {
    const char *parent = getenv("TMPDIR");
    kg_cli_end_on_signals();
    *runs = (struct kg_fresh_runs){ .temporary = !keep };
    if (keep) {
        runs->root = kg_xstrdup(keep);
        return kg_dir_make(keep, err);
    }
    runs->root = kg_path_join(parent && *parent ? parent : "/tmp", "kigo-runs-XXXXXX");
    return mkdtemp(runs->root) ? KG_OK : kg_fail(err, KG_ERR_IO, "cannot make a folder like %s", runs->root);
}

void kg_fresh_close(struct kg_fresh_runs *runs) {
    struct kg_error err;
    if (runs->temporary && kg_path_remove(runs->root, &err) != KG_OK) kg_say(stderr, "kigo: %s\n", err.message);
    free(runs->root);
    runs->root = NULL;
}

enum kg_status kg_fresh_program(const char *build, char **program, struct kg_error *err) {
    char *path = kg_path_is_dir(build) ? kg_path_join(build, "kigo") : kg_xstrdup(build);
    *program = access(path, X_OK) == 0 ? realpath(path, NULL) : NULL;
    const int code = errno;
    free(path);
    if (*program) return KG_OK;
    if (code == ENOENT) return kg_fail(err, KG_ERR_NOT_FOUND, "'%s' is no build: there is no program kigo", build);
    return kg_fail(err, code == EACCES || code == ENOTDIR ? KG_ERR_NOT_FOUND : KG_ERR_IO,
                   "'%s': its program kigo cannot be run: %s", build, strerror(code));
}

/* The bundles of a root, which are the names that lie in none of `before`. */
static char *new_bundle(const char *root, const struct kg_dir_list *before) {
    struct kg_dir_list now = { 0 };
    char *found = NULL;
    if (kg_dir_list(root, &now, NULL) != KG_OK) return NULL;
    for (size_t i = 0; i < now.n_names && !found; i++) {
        int64_t unused;
        bool known = !kg_bundle_id_parse(now.names[i], &unused);
        for (size_t k = 0; k < before->n_names && !known; k++) known = strcmp(now.names[i], before->names[k]) == 0;
        if (!known) found = kg_xstrdup(now.names[i]);
    }
    kg_dir_list_free(&now);
    return found;
}

enum kg_status kg_fresh_run(const struct kg_fresh_runs *runs, const char *program, const char *const *args, char **id,
                            struct kg_error *err) {
    static const char *const WITHOUT[] = { "KIGO_SUITES", "KIGO_BUNDLES", NULL }; /* each build runs its own suites */
    struct kg_dir_list before = { 0 };
    struct kg_program_result result = { 0 };
    size_t n_args = 0, n = 0;
    while (args[n_args]) n_args++;
    const char **argv = kg_xcalloc(n_args + 5, sizeof *argv);
    argv[n++] = program;
    for (size_t i = 0; i < n_args; i++) argv[n++] = args[i];
    argv[n++] = "--quiet";
    argv[n++] = "--bundles";
    argv[n++] = runs->root;
    const struct kg_program call = { .argv = argv, .without = WITHOUT, .cancelled = kg_cli_cancelled };
    enum kg_status status = kg_dir_list(runs->root, &before, err);
    if (status == KG_OK) status = kg_program_run(&call, &result, err);
    if (status == KG_OK) {
        *id = new_bundle(runs->root, &before);
        char *complaint = kg_program_complaint(&result);
        if (!*id)
            status = kg_fail(err, KG_ERR_INCOMPLETE, "%s %s published no bundle (exit code %d): %.600s", program,
                             args[0], result.exit_code, complaint);
        free(complaint);
    }
    kg_program_result_free(&result);
    kg_dir_list_free(&before);
    free(argv);
    return status;
}
