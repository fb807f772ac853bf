/* Limits stay near what is measured, and every comparison is judged: the rule on made records, then on the newest check
 * that the tree brings along. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "report/far_limits.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Cases of one comparison. */
static const struct row {
    const char *plan, *error;
} ROWS[] = {
    /* far, the nearer one of the group as well */
    { "{\"layer\":\"tolerance\",\"op\":\"a\",\"backend\":\"cpu\",\"dtype\":\"f32\"}",
      "{\"judged\":true,\"why\":\"w\",\"nmse\":1e-9,\"tolerance\":{\"nmse\":1e-6}}" },
    { "{\"layer\":\"tolerance\",\"op\":\"a\",\"backend\":\"cpu\",\"dtype\":\"f32\"}",
      "{\"judged\":true,\"why\":\"w\",\"nmse\":3.2e-8,\"tolerance\":{\"nmse\":1e-6}}" },
    /* near by one comparison of two */
    { "{\"layer\":\"tolerance\",\"op\":\"b\",\"backend\":\"cpu\",\"dtype\":\"f32\"}",
      "{\"judged\":true,\"why\":\"w\",\"nmse\":1e-9,\"tolerance\":{\"nmse\":1e-6}}" },
    { "{\"layer\":\"tolerance\",\"op\":\"b\",\"backend\":\"cpu\",\"dtype\":\"f32\"}",
      "{\"judged\":true,\"why\":\"w\",\"nmse\":3.4e-8,\"tolerance\":{\"nmse\":1e-6}}" },
    /* near by one rule, far by the other; exact; mixed */
    { "{\"layer\":\"tolerance\",\"op\":\"c\",\"backend\":\"cuda\",\"dtype\":\"f16\"}",
      "{\"judged\":true,\"why\":\"w\",\"nmse\":5e-7,\"max_abs\":1e-5,\"tolerance\":{\"nmse\":1e-6,\"max_abs\":1e-3}}" },
    { "{\"layer\":\"unit\",\"op\":\"d\",\"backend\":\"cpu\",\"dtype\":null}",
      "{\"judged\":true,\"why\":\"w\",\"max_abs\":0,\"far\":\"whole numbers\",\"tolerance\":{\"max_abs\":0.5}}" },
    { "{\"layer\":\"unit\",\"op\":\"e\",\"backend\":\"cpu\",\"dtype\":null}",
      "{\"judged\":true,\"why\":\"w\",\"margin\":0.01,\"tolerance\":{\"mixed_abs\":0.5,\"mixed_rel\":0.1}}" },
    /* not judged, and a mutant's */
    { "{\"layer\":\"tolerance\",\"op\":\"f\",\"backend\":\"cpu\",\"dtype\":\"f32\"}",
      "{\"judged\":false,\"why\":\"w\",\"nmse\":1e-9,\"tolerance\":{\"nmse\":1e-6}}" },
    { "{\"layer\":\"mutation\",\"op\":\"g\",\"backend\":\"cpu\",\"dtype\":\"f32\"}",
      "{\"judged\":true,\"why\":\"w\",\"nmse\":1e-9,\"tolerance\":{\"nmse\":1e-6}}" },
};
static const struct named {
    const char *comparisons, *far;
    int n;
    double error;
} NAMED[] = {
    { "tolerance/a[cpu,f32] nmse", "", 2, 3.2e-8 },
    { "tolerance/c[cuda,f16] max_abs", "", 1, 1e-5 },
    { "unit/d[cpu,] max_abs", "whole numbers", 1, 0 },
    { "unit/e[cpu,] mixed", "", 1, 0.01 },
};

static void groups_are_named(struct kg_record *rec, const void *arg) {
    struct kg_case_records cases[KG_COUNT_OF(ROWS)] = { 0 };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        cases[i].plan = json_loads(ROWS[i].plan, 0, NULL);
        cases[i].result = json_object();
        json_t *error = json_loads(ROWS[i].error, 0, NULL);
        ck_assert(cases[i].plan && error);
        json_object_set_new(cases[i].result, "errors", json_pack("[o]", error));
    }
    const struct kg_records records = { .cases = cases, .n_cases = KG_COUNT_OF(ROWS) };
    json_t *far = kg_far_limits(&records);
    ck_assert_uint_eq(json_array_size(far), KG_COUNT_OF(NAMED));
    for (size_t i = 0; i < KG_COUNT_OF(NAMED); i++) {
        const json_t *group = json_array_get(far, i);
        const char *reason = kg_json_text(group, "far");
        ck_assert_str_eq(kg_json_text(group, "comparisons"), NAMED[i].comparisons);
        ck_assert_str_eq(reason ? reason : "", NAMED[i].far);
        ck_assert_int_eq(kg_json_int(group, "n", -1), NAMED[i].n);
        ck_assert_double_eq(kg_json_number(group, "error", -1), NAMED[i].error);
    }
    json_decref(far);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        json_decref(cases[i].plan);
        json_decref(cases[i].result);
    }
}

