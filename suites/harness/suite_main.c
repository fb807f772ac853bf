/* The main program of every suite: lists its cases, runs them by hand with TAP output, or runs them for `kigo check`.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/size.h"
#include "bundle/built_from.h"
#include "run/case_key.h"
#include "suites/harness/case_list.h"
#include "suites/harness/report_events.h"
#include "suites/harness/report_tap.h"
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct suite_options {
    bool list, verbose;
    struct kg_option_list filters, keys;
    uint64_t seed;
    double timeout_scale;
};

static enum kg_status parse(int argc, char **argv, struct suite_options *o, bool *helped, struct kg_error *err) {
    const struct kg_option rows[] = {
        { .name = "list",
          .letter = 'l',
          .kind = KG_OPTION_FLAG,
          .value = &o->list,
          .help = "print the plan, a JSON line a case" },
        { .name = "filter",
          .letter = 'f',
          .kind = KG_OPTION_TEXTS,
          .value = &o->filters,
          .metavar = "GLOB",
          .help = "run cases whose key matches; * also crosses /" },
        { .name = "case",
          .letter = 'c',
          .kind = KG_OPTION_TEXTS,
          .value = &o->keys,
          .metavar = "KEY",
          .help = "run the case of this very key" },
        { .name = "seed",
          .letter = 's',
          .kind = KG_OPTION_UINT64,
          .value = &o->seed,
          .metavar = "S",
          .help = "the run's seed (1)" },
        { .name = "timeout-scale",
          .kind = KG_OPTION_DOUBLE,
          .value = &o->timeout_scale,
          .metavar = "X",
          .help = "multiply every case's time limit",
          .min = 0.001,
          .max = 1000 },
        { .name = "verbose",
          .letter = 'v',
          .kind = KG_OPTION_FLAG,
          .value = &o->verbose,
          .help = "print recorded figures too" },
    };
    const struct kg_command command = {
        .name = argv[0],
        .usage = "[options]",
        .summary = "Runs this suite's cases and prints TAP.",
        .options = rows,
        .n_options = KG_COUNT_OF(rows),
    };
    const char **args = NULL;
    size_t n_args = 0;
    const enum kg_status status = kg_options_parse(&command, argc, argv, &args, &n_args, helped, err);
    free(args);
    return status;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void print_plan_line(const char *suite, const struct kg_listed_case *item, uint64_t run_seed) {
    const struct kg_case *c = &item->c;
    char seed[32], sha[KG_SHA256_HEX_SIZE];
    snprintf(seed, sizeof seed, "%" PRIu64, kg_case_seed(run_seed, item->key));
    kg_case_definition_sha(c, sha);
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:s, s:s, s:f, s:b}", "key", item->key,
                             "suite", suite, "layer", c->layer, "op", c->op, "name", c->name, "backend", c->backend,
                             "dtype", c->dtype, "shape", c->shape, "spec", c->spec, "seed", seed, "def_sha", sha,
                             "timeout_s", c->timeout_s, "timed", c->timed);
    char *text = json_dumps(line, JSON_COMPACT);
    puts(text ? text : "{}"); /* a spec that is not UTF-8: the runner says that the line is malformed */
    free(text);
    json_decref(line);
}

static bool matches(const struct suite_options *o, const char *key) {
    if (o->filters.n_items == 0 && o->keys.n_items == 0) return true;
    for (size_t i = 0; i < o->keys.n_items; i++)
        if (strcmp(o->keys.items[i], key) == 0) return true;
    for (size_t i = 0; i < o->filters.n_items; i++)
        if (fnmatch(o->filters.items[i], key, 0) == 0) return true;
    return false;
}

static enum kg_status select_by_hand(const struct suite_options *o, struct kg_case_list *list, struct kg_error *err) {
    for (size_t i = 0; i < o->keys.n_items; i++)
        if (!kg_case_list_find(list, o->keys.items[i]))
            return kg_fail(err, KG_ERR_INCOMPLETE, "there is no case '%s'", o->keys.items[i]);
    for (size_t i = 0; i < list->n_items; i++) list->items[i].selected = matches(o, list->items[i].key);
    return KG_OK;
}

