/* The CI recipe of docs/ci.md as a runner takes it: the steps that are on the page, run in order. */
#ifndef KIGO_SUITES_CI_RECIPE_H
#define KIGO_SUITES_CI_RECIPE_H

#include "suites/harness/process.h"
#include <stdbool.h>
#include <stddef.h>

enum { KG_RECIPE_STEPS = 8 };

struct kg_recipe_step {
    char *run;   /* a shell's script */
    bool always; /* also after a step that failed */
};

/* Malloc'ed texts; the case fails if the page lacks one. */
struct kg_recipe {
    char *bundles;                  /* KIGO_BUNDLES, where the history is */
    char *flags_request, *flags;    /* KIGO_GPU_FLAGS of a pull request's job, and of any other */
    char *cache_path, *upload_path; /* of actions/cache and actions/upload-artifact */
    char *reviewer;                 /* the block of shell that a reviewer runs */
    struct kg_recipe_step steps[KG_RECIPE_STEPS];
    size_t n_steps;
};

/* From the text of the page. Only what the recipe uses of YAML is understood: a step is "- ", then lines "name: value".
 */
void kg_recipe_read(struct kg_recipe *recipe, const char *page);
void kg_recipe_free(struct kg_recipe *recipe);

struct kg_job_result {
    int exit_codes[KG_RECIPE_STEPS]; /* -1: the step was left out, as one before it failed */
    bool red;
    char *output; /* of all steps, malloc'ed */
};

/* Runs the steps in `dir` as a runner of GitHub's does: bash -e, later steps only while all is well, but those that run
 * always. env: "NAME=VALUE", NULL at the end. */
void kg_recipe_run(const struct kg_recipe *recipe, const char *dir, const char *const *env,
                   struct kg_job_result *result);

/* `bash -e` over a text in a folder. */
void kg_recipe_shell(const char *text, const char *dir, const char *const *env, struct kg_process_result *result);

#endif
