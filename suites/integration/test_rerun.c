/* kigo rerun: the same work again, and every way for it to come out otherwise. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/records.h"
#include "cli/rebuild.h"
#include "history/reproduce.h"
#include "suites/integration/check_lab.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static int64_t count(const json_t *answer, enum kg_reproduced outcome) {
    return kg_verb_integer(json_object_get(answer, "counts"), KG_REPRODUCED_NAMES[outcome]);
}

/* A lab whose only run was of these options. */
static char *first_run(struct kg_lab *lab, struct kg_record *rec, const char *const *args) {
    struct kg_process_result r;
    kg_lab_open(lab, rec);
    kg_lab_add(lab, "test_green", "test_green");
    kg_lab_check(lab, args, &r);
    kg_process_result_free(&r);
    return kg_lab_bundle(lab);
}

static void same_again(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    char *dir = first_run(&lab, rec, ARGS("--quiet", "--seed", "41")), *keep = kg_path_join(lab.dir, "again");
    json_t *answer =
        kg_verb_json(lab.bundles, ARGS("rerun", dir, "--here", "--suites", lab.suites, "--keep", keep), KG_EXIT_OK);
    const size_t n = json_array_size(json_object_get(answer, "cases"));
    ck_assert_uint_gt(n, 0);
    ck_assert_int_eq(count(answer, KG_SAME), (int64_t)n);
    ck_assert_uint_eq(json_array_size(json_object_get(answer, "surroundings")), 0);
    /* The new run has the old one's seed and options, lies in the folder asked for, and the old one's folder is as it
     * was. */
    const char *kept = kg_json_text(answer, "kept");
    json_t *env = NULL;
    struct kg_error err;
    EXPECT_OK(kg_bundle_read_json(kept, "data/env.json", &env, &err), err);
    ck_assert_str_eq(kg_json_text(json_object_get(env, "run"), "seed"), "41");
    kg_lab_expect_verified(kept);
    ck_assert_uint_eq(kg_lab_count(&lab, "2"), 1);
    kg_lab_expect_empty(lab.tmp);
    json_decref(env);
    json_decref(answer);
    free(keep);
    free(dir);
    kg_lab_close(&lab);
}

static void one_case(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    char *dir = first_run(&lab, rec, ARGS("--quiet"));
    json_t *plan = kg_lab_lines(dir, "plan.ndjson");
    const char *key = kg_json_text(json_array_get(plan, 0), "key");
    ck_assert_uint_gt(json_array_size(plan), 1);
    json_t *answer = kg_verb_json(lab.bundles, ARGS("rerun", dir, key, "--here", "--suites", lab.suites), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(json_object_get(answer, "cases")), 1);
    json_decref(answer);
    /* Whose programs run is not the bundle's to say: the folder of suites its command line names is not used. */
    kg_verb_refuses(lab.bundles, ARGS("rerun", dir, key, "--here"), KG_EXIT_INCOMPLETE,
                    "no suite program has the case");
    kg_verb_refuses(lab.bundles, ARGS("rerun", dir, "no/such/case", "--here"), KG_EXIT_USAGE, "no/such/case");
    json_decref(plan);
    free(dir);
    kg_lab_close(&lab);
}

/* The run's own choice of cases is the rerun's, too. */
static void choice_of_the_run(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    char *dir = first_run(&lab, rec, ARGS("--quiet", "--filter", "*unit/green/*")),
         *keep = kg_path_join(lab.dir, "again");
    json_t *answer =
        kg_verb_json(lab.bundles, ARGS("rerun", dir, "--here", "--suites", lab.suites, "--keep", keep), KG_EXIT_OK);
    json_t *plan = kg_lab_lines(dir, "plan.ndjson"), *again = kg_lab_lines(kg_json_text(answer, "kept"), "plan.ndjson");
    ck_assert(json_equal(plan, again));
    json_t *env = NULL;
    struct kg_error err;
    EXPECT_OK(kg_bundle_read_json(kg_json_text(answer, "kept"), "data/env.json", &env, &err), err);
    const json_t *filter = json_object_get(json_object_get(env, "run"), "filter");
    ck_assert_str_eq(json_string_value(json_array_get(filter, 0)), "*unit/green/*");
    json_decref(env);
    json_decref(again);
    json_decref(plan);
    json_decref(answer);
    free(keep);
    free(dir);
    kg_lab_close(&lab);
}

/* Changes of the first run's records, as if it had come out otherwise. */
static const struct otherwise {
    const char *name, *file, *from, *to;
    enum kg_reproduced outcome;
    int exit_code;
} OTHERWISE[] = {
    { "other_seed", "data/plan.ndjson", NULL, NULL, KG_OTHER_CASE, KG_EXIT_INCONCLUSIVE },
    { "other_figure", "data/results.ndjson", "\"metrics\":[",
      "\"metrics\":[{\"name\":\"x\",\"unit\":\"bytes\",\"value\":1}", KG_OTHER_FIGURE, KG_EXIT_FAILED },
    { "other_memory", "data/results.ndjson", "\"memory\":[",
      "\"memory\":[{\"tag\":\"kv\",\"peak_bytes\":1,\"left_bytes\":0}", KG_OTHER_FIGURE, KG_EXIT_FAILED },
};