/* Runs the selected cases; *failed says whether any failed. Returns how many ran. */
static size_t run_selected(struct kg_case_list *list, const struct suite_options *o, int events_fd, bool *failed) {
    size_t n_run = 0;
    for (size_t i = 0; i < list->n_items; i++) {
        const struct kg_listed_case *item = &list->items[i];
        if (!item->selected) continue;
        struct kg_record rec;
        struct kg_case_result result;
        kg_record_init(&rec, &item->c, item->key, o->seed, events_fd);
        if (events_fd >= 0) kg_events_start(events_fd, item->key);
        else kg_tap_arm_limit(item->key, item->c.timeout_s * o->timeout_scale);
        kg_case_run(&rec, &result);
        n_run++;
        *failed = *failed || result.outcome == KG_OUTCOME_FAIL;
        if (events_fd >= 0) {
            fflush(stdout); /* a case's output is in the log before its end is known */
            kg_events_end(events_fd, &rec, &result);
        } else {
            kg_tap_disarm_limit();
            kg_tap_case(n_run, &rec, &result, o->verbose);
        }
        kg_case_result_free(&result);
        kg_record_free(&rec);
    }
    return n_run;
}

/* What kigo keeps of the bundles that it verified is kept for this program's time only. malloc'ed; NULL: there is no
 * room, and nothing is kept. */
static char *use_own_cache(void) {
    const char *tmp = getenv("TMPDIR");
    char *dir = kg_path_join(tmp && *tmp ? tmp : "/tmp", "kigo-cache-XXXXXX");
    if (mkdtemp(dir) && setenv("XDG_CACHE_HOME", dir, 1) == 0) return dir;
    free(dir);
    return NULL;
}

static int run_list(struct kg_case_list *list, const struct suite_options *o, const char *program) {
    const int events_fd = kg_events_fd();
    struct kg_error err;
    const enum kg_status status = events_fd >= 0 ? kg_events_select(list, &err) : select_by_hand(o, list, &err);
    if (status != KG_OK) {
        fprintf(stderr, "%s: %s\n", program, err.message);
        return kg_status_exit_code(status);
    }
    size_t n_selected = 0;
    for (size_t i = 0; i < list->n_items; i++) n_selected += list->items[i].selected;
    if (events_fd < 0) kg_tap_plan(n_selected);
    if (n_selected == 0) {
        fprintf(stderr, "%s: no case of %zu was selected\n", program, list->n_items);
        return KG_EXIT_INCOMPLETE;
    }
    bool failed = false;
    char *cache = use_own_cache();
    run_selected(list, o, events_fd, &failed);
    if (cache && kg_path_remove(cache, &err) != KG_OK) fprintf(stderr, "%s: %s\n", program, err.message);
    free(cache);
    if (events_fd >= 0) kg_events_done(events_fd);
    return failed ? KG_EXIT_FAILED : KG_EXIT_OK;
}

static int suite_main(int argc, char **argv, struct kg_case_list *list) {
    const char *program = base_name(argv[0]);
    struct suite_options options = { .seed = KG_DEFAULT_RUN_SEED, .timeout_scale = 1 };
    struct kg_error err;
    bool helped = false;
    int code = KG_EXIT_OK;
    /* A duplicate or malformed key is a mistake in the program itself, not in how it was called. */
    if (kg_case_list_check(list, &err) != KG_OK) {
        fprintf(stderr, "%s: %s\n", program, err.message);
        code = KG_EXIT_INTERNAL;
    } else if (parse(argc, argv, &options, &helped, &err) != KG_OK) {
        fprintf(stderr, "%s: %s\n", program, err.message);
        code = KG_EXIT_USAGE;
    } else if (!helped && options.list) {
        printf("{\"built_from\":\"%s\",\"alone\":%s}\n", kg_built_from(), kg_paths_asked() ? "false" : "true");
        for (size_t i = 0; i < list->n_items; i++)
            if (matches(&options, list->items[i].key)) print_plan_line(program, &list->items[i], options.seed);
        if (fflush(stdout) != 0) code = KG_EXIT_INCOMPLETE;
    } else if (!helped) {
        code = run_list(list, &options, program);
    }
    free(options.filters.items);
    free(options.keys.items);
    kg_case_list_free(list);
    return code;
}

int kg_suite_main(int argc, char **argv, const struct kg_case *cases, size_t n_cases) {
    struct kg_case_list list = { 0 };
    for (size_t i = 0; i < n_cases; i++) kg_case_list_add(&list, &cases[i]);
    return suite_main(argc, argv, &list);
}

int kg_suite_main_built(int argc, char **argv, void (*build)(struct kg_case_list *list)) {
    struct kg_case_list list = { 0 };
    build(&list);
    return suite_main(argc, argv, &list);
}
