/* What make install gives, as far as it is quick to see: an installed kigo finds its own parts and nobody else's, the
 * library serves C and C++, and shells complete what the verbs take. `make installcheck` has the rest. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/built_from.h"
#include "bundle/places.h"
#include "bundle/records.h"
#include "bundle/source_tree.h"
#include "src/bundle/build_info.h"
#include "suites/integration/copied_tree.h"
#include <check.h>
#include <kigo/status.h>
#include <stdlib.h>
#include <string.h>

#define COMMIT_ID "0123456789abcdef0123456789abcdef01234567"

/* A prefix with kigo, one suite program and no fixtures but their folder, inside a folder that looks like kigo's
 * sources. Hard links where the file system takes them, since a link would be followed to the build. */
static const char MAKE_PREFIX[] =
    "set -e; cd \"$3\"; mkdir -p src/include/kigo suites 'the prefix'; touch configure.ac src/include/kigo/status.h "
    "suites/check.tap\n"
    "cd 'the prefix'; mkdir -p ./" KG_PLACE_BIN " ./" KG_PLACE_SUITES "/unit ./" KG_PLACE_DATA "/fixtures elsewhere\n"
    "put() { ln \"$1\" \"$2\" 2>/dev/null || cp \"$1\" \"$2\"; }\n"
    "put \"$1\" ./" KG_PLACE_BIN "/kigo; put \"$2\" ./" KG_PLACE_SUITES "/unit/test_green\n";

struct prefix {
    char *dir, *record, *bundles;
};

static void open_prefix(struct prefix *p, struct kg_record *rec) {
    const char *dir = kg_scratch_dir(rec);
    kg_must_shell(MAKE_PREFIX,
                  (const char *const[]){ kg_program_path(), kg_suites_path("harness/selftest/test_green"), dir });
    p->dir = kg_path_join(dir, "the prefix");
    p->record = kg_path_join(p->dir, KG_PLACE_DATA);
    p->bundles = kg_path_join(p->dir, "bundles");
}

static void close_prefix(struct prefix *p) {
    free(p->dir);
    free(p->record);
    free(p->bundles);
}

