#include "cli/rebuild.h"
#include "base/file.h"
#include "base/program.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/git.h"
#include "bundle/records.h"
#include "cli/long_write.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH_BYTES = 4096 };

static bool all_of(const char *text, const char *chars) {
    return strspn(text, chars) == strlen(text);
}

#define WORD_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+."

/* Flags that neither name a file nor load one. */
static bool flags_ok(const char *flags) {
    static const char *const BEGINNINGS[] = { "-O", "-g", "-march=", "-mtune=", "-W", "-fno-", "-fsanitize", "-fopt" };
    if (!all_of(flags, WORD_CHARS "= ")) return false;
    for (const char *at = flags; *at;) {
        const size_t len = strcspn(at, " ");
        bool good = len == 0;
        for (size_t i = 0; i < KG_COUNT_OF(BEGINNINGS) && !good; i++)
            good = strncmp(at, BEGINNINGS[i], strlen(BEGINNINGS[i])) == 0;
        /* -Wl,... cannot be: no comma is among the characters */
        if (!good) return false;
        at += len + (at[len] == ' ');
    }
    return true;
}

static bool switch_ok(const char *value) {
    return strcmp(value, "yes") == 0 || strcmp(value, "no") == 0 || strcmp(value, "auto") == 0;
}

static bool features_ok(const char *value) {
    return all_of(value, WORD_CHARS);
}

static bool compiler_ok(const char *value) {
    static const char *const KNOWN[] = { "gcc", "clang", "ccache gcc", "ccache clang" };
    for (size_t i = 0; i < KG_COUNT_OF(KNOWN); i++)
        if (strcmp(value, KNOWN[i]) == 0) return true;
    return false;
}

static bool archs_ok(const char *value) {
    return all_of(value, "0123456789af ");
}

static bool argument_ok(const char *arg) {
    static const struct {
        const char *beginning;
        bool (*rest_ok)(const char *rest);
    } KNOWN[] = {
        { "--enable-", features_ok },  { "--disable-", features_ok },       { "--without-cuda", features_ok },
        { "--with-cuda=", switch_ok }, { "--with-libarchive=", switch_ok }, { "CC=", compiler_ok },
        { "CFLAGS=", flags_ok },       { "CUDA_ARCHS=", archs_ok },
    };
    for (size_t i = 0; i < KG_COUNT_OF(KNOWN); i++) {
        const size_t len = strlen(KNOWN[i].beginning);
        if (strncmp(arg, KNOWN[i].beginning, len) == 0) return KNOWN[i].rest_ok(arg + len);
    }
    return false;
}

/* The next argument, malloc'ed, *at behind it; NULL at the end. */
static char *next_argument(const char **at) {
    struct kg_buffer arg = KG_BUFFER_INIT;
    bool quoted = false, begun = false;
    while (**at == ' ') (*at)++;
    for (; **at && (quoted || **at != ' '); (*at)++, begun = true) {
        if (**at == '\'') quoted = !quoted;
        else if (**at == '\\' && !quoted && (*at)[1]) kg_buffer_append(&arg, ++*at, 1);
        else kg_buffer_append(&arg, *at, 1);
    }
    return begun ? (arg.data ? arg.data : kg_xstrdup("")) : NULL;
}

char **kg_rebuild_args(const char *configure, struct kg_buffer *left_out) {
    char **args = kg_xcalloc(1, sizeof *args), *arg;
    size_t n = 0;
    while ((arg = next_argument(&configure))) {
        if (!argument_ok(arg)) {
            kg_buffer_printf(left_out, "%s%s", left_out->len ? " " : "", arg);
            free(arg);
            continue;
        }
        args = kg_xrealloc(args, (n + 2) * sizeof *args);
        args[n++] = arg;
        args[n] = NULL;
    }
    return args;
}

/* Runs a tool in the clone; its output is in <dir>/<log>.log. */
static enum kg_status run_tool(const char *dir, const char *log, const char *const *argv, struct kg_error *err) {
    enum { MAX_LOG_BYTES = 16 << 20 };
    /* cd, exec: the directory is changed in the child without a shell that reads any argument */
    const char *all[128] = { "env", "-C", dir };
    size_t n = 3;
    for (size_t i = 0; argv[i] && n + 1 < KG_COUNT_OF(all); i++) all[n++] = argv[i];
    const struct kg_program program = { .argv = all, .max_out_bytes = MAX_LOG_BYTES, .cancelled = kg_cli_cancelled };
    struct kg_program_result result;
    enum kg_status status = kg_program_run(&program, &result, err);
    char *path = kg_xasprintf("%s/%s.log", dir, log);
    if (status == KG_OK) status = kg_file_write(path, kg_buffer_text(&result.out), result.out.len, err);
    if (status == KG_OK && result.exit_code != 0) {
        char *why = kg_program_complaint(&result);
        status = kg_fail(err, KG_ERR_INCOMPLETE, "the commit cannot be built: %s ended with code %d: %.500s", argv[0],
                         result.exit_code, why);
        free(why);
    }
    free(path);
    kg_program_result_free(&result);
    return status;
}