static void came_out_otherwise(struct kg_record *rec, const void *arg) {
    const struct otherwise *row = arg;
    struct kg_lab lab;
    char *dir = first_run(&lab, rec, ARGS("--quiet"));
    json_t *plan = kg_lab_lines(dir, "plan.ndjson");
    if (row->from) {
        kg_maker_replace(dir, row->file, row->from, row->to);
    } else { /* plan, results and journal alike, so that the bundle is sound */
        const char *seed = kg_json_text(json_array_get(plan, 0), "seed");
        char *from = kg_xasprintf("\"seed\":\"%s\"", seed);
        kg_maker_replace(dir, "data/plan.ndjson", from, "\"seed\":\"1\"");
        kg_maker_replace(dir, "data/results.ndjson", from, "\"seed\":\"1\"");
        kg_maker_plan_again(dir);
        free(from);
    }
    kg_maker_rehash(dir);
    json_t *answer = kg_verb_json(lab.bundles, ARGS("rerun", dir, "--here", "--suites", lab.suites), row->exit_code);
    ck_assert_int_eq(count(answer, row->outcome), 1);
    json_decref(answer);
    json_decref(plan);
    free(dir);
    kg_lab_close(&lab);
}

/* Sizes have a person's unit, and all digits where the unit's four would show two values alike. */
static void differences_for_people(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    struct kg_process_result r;
    struct kg_error err;
    json_t *env = NULL;
    (void)arg;
    char *dir = first_run(&lab, rec, ARGS("--quiet"));
    EXPECT_OK(kg_bundle_read_json(dir, "data/env.json", &env, &err), err);
    const int64_t memory_bytes = kg_verb_integer(env, "memory_bytes");
    char *from = kg_xasprintf("\"memory_bytes\": %lld", (long long)memory_bytes);
    char *to = kg_xasprintf("\"memory_bytes\": %lld", (long long)memory_bytes + 1);
    char *around =
        kg_xasprintf("    env.memory_bytes: %lld -> %lld\n", (long long)memory_bytes + 1, (long long)memory_bytes);
    kg_maker_replace(dir, "data/env.json", from, to);
    kg_maker_replace(dir, "data/results.ndjson", "\"metrics\":[",
                     "\"metrics\":[{\"name\":\"x\",\"unit\":\"bytes\",\"value\":3221225472}");
    kg_maker_replace(dir, "data/results.ndjson", "\"memory\":[",
                     "\"memory\":[{\"tag\":\"kv\",\"peak_bytes\":12741300,\"left_bytes\":0}");
    kg_maker_rehash(dir);
    kg_verb_run(lab.bundles, ARGS("rerun", dir, "--here", "--suites", lab.suites), false, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_FAILED);
    const char *const lines[] = { "    metrics x: 3 GiB -> none\n", "    memory kv: peak 12.15 MiB, left 0 B -> none\n",
                                  around };
    for (size_t i = 0; i < KG_COUNT_OF(lines); i++)
        ck_assert_msg(strstr(r.out, lines[i]) != NULL, "no '%s' in %s", lines[i], r.out);
    kg_process_result_free(&r);
    json_decref(env);
    free(around);
    free(to);
    free(from);
    free(dir);
    kg_lab_close(&lab);
}

/* A run whose record names no filter ran every bench beside the models', which -m alone does not. */
static void every_bench_of_a_run_with_a_model(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "bench_beside", "bench_beside");
    struct kg_process_result r;
    kg_verb_run(lab.bundles, ARGS("bench", "--quiet", "--suites", lab.suites), false, &r);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "%s%s", r.out, r.err);
    kg_process_result_free(&r);
    char *dir = kg_lab_bundle(&lab);
    char *with = kg_xasprintf("\"bench\", \"-m\", \"%s\",", kg_fixture_path("haiku-qwen2/haiku-qwen2-f16.gguf"));
    kg_maker_replace(dir, "data/env.json", "\"bench\",", with);
    kg_maker_replace(dir, "data/env.json", "\"models\": []", "\"models\": [\"haiku-qwen2-f16.gguf\"]");
    kg_maker_rehash(dir);
    json_t *answer = kg_verb_json(lab.bundles, ARGS("rerun", dir, "--here", "--suites", lab.suites), KG_EXIT_OK);
    ck_assert_int_eq(count(answer, KG_SAME), 4); /* all but those of peers */
    ck_assert_uint_eq(json_array_size(json_object_get(answer, "cases")), 4);
    json_decref(answer);
    free(with);
    free(dir);
    kg_lab_close(&lab);
}