/* source.json of one run of the installed kigo, and its dirty.diff (malloc'ed), from another folder and read-only. */
static json_t *installed_run(const struct prefix *p, char **diff) {
    char *said;
    const int exit_code = kg_shell("cd \"$1/elsewhere\"; chmod -R a-w ../" KG_PLACE_DATA " ../" KG_PLACE_SUITES "\n"
                                   "env -u KIGO_BUILT_FROM -u KIGO_PROGRAM -u KIGO_SUITES ../" KG_PLACE_BIN
                                   "/kigo check --quiet --filter 'unit/*' --bundles \"$2\"; code=$?\n"
                                   "chmod -R u+w ../" KG_PLACE_DATA " ../" KG_PLACE_SUITES "; exit $code\n",
                                   (const char *const[]){ p->dir, p->bundles, "" }, &said);
    ck_assert_msg(exit_code == KG_EXIT_OK, "exit code %d: %s", exit_code, said);
    free(said);
    kg_must_shell("mv \"$1\"/2* \"$1/run\"", (const char *const[]){ p->bundles, "", "" });
    char *run = kg_path_join(p->bundles, "run"), *path = kg_path_join(run, "data/dirty.diff");
    json_t *source;
    size_t len;
    struct kg_error err;
    ck_assert_msg(kg_bundle_read_json(run, "data/source.json", &source, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(kg_file_read(path, diff, &len, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(kg_path_remove(p->bundles, &err) == KG_OK, "%s", err.message);
    free(path);
    free(run);
    return source;
}

static void write_record(const struct prefix *p, const char *text) {
    char *path = kg_path_join(p->record, "source.json"), *diff = kg_path_join(p->record, "dirty.diff");
    struct kg_error err;
    ck_assert_msg(kg_file_write(path, text, strlen(text), &err) == KG_OK, "%s", err.message);
    ck_assert_msg(kg_file_write(diff, "-a\n+b\n", 6, &err) == KG_OK, "%s", err.message);
    free(diff);
    free(path);
}

/* The run is of what the programs were built from, as it was recorded when they were installed. */
static void run_names_what_was_built(struct kg_record *rec, const void *arg) {
    struct prefix p;
    char *diff, *record = kg_xasprintf("{\"version\": \"x\", \"content_sha256\": \"%s\", \"content_files\": 3,"
                                       " \"git\": {\"commit\": \"" COMMIT_ID "\", \"dirty\": true}}",
                                       kg_built_from());
    (void)arg;
    open_prefix(&p, rec);
    write_record(&p, record);
    json_t *source = installed_run(&p, &diff), *git = json_object_get(source, "git");
    ck_assert_str_eq(kg_json_text(git, "commit"), COMMIT_ID);
    ck_assert_int_eq(json_is_true(json_object_get(git, "dirty")), 1);
    ck_assert_str_eq(kg_json_text(source, "content_sha256"), kg_built_from());
    ck_assert_str_eq(diff, "-a\n+b\n");
    json_decref(source);
    free(diff);
    free(record);
    close_prefix(&p);
}

/* Where the record cannot be of these programs, the run says that, and never names the tree around the prefix. */
static void run_of_no_known_commit_says_so(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *record, *why; /* NULL: there is none */
    } ROWS[] = {
        { NULL, "no such file" },
        { "{\"version\": \"x\", \"content_sha256\": \"00\", \"git\": {\"commit\": \"" COMMIT_ID
          "\", \"dirty\": false}}",
          "other sources" },
        { "{\"version\": \"x\", \"content_sha256\": \"00\", \"git\": {\"commit\": \"abc\", \"dirty\": false}}",
          "no record" },
        { "{\"version\": \"x\", \"content_sha256\": \"00\", \"git\": {\"commit\": \"" COMMIT_ID "\"}}", "no record" },
        { "[1]", "source.json" },
    };
    struct prefix p;
    (void)arg;
    open_prefix(&p, rec);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *diff;
        if (ROWS[i].record) write_record(&p, ROWS[i].record);
        json_t *source = installed_run(&p, &diff);
        ck_assert(json_is_null(json_object_get(source, "git")));
        ck_assert_msg(strstr(kg_json_text(source, "git_why"), ROWS[i].why), "row %zu: %s", i,
                      kg_json_text(source, "git_why"));
        ck_assert_str_eq(kg_json_text(source, "content_sha256"), kg_built_from());
        ck_assert_str_eq(diff, "");
        json_decref(source);
        free(diff);
    }
    close_prefix(&p);
}

/* A build folder is none that was installed, wherever it lies and whatever it is called. */
static void places_of_a_build(struct kg_record *rec, const void *arg) {
    static const char *const PROGRAMS[] = { "kigo", "suites/unit/test_x", "suites/harness/selftest/test_x" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(PROGRAMS); i++) {
        char *build = kg_path_join(kg_scratch_dir(rec), KG_PLACE_BIN), *path = kg_path_join(build, PROGRAMS[i]);
        char *suites = kg_path_join(build, "suites"), *kigo = kg_path_join(build, "kigo");
        struct kg_places places = kg_places_of(path);
        ck_assert(!places.installed);
        ck_assert_str_eq(places.made, build);
        ck_assert_str_eq(places.suites, suites);
        ck_assert_str_eq(places.kigo, kigo);
        kg_places_free(&places);
        free(kigo);
        free(suites);
        free(path);
        free(build);
    }
}

/* Runs a shell's text over the tree and the build; fails the case unless it ends with 0, skips it with 77. */
static void build_shell(struct kg_record *rec, const char *text) {
    char *said;
    const int exit_code =
        kg_shell(text, (const char *const[]){ kg_source_tree(), kg_places()->made, kg_scratch_dir(rec) }, &said);
    if (exit_code == 77) kg_record_skip(rec, "%.*s", (int)strcspn(said, "\n"), said);
    else ck_assert_msg(exit_code == 0, "exit code %d: %.3000s", exit_code, said);
    free(said);
}

/* What make install records sources with takes two folders. */
static void recorder_is_for_two_folders(struct kg_record *rec, const void *arg) {
    (void)arg;
    build_shell(rec, "for folders in '' \"$3\" \"$3 $3 $3\"; do\n"
                     "    code=0; \"$2/src/bundle/record_source\" $folders 2>\"$3/why\" || code=$?\n"
                     "    cat \"$3/why\"; [ $code = 2 ] && grep -q '^usage' \"$3/why\" || exit 1\n"
                     "done\n"
                     "\"$2/src/bundle/record_source\" \"$3/nowhere\" \"$3\" 2>\"$3/why\" && exit 1\n"
                     "cat \"$3/why\"; grep -q '^record_source: .*nowhere' \"$3/why\"\n");
}

#define FIND_CXX                                                                                                       \
    "case '" KG_BUILD_CC "' in *clang*) cxx=clang++ ;; *) cxx=g++ ;; esac\n"                                           \
    "command -v $cxx >/dev/null || { echo \"there is no $cxx on this machine\"; exit 77; }\n"

/* Each header alone and all together, in the oldest C++ that has long long and in C; every function that they declare
 * has C's linkage and is in the library. */
static void headers_serve_c_and_cxx(struct kg_record *rec, const void *arg) {
    (void)arg;
    build_shell(
        rec, FIND_CXX
        "set -e; cd \"$1/src/include\"\n"
        "flags='-Wall -Wextra -Werror -pedantic-errors -I. -fsyntax-only'\n"
        "for header in kigo/*.h; do\n"
        "    echo \"#include <$header>\" | $cxx -x c++ -std=c++11 $flags -\n"
        "    echo \"#include <$header>\" | " KG_BUILD_CC " -x c -std=c99 $flags -\n"
        "done\n"
        "{ for header in kigo/*.h; do echo \"#include <$header>\"; done\n"
        "  echo '#define ADDRESS(f) (void *)&f,'\n"
        "  echo 'extern void *const all[]; void *const all[] = {'\n"
        "  sed -e 's,/\\*.*,,' -e '/^ \\*/d' -e '/^#/d' -e '/^static/d' -e '/^typedef/d' kigo/*.h | grep -o "
        "'\\<kg_[a-z0-9_]*(' |\n"
        "    sort -u | sed 's/\\(.*\\)(/ADDRESS(\\1)/'; echo '};'; } >\"$3/all.cc\"\n"
        "[ \"$(grep -c '^ADDRESS(' \"$3/all.cc\")\" -gt 60 ]\n"
        "$cxx -std=c++11 -I. -c \"$3/all.cc\" -o \"$3/all.o\"\n"
        "nm -u \"$3/all.o\" | awk '{ print $NF }' | sort >\"$3/wanted\"\n"
        "nm -g --defined-only \"$2/libkigo.a\" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >\"$3/has\"\n"
        "missing=$(comm -23 \"$3/wanted\" \"$3/has\" | grep -v '^__asan\\|^__ubsan' || :)\n"
        "[ -z \"$missing\" ] || { echo \"declared, and not in libkigo.a with C's linkage: $missing\"; exit 1; }\n");
}

/* No name of the library can meet one of its user's: kg_ and KG_, and the compiler's own. */
static void library_has_one_prefix(struct kg_record *rec, const void *arg) {
    (void)arg;
    build_shell(rec, "others=$(nm -g --defined-only \"$2/libkigo.a\" 2>/dev/null | awk 'NF == 3 { print $3 }' |\n"
                     "    grep -v '^kg_\\|^KG_\\|^_\\|^DW[.]ref[.]__' | head -n 20)\n"
                     "[ -z \"$others\" ] || { echo \"visible names without kigo's prefix: $others\"; exit 1; }\n"
                     "nm -g --defined-only \"$2/libkigo.a\" 2>/dev/null | grep -q ' kg_generate$'\n");
}

/* docs/generate.c with the line that pkg-config prints for kigo.pc, in C and in C++, says what kigo generate says. The
 * libraries that kigo needs may lie under another root, where the build's LDFLAGS name it; kigo does not. */
static void program_with_the_library(struct kg_record *rec, const void *arg) {
    (void)arg;
    build_shell(
        rec, FIND_CXX
        "set -e; mkdir -p \"$3/lib\" \"$3/include\"; cp -R \"$1/src/include/kigo\" \"$3/include\"\n"
        "ln -s \"$2/libkigo.a\" \"$3/lib\"; cp \"$1/docs/generate.c\" \"$3\"; cd \"$3\"\n"
        "unset PKG_CONFIG_SYSROOT_DIR; export PKG_CONFIG_PATH=\"$2/build-aux${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}\"\n"
        "flags=$(pkg-config --static --cflags --libs --define-variable=libdir=\"$3/lib\""
        " --define-variable=includedir=\"$3/include\" kigo)\n"
        "plain=$(pkg-config --cflags --libs --define-variable=libdir=\"$3/lib\""
        " --define-variable=includedir=\"$3/include\" kigo)\n" KG_BUILD_CC
        " -Wall -Wextra -Werror generate.c -o in_c ${LDFLAGS:-} $flags\n"
        "$cxx -Wall -Wextra -Werror -x c++ generate.c -x none -o in_cxx ${LDFLAGS:-} $plain\n"
        "model=$2/fixtures/unpacked/haiku-qwen2/haiku-qwen2-f16.gguf\n"
        "\"$2/kigo\" generate -m \"$model\" --backend cpu --temp 0 -n 12 -p 'The old pond' 2>/dev/null >wanted\n"
        "for program in in_c in_cxx; do\n"
        "    ./$program \"$model\" 'The old pond' >said; cat said wanted; cmp said wanted\n"
        "    ! ./$program 2>why; grep -q usage why\n"
        "done; [ \"$(wc -c <wanted)\" -gt 20 ]\n");
}

/* The long options that each verb's --help lists, a line "verb --option", in the order of the verbs; sorted in each. */
#define WANTED                                                                                                         \
    "for verb in $(\"$1\" --help | sed -n '/^commands:/,/^$/s/^  \\([a-z-]*\\) .*/\\1/p'); do\n"                       \
    "    \"$1\" $verb --help | sed -n '/^options:/,$s/^ *\\(-., \\)\\{0,1\\}\\(--[a-z-]*\\).*/\\2/p' | sort -u |\n"    \
    "        sed \"s/^/$verb /\"\n"                                                                                    \
    "done >wanted; [ \"$(wc -l <wanted)\" -gt 100 ]\n"

static const struct shell {
    const char *name, *text; /* "$1" is kigo; the script is in "script", what it completes goes to "got" */
} SHELLS[] = {
    { "bash", ". ./script\n"
              "for verb in $(cut -d' ' -f1 wanted | uniq); do\n"
              "    COMP_WORDS=(kigo $verb --) COMP_CWORD=2; _kigo || :\n"
              "    printf '%s\\n' \"${COMPREPLY[@]}\" | sort -u | sed \"s/^/$verb /\"\n"
              "done >got\n"
              "COMP_WORDS=(kigo che) COMP_CWORD=1; _kigo || :; [ \"${COMPREPLY[*]}\" = 'check checkpoint' ]\n"
              "COMP_WORDS=(kigo check --jobs '') COMP_CWORD=3; _kigo || :; [ \"${COMPREPLY[*]}\" = '' ]\n"
              "mkdir 'a folder'; touch 'a file'\n"
              "COMP_WORDS=(kigo check --bundles a) COMP_CWORD=3; _kigo || :; [ \"${COMPREPLY[*]}\" = 'a folder' ]\n"
              "COMP_WORDS=(kigo check -m a) COMP_CWORD=3; _kigo || :; [ \"${#COMPREPLY[@]}\" = 2 ]\n" },
    { "zsh", "compdef() { :; }; _arguments() { print -l -- \"$@\"; }; _describe() { print -l -- $verbs; }\n"
             ". ./script\n"
             "for verb in $(cut -d' ' -f1 wanted | uniq); do\n"
             "    words=(kigo $verb --); CURRENT=3\n"
             "    _kigo | grep -o '^[^[]*' | grep -o -- '--[a-z-]*$' | sort -u | sed \"s/^/$verb /\"\n"
             "done >got\n"
             "words=(kigo ''); CURRENT=2; _kigo | grep -q '^check:run'\n" },
    { "fish", "source script\n"
              "for verb in (cut -d' ' -f1 wanted | uniq)\n"
              "    complete -C\"kigo $verb --\" | cut -f1 | sort -u | sed \"s/^/$verb /\"\n"
              "end >got\n"
              "complete -C'kigo che' | cut -f1 | string join ' ' | grep -qx 'check checkpoint'; or exit 1\n" },
};

/* What is completed after each verb is what its --help lists. */
static void completes(struct kg_record *rec, const void *arg) {
    const struct shell *shell = arg;
    char *text =
        kg_xasprintf("command -v %s >/dev/null || { echo 'there is no %s on this machine'; exit 77; }\n"
                     "set -e; cd \"$3\"; export HOME=\"$3\" XDG_CONFIG_HOME=\"$3\" XDG_DATA_HOME=\"$3\"\n" WANTED
                     "\"$1\" help --completions %s >script; cat >test; %s ./test\n"
                     "LC_ALL=C; export LC_ALL; diff wanted got\n",
                     shell->name, shell->name, shell->name, shell->name);
    const char *const argv[] = { "/bin/sh", "-c", text, "sh", kg_program_path(), "", kg_scratch_dir(rec), NULL };
    char *script = kg_xasprintf("%s%s", strcmp(shell->name, "fish") == 0 ? "" : "set -e\n", shell->text);
    const struct kg_process process = { .argv = argv, .input = script, .input_len = strlen(script) };
    struct kg_process_result r;
    struct kg_error err;
    ck_assert_msg(kg_process_run(&process, &r, &err) == KG_OK, "%s", err.message);
    if (r.exit_code == 77) kg_record_skip(rec, "%.*s", (int)strcspn(r.out, "\n"), r.out);
    else ck_assert_msg(r.exit_code == 0, "exit code %d: %.2000s%.1000s", r.exit_code, r.out, r.err);
    kg_process_result_free(&r);
    free(script);
    free(text);
}

static void unknown_shell(struct kg_record *rec, const void *arg) {
    static const char *const SAID[][2] = { { "tcsh", "bash, zsh, fish" }, { NULL, "bash, zsh, fish" } };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(SAID); i++) {
        const struct kg_process process = { .argv = ARGS(kg_program_path(), "help", "--completions", SAID[i][0]) };
        struct kg_process_result r;
        struct kg_error err;
        ck_assert_msg(kg_process_run(&process, &r, &err) == KG_OK, "%s", err.message);
        ck_assert_int_eq(r.exit_code, KG_EXIT_USAGE);
        ck_assert_msg(strstr(r.err, SAID[i][1]), "%s", r.err);
        kg_process_result_free(&r);
    }
}

#define INSTALL(function, ...)                                                                                         \
    { .layer = "integration", .op = "install", .name = #function, .run = function, __VA_ARGS__ }

static const struct kg_case CASES[] = {
    INSTALL(run_names_what_was_built, .arg = NULL),
    INSTALL(run_of_no_known_commit_says_so, .arg = NULL),
    INSTALL(places_of_a_build, .arg = NULL),
    INSTALL(headers_serve_c_and_cxx, .source_tree = true),
    INSTALL(library_has_one_prefix, .source_tree = true),
    INSTALL(program_with_the_library, .source_tree = true),
    INSTALL(recorder_is_for_two_folders, .source_tree = true),
    INSTALL(unknown_shell, .arg = NULL),
    { .layer = "integration", .op = "install", .name = "bash_completes", .run = completes, .arg = &SHELLS[0] },
    { .layer = "integration", .op = "install", .name = "zsh_completes", .run = completes, .arg = &SHELLS[1] },
    { .layer = "integration", .op = "install", .name = "fish_completes", .run = completes, .arg = &SHELLS[2] },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
