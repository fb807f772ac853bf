/* The two scripts behind `./bootstrap demo`, with stand-ins for the programs they call: what a newcomer's machine
 * builds and runs depends on whether it has a GPU. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void write_script(const char *dir, const char *name, const char *body) {
    char *path = kg_path_join(dir, name), *text = kg_xasprintf("#!/bin/sh\n%s\n", body);
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
    ck_assert_int_eq(chmod(path, 0755), 0);
    free(text);
    free(path);
}

static void run_script(const char *dir, const char *const *argv, const char *env, struct kg_process_result *r) {
    char *path = kg_xasprintf("PATH=%s:/usr/local/bin:/usr/bin:/bin", dir);
    const char *all[] = { path, env, NULL };
    const struct kg_process process = { .argv = argv, .env = all };
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, r, &err), err);
    free(path);
}

static void demo_runs_a_sample_only_without_a_gpu(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const struct {
        const char *devices;
        bool sample;
    } ROWS[] = { { "{\"gpus\": []}", true }, { "{\"gpus\": [{\"name\": \"H200\"}]}", false } };
    const char *dir = kg_scratch_dir(rec);
    char *kigo = kg_path_join(dir, "kigo");
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *body = kg_xasprintf("[ \"$1\" != devices ] || echo '%s'; [ \"$1\" != check ] || exit 1", ROWS[i].devices);
        write_script(dir, "kigo", body);
        const char *const argv[] = { "/bin/bash", kg_fixture_path("../build-aux/demo"), kigo, "model.gguf", NULL };
        struct kg_process_result r;
        run_script(dir, argv, NULL, &r);
        ck_assert_msg((strstr(r.out, "$ kigo check") != NULL), "%s%s", r.out, r.err);
        ck_assert_msg((strstr(r.out, " --sample 4\n") != NULL) == ROWS[i].sample, "%s%s", r.out, r.err);
        ck_assert_msg((strstr(r.out, "no GPU") != NULL) == ROWS[i].sample, "%s", r.out);
        ck_assert_msg(strstr(r.out, "kigo regress latest") != NULL, "%s", r.out);
        ck_assert_int_eq(r.exit_code, 1); /* of kigo check, after the questions */
        kg_process_result_free(&r);
        free(body);
    }
    free(kigo);
}

struct call {
    const char *configured; /* how the tree was configured before; NULL: not yet */
    const char *flags;      /* CONFIGURE_FLAGS */
    bool gpu;
    const char *make; /* argument */
    const char *want; /* what configure is called with; NULL: it is not called */
};
static const struct call CALLS[] = {
    { NULL, "", false, "demo", "--with-cuda=no KIGO_BUILT_FOR=demo" },
    { NULL, "", true, "demo", "" },
    { NULL, "", false, "check", "" },
    { NULL, "--with-cuda=yes", false, "demo", "--with-cuda=yes" },
    { NULL, "--enable-asan", false, "demo", "--with-cuda=no KIGO_BUILT_FOR=demo --enable-asan" },
    { "--with-cuda=no KIGO_BUILT_FOR=demo", "", false, "demo", NULL },
    { "--with-cuda=no KIGO_BUILT_FOR=demo", "", false, "check", "" },
    { "--with-cuda=no", "", false, "check", NULL },
    { "--with-cuda=no", "", false, "demo", NULL },
};

