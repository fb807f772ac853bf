/* Registers, spills and stack frames of a build's kernels (build.json's "kernels": an array of {"name", "arch", ...}),
 * against the least that a run of the baseline had: what is worse stays so, run after run, until it is accepted. */
#include "history/regress_parts.h"
#include "base/buffer.h"
#include "base/size.h"
#include "bundle/records.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *unit;
    bool is_spill;
} FIGURES[] = {
    { "registers", "count", false },
    { "spill_store_bytes", "bytes", true },
    { "spill_load_bytes", "bytes", true },
    { "stack_bytes", "bytes", false },
};

/* The kernels of one build. */
struct build {
    const char *text;
    json_t *root, *by_name; /* by_name: "name\narch" -> the kernel; NULL where the build lists none */
};

/* malloc'ed. */
static char *name_of(const json_t *kernel) {
    const char *name = kg_json_text(kernel, "name"), *arch = kg_json_text(kernel, "arch");
    return name ? kg_xasprintf("%s\n%s", name, arch ? arch : "") : NULL;
}

static void build_open(const char *text, struct build *build) {
    *build = (struct build){ .text = text, .root = json_loads(text, 0, NULL) };
    const json_t *kernels = json_object_get(build->root, "kernels");
    if (json_array_size(kernels) == 0) return;
    build->by_name = json_object();
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        json_t *kernel = json_array_get(kernels, i);
        char *name = name_of(kernel);
        if (name && !json_object_get(build->by_name, name)) json_object_set(build->by_name, name, kernel);
        free(name);
    }
}

static void build_close(struct build *build) {
    json_decref(build->by_name);
    json_decref(build->root);
}

/* Baseline runs of one build after another share what was read. */
struct builds {
    struct build items[KG_BASELINE_RUNS];
    size_t n_items;
    size_t of_run[KG_BASELINE_RUNS];
};

static void builds_open(const struct kg_comparison *comparison, struct builds *builds) {
    *builds = (struct builds){ 0 };
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        const char *text = comparison->out->baseline.items[i].build_json;
        if (builds->n_items == 0 || strcmp(builds->items[builds->n_items - 1].text, text) != 0)
            build_open(text, &builds->items[builds->n_items++]);
        builds->of_run[i] = builds->n_items - 1;
    }
}

/* What a figure was in the baseline: where a run does not have the kernel, another's name is no excuse for spills. */
struct past {
    int64_t least; /* -1: no run says */
    size_t n;
    bool known; /* a run has the kernel */
};

static struct past look_back(const struct kg_comparison *comparison, const struct builds *builds, const json_t *kernel,
                             size_t figure) {
    struct past past = { -1, 0, false };
    char *name = name_of(kernel);
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        const struct build *build = &builds->items[builds->of_run[i]];
        if (!build->by_name || !kg_regress_counts(comparison, i, kg_json_text(kernel, "name"))) continue;
        const json_t *old = json_object_get(build->by_name, name);
        const int64_t was = old ? kg_json_int(old, FIGURES[figure].name, -1) : FIGURES[figure].is_spill ? 0 : -1;
        past.known = past.known || old;
        if (was < 0) continue;
        if (past.n++ == 0 || was < past.least) past.least = was;
    }
    free(name);
    return past;
}

static void judge(struct kg_comparison *comparison, const struct builds *builds, const json_t *kernel, size_t figure) {
    const struct past past = look_back(comparison, builds, kernel, figure);
    const int64_t is = kg_json_int(kernel, FIGURES[figure].name, -1);
    if (past.least < 0 || is < 0) return;
    comparison->out->n_exact++;
    if (past.least == is) return;
    const struct kg_figure_info info = { .name = (char *)(uintptr_t)FIGURES[figure].name,
                                         .unit = (char *)(uintptr_t)FIGURES[figure].unit };
    struct kg_judgement *j = kg_regress_add(comparison, is > past.least ? KG_JUDGED_WORSE : KG_JUDGED_BETTER, "kernel",
                                            kg_json_text(kernel, "name"), &info, "%s",
                                            past.known ? "an exact figure: any change for the worse counts, until it "
                                                         "is accepted"
                                                       : "a kernel that the baseline does not have spills");
    j->before = (double)past.least;
    j->after = (double)is;
    j->change = past.least > 0 ? (double)is / (double)past.least - 1 : NAN;
    j->n_baseline = past.n;
}

void kg_regress_kernels(struct kg_comparison *comparison) {
    struct build run;
    struct builds builds;
    const json_t *kernel;
    const char *name;
    build_open(comparison->out->run.build_json, &run);
    builds_open(comparison, &builds);
    json_object_foreach(run.by_name, name, kernel) for (size_t f = 0; f < KG_COUNT_OF(FIGURES); f++)
        judge(comparison, &builds, kernel, f);
    for (size_t i = 0; i < builds.n_items; i++) build_close(&builds.items[i]);
    build_close(&run);
}