/* The folder of the repository's objects, which is what git clones: `place` may be any folder of a work tree (that of
 * the bundles, say). malloc'ed. */
static enum kg_status find_objects(const char *place, char **objects, struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    const char *const args[] = { "rev-parse", "--git-common-dir", NULL }; /* absolute, or relative to `place` */
    enum kg_status status = kg_git(place, args, MAX_PATH_BYTES, &out, NULL, err);
    if (status == KG_OK) {
        const char *line = kg_buffer_text(&out);
        char *path = kg_xasprintf("%s%s%.*s", *line == '/' ? "" : place, *line == '/' ? "" : "/",
                                  (int)strcspn(line, "\n"), line);
        *objects = realpath(path, NULL);
        if (!*objects) status = kg_fail(err, KG_ERR_NOT_FOUND, "repository %s: %s", path, strerror(errno));
        free(path);
    }
    kg_buffer_free(&out);
    return status;
}

/* A clone that shares the repository's objects and leaves no trace in it. */
static enum kg_status check_out(const char *repository, const char *commit, const char *dir, struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    char *objects = NULL;
    enum kg_status status = find_objects(repository, &objects, err);
    if (status == KG_OK)
        status = kg_git(".", (const char *const[]){ "clone", "-q", "--shared", "--no-checkout", objects, dir, NULL },
                        MAX_PATH_BYTES, &out, NULL, err);
    if (status == KG_OK)
        status = kg_git(dir, (const char *const[]){ "checkout", "-q", "--detach", commit, NULL }, MAX_PATH_BYTES, &out,
                        NULL, err);
    if (status == KG_ERR_UNSUPPORTED) status = KG_ERR_NOT_FOUND;
    kg_buffer_free(&out);
    free(objects);
    return status;
}

static enum kg_status build_all(const char *dir, const json_t *build, struct kg_buffer *left_out,
                                struct kg_error *err) {
    const char *configure = kg_json_text(build, "configure");
    char **args = kg_rebuild_args(configure ? configure : "", left_out);
    const char *argv[100] = { "./configure", "-q" };
    size_t n = 2;
    for (size_t i = 0; args[i] && n + 1 < KG_COUNT_OF(argv); i++) argv[n++] = args[i];
    char *jobs = kg_xasprintf("-j%ld", sysconf(_SC_NPROCESSORS_ONLN));
    enum kg_status status = run_tool(dir, "autoreconf", (const char *const[]){ "autoreconf", "-fi", NULL }, err);
    if (status == KG_OK) status = run_tool(dir, "configure", argv, err);
    if (status == KG_OK)
        status = run_tool(dir, "make", (const char *const[]){ "make", "-s", jobs, "check", "TESTS=", NULL }, err);
    free(jobs);
    for (size_t i = 0; args[i]; i++) free(args[i]);
    free(args);
    return status;
}

enum kg_status kg_rebuild(const char *repository, const char *commit, const json_t *build, struct kg_rebuild *rebuild,
                          struct kg_error *err) {
    const char *parent = getenv("TMPDIR");
    *rebuild = (struct kg_rebuild){ .left_out = KG_BUFFER_INIT };
    if (strlen(commit) < 40 || !all_of(commit, "0123456789abcdef"))
        return kg_fail(err, KG_ERR_FORMAT, "'%.80s' is no commit's id", commit);
    kg_cli_end_on_signals();
    rebuild->dir = kg_path_join(parent && *parent ? parent : "/tmp", "kigo-rebuild-XXXXXX");
    if (!mkdtemp(rebuild->dir)) {
        free(rebuild->dir);
        rebuild->dir = NULL;
        return kg_fail(err, KG_ERR_IO, "cannot make a folder for the build: %s", strerror(errno));
    }
    char *tree = kg_path_join(rebuild->dir, "kigo");
    enum kg_status status = check_out(repository, commit, tree, err);
    if (status == KG_OK) status = build_all(tree, build, &rebuild->left_out, err);
    if (status == KG_OK) rebuild->program = kg_path_join(tree, "kigo");
    free(tree);
    return status;
}

void kg_rebuild_free(struct kg_rebuild *rebuild) {
    struct kg_error unheard;
    if (rebuild->dir && kg_path_remove(rebuild->dir, &unheard) != KG_OK) kg_say(stderr, "kigo: %s\n", unheard.message);
    free(rebuild->dir);
    free(rebuild->program);
    kg_buffer_free(&rebuild->left_out);
    *rebuild = (struct kg_rebuild){ 0 };
}