static void what_is_different_around(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    char *dir = first_run(&lab, rec, ARGS("--quiet"));
    kg_maker_replace(dir, "data/env.json", "\"os\": \"", "\"os\": \"Other ");
    kg_maker_rehash(dir);
    json_t *answer = kg_verb_json(lab.bundles, ARGS("rerun", dir, "--here", "--suites", lab.suites), KG_EXIT_OK);
    const json_t *around = json_object_get(answer, "surroundings");
    ck_assert_uint_eq(json_array_size(around), 1);
    ck_assert_str_eq(kg_json_text(json_array_get(around, 0), "what"), "env.os");
    json_decref(answer);
    free(dir);
    kg_lab_close(&lab);
}

static void refused(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    char *dir = first_run(&lab, rec, ARGS("--quiet")), *made = kg_maker_sealed(lab.tmp, 1);
    kg_verb_refuses(lab.bundles, ARGS("rerun"), KG_EXIT_USAGE, "usage");
    kg_verb_refuses(lab.bundles, ARGS("rerun", "1999"), KG_EXIT_USAGE, "1999");
    kg_verb_refuses(lab.bundles, ARGS("rerun", dir, "*", "*"), KG_EXIT_USAGE, "usage");
    kg_verb_refuses(lab.bundles, ARGS("rerun", dir, "--here", "--suites", lab.suites, "--build", "."), KG_EXIT_USAGE,
                    "exclude");
    kg_verb_refuses(lab.bundles, ARGS("rerun", dir, "--build", lab.tmp), KG_EXIT_USAGE, "no build");
    kg_verb_refuses(lab.bundles, ARGS("rerun", made, "--here"), KG_EXIT_USAGE, "not by kigo check or bench");
    kg_maker_replace(dir, "data/report.md", "i", "j"); /* what does not verify says nothing about what was run */
    kg_verb_refuses(lab.bundles, ARGS("rerun", dir, "--here", "--suites", lab.suites), KG_EXIT_INTEGRITY, "changed");
    free(made);
    free(dir);
    kg_lab_close(&lab);
}

/* A bundle may come from a stranger: of its configure call nothing is taken that could name a program or a file. */
static const struct configure_row {
    const char *line, *taken, *left_out;
} CONFIGURE[] = {
    { "", "", "" },
    { "'--enable-werror' 'CC=ccache gcc' '--with-cuda=no'", "--enable-werror|CC=ccache gcc|--with-cuda=no|", "" },
    { "'CFLAGS=-O3 -g -march=native -fno-math-errno'", "CFLAGS=-O3 -g -march=native -fno-math-errno|", "" },
    { "'CUDA_ARCHS=80 90a'", "CUDA_ARCHS=80 90a|", "" },
    { "'CC=sh -c evil'", "", "CC=sh -c evil" },
    { "'CFLAGS=-fplugin=/tmp/x.so'", "", "CFLAGS=-fplugin=/tmp/x.so" },
    { "'CFLAGS=-O2 -B/tmp'", "", "CFLAGS=-O2 -B/tmp" },
    { "'CFLAGS=-Wl,-rpath,/x'", "", "CFLAGS=-Wl,-rpath,/x" },
    { "'--with-cuda=/tmp/evil'", "", "--with-cuda=/tmp/evil" },
    { "'--prefix=/' '--srcdir=/tmp' '--disable-asan'", "--disable-asan|", "--prefix=/ --srcdir=/tmp" },
    { "'NVCC=/tmp/x' 'LDFLAGS=-L/tmp' 'CONFIG_SHELL=/tmp/x'", "", "NVCC=/tmp/x LDFLAGS=-L/tmp CONFIG_SHELL=/tmp/x" },
    { "'--enable-$(evil)'", "", "--enable-$(evil)" },
    { "'it'\\''s' \\", "", "it's \\" },
};

static void configure_words(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(CONFIGURE); i++) {
        struct kg_buffer left_out = KG_BUFFER_INIT, taken = KG_BUFFER_INIT;
        char **words = kg_rebuild_args(CONFIGURE[i].line, &left_out);
        for (size_t w = 0; words[w]; w++) {
            kg_buffer_printf(&taken, "%s|", words[w]);
            free(words[w]);
        }
        ck_assert_str_eq(kg_buffer_text(&taken), CONFIGURE[i].taken);
        ck_assert_str_eq(kg_buffer_text(&left_out), CONFIGURE[i].left_out);
        kg_buffer_free(&taken);
        kg_buffer_free(&left_out);
        free(words);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "rerun", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(same_again),
    CASE(one_case),
    CASE(choice_of_the_run),
    CASE(what_is_different_around),
    CASE(differences_for_people),
    CASE(every_bench_of_a_run_with_a_model),
    CASE(refused),
    CASE(configure_words),
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(OTHERWISE); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "rerun",
                                                  .name = OTHERWISE[i].name,
                                                  .run = came_out_otherwise,
                                                  .arg = &OTHERWISE[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