/* Whether a run is a whole check on a machine with a GPU, from a clean tree. */
static bool is_whole_check(const char *name, const char *dir) {
    static const char *const CHOICES[] = { "layers", "filter", "cases", "words", "specs" };
    json_t *env;
    if (strstr(name, "-dirty-") || kg_bundle_read_json(dir, "data/env.json", &env, NULL) != KG_OK) return false;
    const json_t *run = json_object_get(env, "run"), *gpus = json_object_get(env, "gpus");
    const char *verb = json_string_value(json_array_get(json_object_get(run, "argv"), 0));
    bool is_whole = verb && strcmp(verb, "check") == 0 && json_array_size(gpus) > 0 && !json_object_get(run, "sample");
    for (size_t i = 0; i < KG_COUNT_OF(CHOICES); i++)
        is_whole = is_whole && json_array_size(json_object_get(run, CHOICES[i])) == 0;
    json_decref(env);
    return is_whole;
}

/* The newest of the tree; NULL: there is none. malloc'ed. */
static char *newest_check(void) {
    char *root = kg_xasprintf("%s/../proof-bundles", kg_fixture_path(".")), *newest = NULL;
    struct kg_dir_list names = { NULL, 0 };
    struct kg_error err;
    if (kg_dir_list(root, &names, &err) != KG_OK) names.n_names = 0;
    for (size_t i = 0; i < names.n_names; i++) {
        char *dir = kg_path_join(root, names.names[i]);
        const bool is_newer = !newest || strcmp(names.names[i], strrchr(newest, '/') + 1) > 0;
        if (is_newer && is_whole_check(names.names[i], dir)) {
            free(newest);
            newest = kg_xstrdup(dir);
        }
        free(dir);
    }
    kg_dir_list_free(&names);
    free(root);
    return newest;
}

/* Whether a case may record a comparison that it does not judge: those of mutants, which are to be outside, and those
 * about how comparisons are recorded. */
static bool judges_otherwise(const char *key) {
    return strncmp(key, "mutation/", 9) == 0 || strncmp(key, "haiku/judge/", 12) == 0 ||
           strncmp(key, "unit/compare/", 13) == 0;
}

static void expect_all_judged(struct kg_record *rec, const struct kg_records *records) {
    size_t n = 0, i;
    const json_t *error;
    for (size_t k = 0; k < records->n_cases; k++) {
        const struct kg_case_records *c = &records->cases[k];
        json_array_foreach(json_object_get(c->result, "errors"), i, error) {
            const bool is_judged = json_is_true(json_object_get(error, "judged"));
            ck_assert_msg(is_judged || judges_otherwise(c->key), "%s: %s is compared and not judged", c->key,
                          kg_json_text(error, "name"));
            n += is_judged;
        }
    }
    kg_record_metric(rec, "judged", "count", (double)n);
}

static void far_ones_say_why(struct kg_record *rec, const void *arg) {
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_records records;
    struct kg_error err;
    const json_t *group;
    size_t i, n_with_reason = 0, n_without = 0;
    char *dir = newest_check();
    (void)arg;
    if (!dir) {
        kg_record_skip(rec, "no whole check on a GPU is in the tree's proof-bundles");
        return;
    }
    EXPECT_OK(kg_records_load_results(dir, &records, &findings, &err), err);
    json_t *far = kg_far_limits(&records);
    json_array_foreach(far, i, group) {
        if (kg_json_text(group, "far")) {
            n_with_reason++;
            continue;
        }
        kg_buffer_printf(&text, "\n%s: nearest is %.3g of %.3g (%s)", kg_json_text(group, "comparisons"),
                         kg_json_number(group, "error", 0), kg_json_number(group, "limit", 0),
                         kg_json_text(group, "why"));
        n_without++;
    }
    kg_record_metric(rec, "far_with_reason", "count", (double)n_with_reason);
    kg_record_transcript(rec, json_pack("{s:s, s:O}", "run", strrchr(dir, '/') + 1, "far_limits", far));
    if (n_with_reason == 0) kg_record_skip(rec, "the newest check is of a commit whose limits gave no reasons");
    else {
        kg_record_metric(rec, "far_without_reason", "count", (double)n_without);
        ck_assert_msg(n_without == 0, "%s: %zu limits are over %d times what was measured:%.2000s", dir, n_without,
                      KG_FAR_TIMES, kg_buffer_text(&text));
        expect_all_judged(rec, &records);
    }
    kg_buffer_free(&text);
    json_decref(far);
    kg_records_free(&records);
    kg_bundle_findings_free(&findings);
    free(dir);
}

int main(int argc, char **argv) {
    static const struct kg_case CASES[] = {
        { .layer = "integration", .op = "far_limits", .name = "groups_are_named", .run = groups_are_named },
        { .layer = "integration", .op = "far_limits", .name = "far_ones_say_why", .run = far_ones_say_why },
    };
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
