/* .ci/gpu, which makes the bundles that figures come from: what it refuses, and what it asks of kigo. */
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include <check.h>
#include <kigo/status.h>
#include <string.h>

enum { PATIENCE_S = 300 };

/* What the shell says to a script whose $1 is .ci/gpu and whose $2 is a folder of the case's; it has to end so. */
static struct kg_process_result run_script(const struct kg_record *rec, const char *script, int exit_code) {
    const struct kg_process process = { .argv = ARGS("/bin/sh", "-c", script, "sh", kg_fixture_path("../.ci/gpu"),
                                                     kg_scratch_dir(rec)),
                                        .timeout_s = PATIENCE_S };
    struct kg_process_result r;
    struct kg_error err;
    kg_must(kg_process_run(&process, &r, &err), &err);
    ck_assert_msg(r.exit_code == exit_code, "exit code %d, not %d: %s%s", r.exit_code, exit_code, r.out, r.err);
    return r;
}

/* A changed tree is refused before anything is built, with the change; so is a folder that git does not know. */
static void wants_a_commit(struct kg_record *rec, const void *arg) {
    static const char MAKE[] = "set -e; cd \"$2\"; mkdir -p t/.ci; cp \"$1\" t/.ci/gpu; cd t; "
                               "export GIT_CEILING_DIRECTORIES=\"$(cd ..; pwd -P)\"; .ci/gpu && exit 90 || [ $? = 2 ]; "
                               "git init -q; git add .; git -c user.name=a -c user.email=a@b commit -qm a; "
                               "echo more >>.ci/gpu; touch new; .ci/gpu";
    (void)arg;
    struct kg_process_result r = run_script(rec, MAKE, KG_EXIT_USAGE);
    ck_assert_msg(strstr(r.err, "no commit to speak of") != NULL, "%s", r.err);
    ck_assert_msg(strstr(r.err, " M .ci/gpu\n?? new\n") != NULL, "%s", r.err);
    kg_process_result_free(&r);
}

/* What a runner asks of kigo, written down by a stand-in: attention with counters where they can be read, else without.
 * Nothing says that kernels were clean where compute-sanitizer did not run. */
static void asks_kigo(struct kg_record *rec, const void *arg) {
    static const char ASK[] =
        "set -e; unset KIGO_CHECK_FLAGS; cd \"$2\"; export TMPDIR=$PWD ASKED=$PWD/asked "
        "GITHUB_STEP_SUMMARY=$PWD/summary; "
        "printf '#!/bin/sh\\necho \"$*\" >>\"$ASKED\"\\ncase $* in *--ncu\\\\ *) exit $COUNTS;; esac\\n' >stand-in; "
        "chmod 700 stand-in; for COUNTS in 0 2; do export COUNTS; KIGO=$PWD/stand-in \"$1\" --dirty --like '' --out "
        "\"$PWD/out\"; done; "
        "echo apart >>asked; KIGO=$PWD/stand-in \"$1\" --dirty --only 'sanitizer attention' --out \"$PWD/out\" && exit "
        "91 "
        "|| [ $? = 5 ]; "
        "KIGO=$PWD/stand-in \"$1\" --dirty --only sdpa && exit 90; "
        "KIGO=$PWD/stand-in \"$1\" --dirty --models llama-3.1-8b && exit 92; "
        "echo beside >>asked; KIGO_LLAMA_BENCH=$PWD/stand-in KIGO=$PWD/stand-in \"$1\" --dirty --only models --models "
        "'llama-3.1-8b:q4_k_m / phi-3-mini:f16' --out \"$PWD/out\"; cat asked; KIGO_LLAMA_BENCH=$PWD/none "
        "KIGO=$PWD/stand-in \"$1\" --dirty --only models --models gpt2:f16 --out \"$PWD/out\"";
    static const char *const LINES[] = {
        "check --require-gpu --compress --bundles ",
        "bench --backend cuda --filter bench/[!s]* --filter bench/s[!d]* --compress --bundles ",
        "--filter bench/s[!d]* --ncu-filter bench/*fused/prefill_* --ncu-filter bench/linear/decode_qwen_*",
        "bench --backend cuda --filter bench/model/*[[]cuda,f16,model=* --filter bench/model/load[[]cuda,-,model=*",
        "bench --quick --backend cuda --filter sdpa/scalar*f16*S=48* --ncu --bundles ",
        "bench --backend cuda --filter sdpa* --peer --ncu-filter sdpa/auto* --ncu-filter sdpa/*",
        "bench --backend cuda --filter sdpa* --peer --compress --bundles ",
        "bench --report fp16 --compress --bundles ",
        "signoff fp16 --figures --markdown --bundles ",
    };
    (void)arg;
    struct kg_process_result r = run_script(rec, ASK, 0);
    for (size_t i = 0; i < KG_COUNT_OF(LINES); i++)
        ck_assert_msg(strstr(r.out, LINES[i]) != NULL, "no '%s' in:\n%s", LINES[i], r.out);
    const char *apart = strstr(r.out, "\napart\n");
    ck_assert_ptr_nonnull(apart);
    ck_assert_msg(strstr(apart, "--filter sdpa* --peer") && !strstr(apart, "check ") && !strstr(apart, "report"),
                  "parts: %s", apart);
    ck_assert_ptr_nonnull(strstr(r.err, "no part 'sdpa'"));
    ck_assert_ptr_nonnull(strstr(r.err, "'llama-3.1-8b' is no SHAPE:TYPE"));
    ck_assert_ptr_nonnull(strstr(r.err, "/none cannot be run, so no llama.cpp stands beside"));
    const char *beside = strstr(apart, "\nbeside\nsynth --like llama-3.1-8b --type q4_k_m -o ");
    ck_assert_msg(beside != NULL, "models: %s", apart);
    ck_assert_ptr_nonnull(beside = strstr(beside, "--peer --filter bench/model_peer/*model=* --model "));
    ck_assert_ptr_nonnull(beside = strstr(beside, "\nsynth --like phi-3-mini --type f16 --arch llama -o "));
    ck_assert_ptr_nonnull(beside = strstr(beside, "--peer --filter bench/model_peer/*model=* --model "));
    ck_assert_ptr_null(strstr(beside, "llama-3.1-8b-q4_k_m.gguf")); /* the run before had it */
    ck_assert_ptr_nonnull(strstr(r.err, "the hardware counters cannot be read"));
    ck_assert_ptr_nonnull(strstr(r.err, "the GPU cases did not run under compute-sanitizer"));
    kg_process_result_free(&r);
}

#define CASE(function)                                                                                                 \
    {                                                                                                                  \
        .layer = "integration", .op = "gpu_runner", .name = #function, .source_tree = true, .timeout_s = PATIENCE_S,   \
        .run = function                                                                                                \
    }

static const struct kg_case CASES[] = { CASE(wants_a_commit), CASE(asks_kigo) };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
