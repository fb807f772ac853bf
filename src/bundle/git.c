#include "bundle/git.h"
#include "base/program.h"
#include <stdlib.h>

enum kg_status kg_git_input(const char *dir, const char *const *args, const char *input_path, size_t max_bytes,
                            struct kg_buffer *out, bool *cut, struct kg_error *err) {
    /* safe.directory: the tree often belongs to another user in a CI container; fsmonitor: a program the tree could
     * name. */
    static const char *const FIRST[] = { "git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C" };
    static const char *const WITHOUT[] = { "GIT_", "LC_ALL=", NULL };
    static const char *const ENV[] = { "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", NULL };
    enum { N_FIRST = sizeof FIRST / sizeof *FIRST, MAX_ARGS = 12 };
    const char *argv[N_FIRST + 1 + MAX_ARGS + 1] = { NULL };
    size_t n = 0;
    for (; n < N_FIRST; n++) argv[n] = FIRST[n];
    argv[n++] = dir;
    for (size_t i = 0; i < MAX_ARGS && args[i]; i++) argv[n++] = args[i];

    const struct kg_program git = {
        .argv = argv, .without = WITHOUT, .env = ENV, .input_path = input_path, .max_out_bytes = max_bytes
    };
    struct kg_program_result result;
    enum kg_status status = kg_program_run(&git, &result, err);
    if (status == KG_OK) {
        kg_buffer_append(out, kg_buffer_text(&result.out), result.out.len);
        if (cut && result.cut) *cut = true;
        if (result.exit_code < 0) {
            status = kg_fail(err, KG_ERR_IO, "git %s in %s was ended by a signal", args[0], dir);
        } else if (result.exit_code != 0) {
            char *why = kg_program_complaint(&result);
            status = kg_fail(err, KG_ERR_UNSUPPORTED, "git %s in %s ended with code %d%s%s", args[0], dir,
                             result.exit_code, *why ? ": " : "", why);
            free(why);
        }
    }
    kg_program_result_free(&result);
    return status;
}

enum kg_status kg_git(const char *dir, const char *const *args, size_t max_bytes, struct kg_buffer *out, bool *cut,
                      struct kg_error *err) {
    return kg_git_input(dir, args, NULL, max_bytes, out, cut, err);
}