static void bootstrap_leaves_kernels_out_of_the_demo_without_a_gpu(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const char *const NEEDS[] = { "gcc",       "make", "autoreconf", "automake",   "pkg-config",
                                         "git",       "xz",   "gnuplot",    "ssh-keygen", "chromium",
                                         "pdftotext", "zsh",  "fish",       "jq",         "python3" };
    char *dir = kg_xstrdup(kg_scratch_dir(rec)), *script = kg_path_join(dir, "bootstrap");
    char *makefile = kg_path_join(dir, "Makefile"), *status = kg_path_join(dir, "config.status");
    char *text;
    size_t len;
    struct kg_error err;
    EXPECT_OK(kg_file_read(kg_fixture_path("../bootstrap"), &text, &len, &err), err);
    EXPECT_OK(kg_file_write(script, text, len, &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(NEEDS); i++) write_script(dir, NEEDS[i], "exit 0");
    write_script(dir, "configure", "echo \"configured with <$*>\"");
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        const struct call *call = &CALLS[i];
        write_script(dir, "nvidia-smi", call->gpu ? "exit 0" : "exit 9");
        struct kg_error gone;
        if (kg_path_exists(makefile)) EXPECT_OK(kg_path_remove(makefile, &gone), gone);
        if (kg_path_exists(status)) EXPECT_OK(kg_path_remove(status, &gone), gone);
        if (call->configured) {
            char *prints = kg_xasprintf("echo \"'%s'\"", call->configured);
            EXPECT_OK(kg_file_write(makefile, "", 0, &err), err);
            write_script(dir, "config.status", prints);
            free(prints);
        }
        char *flags = kg_xasprintf("CONFIGURE_FLAGS=%s", call->flags);
        const char *const argv[] = { "/bin/bash", script, call->make, NULL };
        struct kg_process_result r;
        run_script(dir, argv, flags, &r);
        char *want = kg_xasprintf("configured with <%s>\n", call->want ? call->want : "");
        const bool called = strstr(r.out, "configured with") != NULL;
        ck_assert_msg(r.exit_code == 0 && called == (call->want != NULL) && (!called || strstr(r.out, want)),
                      "row %zu: exit %d: %s%s", i, r.exit_code, r.out, r.err);
        const bool says = call->want && strstr(call->want, "KIGO_BUILT_FOR");
        ck_assert_msg(call->configured || (strstr(r.out, "without CUDA kernels") != NULL) == says, "row %zu: %s", i,
                      r.out);
        free(want);
        kg_process_result_free(&r);
        free(flags);
    }
    free(text);
    free(status);
    free(makefile);
    free(script);
    free(dir);
}

/* Nothing is asked of the machine, and nothing is made, for help or for what is no option. */
static void bootstrap_answers_before_it_acts(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *words[3];
        int exit_code;
        const char *says;
    } ROWS[] = {
        { { "--help" }, 0, "usage: ./bootstrap" },
        { { "-h" }, 0, "usage: ./bootstrap" },
        { { "check", "--help" }, 0, "CONFIGURE_FLAGS" },
        { { "--prefix=/usr" }, 2, "unknown option '--prefix=/usr'" },
        { { "check", "--hlep" }, 2, "unknown option '--hlep'" },
    };
    const char *dir = kg_scratch_dir(rec);
    char *script = kg_path_join(dir, "bootstrap"), *text;
    size_t len;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_file_read(kg_fixture_path("../bootstrap"), &text, &len, &err), err);
    EXPECT_OK(kg_file_write(script, text, len, &err), err);
    write_script(dir, "make", "echo made >&2; exit 9");
    write_script(dir, "apt-get", "echo installed >&2; exit 9");
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const char *const argv[] = { "/bin/bash", script, ROWS[i].words[0], ROWS[i].words[1], NULL };
        struct kg_process_result r;
        run_script(dir, argv, "LC_ALL=C", &r);
        ck_assert_msg(r.exit_code == ROWS[i].exit_code && strstr(ROWS[i].exit_code ? r.err : r.out, ROWS[i].says),
                      "row %zu: exit %d: %s%s", i, r.exit_code, r.out, r.err);
        ck_assert_msg(!strstr(r.err, "made") && !strstr(r.err, "installed"), "row %zu: %s", i, r.err);
        kg_process_result_free(&r);
    }
    free(text);
    free(script);
}

#define DEMO(function)                                                                                                 \
    { .layer = "integration", .op = "demo", .name = #function, .source_tree = true, .run = function }

static const struct kg_case CASES[] = {
    DEMO(demo_runs_a_sample_only_without_a_gpu),
    DEMO(bootstrap_leaves_kernels_out_of_the_demo_without_a_gpu),
    DEMO(bootstrap_answers_before_it_acts),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
