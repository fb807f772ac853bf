#include "suites/integration/ci_recipe.h"
#include "base/buffer.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* What stands between the first `from` and the next `to` behind it; malloc'ed. */
static char *between(const char *text, const char *from, const char *to) {
    const char *begin = strstr(text, from);
    ck_assert_msg(begin != NULL, "the page has no '%s'", from);
    begin += strlen(from);
    const char *end = strstr(begin, to);
    ck_assert_msg(end != NULL, "the page has no '%s' after '%s'", to, from);
    return kg_xstrndup(begin, (size_t)(end - begin));
}

/* The value of "name: value" in a piece of YAML, without a comment behind it; malloc'ed, NULL if it is not there. */
static char *value_of(const char *yaml, const char *name) {
    char *label = kg_xasprintf(" %s: ", name), *value = NULL;
    const char *at = strstr(yaml, label);
    if (at) {
        at += strlen(label);
        size_t len = strcspn(at, "\n");
        const char *comment = strstr(at, "  #");
        if (comment && (size_t)(comment - at) < len) len = (size_t)(comment - at);
        while (len > 0 && at[len - 1] == ' ') len--;
        value = kg_xstrndup(at, len);
    }
    free(label);
    return value;
}

static char *must_have(const char *yaml, const char *name) {
    char *value = value_of(yaml, name);
    ck_assert_msg(value && *value, "no value of '%s' in:\n%s", name, yaml);
    return value;
}

static void read_step(struct kg_recipe *recipe, const char *yaml) {
    char *uses = value_of(yaml, "uses"), *run = value_of(yaml, "run"), *condition = value_of(yaml, "if");
    ck_assert_msg(!uses != !run, "a step either runs or uses something:\n%s", yaml);
    ck_assert_msg(!condition || strcmp(condition, "always()") == 0, "if: %s", condition);
    if (run) {
        ck_assert_msg(*run && *run != '|' && !strstr(run, "${{"), "not one line of plain shell: %s", run);
        ck_assert_uint_lt(recipe->n_steps, KG_RECIPE_STEPS);
        recipe->steps[recipe->n_steps++] = (struct kg_recipe_step){ .run = run, .always = condition != NULL };
    } else if (strncmp(uses, "actions/cache@", 14) == 0) {
        recipe->cache_path = must_have(yaml, "path");
    } else if (strncmp(uses, "actions/upload-artifact@", 24) == 0) {
        ck_assert_msg(condition != NULL, "what a red job leaves is wanted most");
        recipe->upload_path = must_have(yaml, "path");
    }
    free(condition);
    free(uses);
}

void kg_recipe_read(struct kg_recipe *recipe, const char *page) {
    static const char NEXT[] = "\n      - ";
    *recipe = (struct kg_recipe){ .n_steps = 0 };
    char *yaml = between(page, "```yaml\n", "```"), *env = between(yaml, "    env:\n", "    steps:\n");
    recipe->reviewer = between(page, "```sh\n", "```");
    recipe->bundles = must_have(env, "KIGO_BUNDLES");
    char *flags = must_have(env, "KIGO_GPU_FLAGS");
    recipe->flags_request = between(flags, "${{ github.event_name == 'pull_request' && '", "'");
    recipe->flags = between(flags, " || '", "' }}");
    for (const char *at = strstr(yaml, NEXT); at;) {
        const char *next = strstr(at + 1, NEXT);
        at += strlen(NEXT);
        char *step =
            kg_xasprintf("\n        %.*s", next ? (int)(next - at) : (int)strlen(at), at); /* as its other lines */
        read_step(recipe, step);
        free(step);
        at = next;
    }
    ck_assert_msg(recipe->cache_path && recipe->upload_path, "no cache, or nothing is attached");
    free(flags);
    free(env);
    free(yaml);
}

void kg_recipe_free(struct kg_recipe *recipe) {
    for (size_t i = 0; i < recipe->n_steps; i++) free(recipe->steps[i].run);
    free(recipe->reviewer);
    free(recipe->upload_path);
    free(recipe->cache_path);
    free(recipe->flags);
    free(recipe->flags_request);
    free(recipe->bundles);
}

void kg_recipe_shell(const char *text, const char *dir, const char *const *env, struct kg_process_result *result) {
    static const char IN_DIR[] = "cd \"$1\" && exec bash --noprofile --norc -e -c \"$2\"";
    const char *const argv[] = { "/bin/sh", "-c", IN_DIR, "sh", dir, text, NULL };
    const struct kg_process process = { .argv = argv, .env = env, .timeout_s = 120 };
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, result, &err), err);
    ck_assert_msg(!result->timed_out, "%s: takes too long", text);
}

void kg_recipe_run(const struct kg_recipe *recipe, const char *dir, const char *const *env,
                   struct kg_job_result *result) {
    struct kg_buffer output = KG_BUFFER_INIT;
    *result = (struct kg_job_result){ .red = false };
    for (size_t i = 0; i < recipe->n_steps; i++) {
        const struct kg_recipe_step *step = &recipe->steps[i];
        struct kg_process_result shell;
        result->exit_codes[i] = -1;
        if (result->red && !step->always) continue;
        kg_recipe_shell(step->run, dir, env, &shell);
        kg_buffer_printf(&output, "$ %s\n%s%s", step->run, shell.out, shell.err);
        result->exit_codes[i] = shell.exit_code;
        result->red |= shell.exit_code != 0;
        kg_process_result_free(&shell);
    }
    result->output = kg_xstrdup(kg_buffer_text(&output));
    kg_buffer_free(&output);
}
