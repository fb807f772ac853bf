#include "suites/support/counters.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/ncu_figures.h"
#include "suites/support/ncu_run.h"
#include "suites/harness/must.h"
#include <check.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_COUNTED = 2 };

bool kg_bench_counted(void) {
    return getenv("KIGO_BENCH_COUNTED") != NULL;
}

void kg_bench_launch_counted(struct kg_bench_machine *machine, const struct kg_bench_work *work) {
    struct kg_error err = { 0 };
    for (int i = 0; i < N_COUNTED; i++) kg_must(work->launch(work->arg, 0, &err), &err);
    kg_must(machine->backend->ops->synchronize(machine->backend, &err), &err);
}

static bool is_chosen(const char *key) {
    const char *globs = getenv("KIGO_BENCH_NCU");
    if (!globs || kg_bench_counted()) return false;
    bool chosen = false;
    char *copy = kg_xstrdup(globs), *rest = NULL;
    for (char *glob = strtok_r(copy, "\n", &rest); glob; glob = strtok_r(NULL, "\n", &rest))
        chosen = chosen || fnmatch(glob, key, 0) == 0;
    free(copy);
    return chosen;
}

/* "sdpa_wgmma_kernel" of whatever is printed for it: what a metric's name may hold. */
static void plain_name(const char *kernel, char *name, size_t size) {
    size_t n = 0;
    for (const char *c = kernel; *c && n + 1 < size; c++)
        name[n++] = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ? *c : '_';
    name[n] = '\0';
}

static void record_kernel(struct kg_record *rec, const struct kg_ncu_launches *launches, const char *kernel,
                          bool is_main) {
    struct kg_ncu_figure figures[KG_NCU_FIGURES];
    struct kg_buffer missing = KG_BUFFER_INIT;
    char plain[96], name[192];
    plain_name(kernel, plain, sizeof plain);
    kg_ncu_figures(launches, kernel, figures);
    for (size_t i = 0; i < KG_NCU_FIGURES; i++) {
        if (is_main) snprintf(name, sizeof name, "ncu.%s", figures[i].name);
        else snprintf(name, sizeof name, "ncu.%s.%s", plain, figures[i].name);
        if (isnan(figures[i].value)) kg_buffer_printf(&missing, " %s", figures[i].name);
        else kg_record_metric(rec, name, figures[i].unit, figures[i].value);
    }
    if (missing.len > 0) printf("%s: %s: ncu did not report%s\n", kg_record_key(rec), plain, missing.data);
    kg_buffer_free(&missing);
}

/* Of all kernels of one iteration. */
static void record_sums(struct kg_record *rec, const struct kg_ncu_launches *launches) {
    struct kg_ncu_figure sums[KG_NCU_SUMS];
    char name[64];
    kg_ncu_sums(launches, sums);
    for (size_t i = 0; i < KG_NCU_SUMS; i++) {
        snprintf(name, sizeof name, "ncu.sum.%s", sums[i].name);
        if (!isnan(sums[i].value)) kg_record_metric(rec, name, sums[i].unit, sums[i].value / N_COUNTED);
    }
}

/* What repacks MXFP4 weights before the work is none of its launches. */
static void drop_repacking(struct kg_ncu_launches *launches) {
    static const char *const KERNELS[] = { "scan_kernel", "repack_kernel" };
    for (size_t i = 0; i < KG_COUNT_OF(KERNELS); i++) kg_ncu_launches_drop(launches, KERNELS[i]);
}

void kg_bench_record_counters(struct kg_record *rec, const struct kg_bench_machine *machine) {
    if (strcmp(machine->name, "cuda") != 0 || !is_chosen(kg_record_key(rec))) return;
    struct kg_ncu_launches launches;
    struct kg_error err;
    size_t n_kernels = 0;
    char program[4096];
    const ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    ck_assert_msg(len > 0, "the program does not know its own path");
    program[len] = '\0';
    kg_must(kg_ncu_run(program, kg_record_key(rec), kg_scratch_dir(rec), &launches, &err), &err);
    drop_repacking(&launches);
    const char *const main_kernel = kg_ncu_main_kernel(&launches);
    ck_assert_msg(main_kernel != NULL, "ncu saw no launch");
    for (size_t i = 0; i < launches.n_items; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++) seen = seen || strcmp(launches.items[k].kernel, launches.items[i].kernel) == 0;
        if (seen) continue;
        n_kernels++;
        record_kernel(rec, &launches, launches.items[i].kernel, launches.items[i].kernel == main_kernel);
    }
    record_sums(rec, &launches);
    kg_record_metric(rec, "ncu.kernels", "count", (double)n_kernels);
    kg_ncu_launches_free(&launches);
}
