/* Hardware counters: what Nsight Compute prints, read back; the figures made of it; and how it is run, by a stand-in.
 */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/support/counters.h"
#include "suites/support/ncu_figures.h"
#include "suites/support/ncu_run.h"
#include "suites/harness/must.h"
#include "suites/harness/record.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD                                                                                                           \
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\","      \
    "\"Grid Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
#define ROW(id, kernel, metric, unit, value)                                                                           \
    "\"" id "\",\"635\",\"probe\",\"127.0.0.1\",\"" kernel "\",\"1\",\"7\",\"(128, 1, 1)\",\"(264, 1, 1)\",\"0\","     \
    "\"9.0\",\"Command line profiler metrics\",\"" metric "\",\"" unit "\",\"" value "\"\n"

/* As ncu 2025.3.1 wrote it on an H200: of mma.sync with asynchronous copies, of wgmma with bulk copies, and of strided
 * loads with an array on the stack. */
static const char SAMPLE[] =
    "==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, profiling results may be "
    "inconsistent.\n"
    "==PROF== Connected to process 635 (/tmp/probe)\n"
    "\"the program\" prints, too\n"
    "==PROF== Disconnected from process 635\n" HEAD ROW("0", "mma_kernel", "dram__bytes_op_read.sum", "", "n/a") ROW(
        "0", "mma_kernel", "dram__bytes_read.sum", "byte", "33,561,600") ROW("0", "mma_kernel",
                                                                             "gpu__time_duration.sum", "ns", "36,160")
        ROW("0", "mma_kernel", "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum", "sector",
            "0") ROW("0", "mma_kernel", "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum", "sector",
                     "0") ROW("0", "mma_kernel", "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "byte",
                              "0") ROW("0", "mma_kernel", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum", "byte", "0")
            ROW("0", "mma_kernel", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector",
                "4,325,376") ROW("0", "mma_kernel", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sector", "4,224")
                ROW("0", "mma_kernel", "launch__registers_per_thread", "register/thread", "18")
                    ROW("0", "mma_kernel", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "%",
                        "9.91") ROW("0", "mma_kernel", "smsp__sass_average_data_bytes_per_sector_mem_global.pct", "%",
                                    "100") ROW("1", "wgmma_kernel", "gpu__time_duration.sum", "ns", "28,192")
                        ROW("1", "wgmma_kernel", "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum", "sector",
                            "0") ROW("1", "wgmma_kernel", "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
                                     "sector", "4,224")
                            ROW("1", "wgmma_kernel", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector", "0")
                                ROW("1", "wgmma_kernel", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sector",
                                    "4,224") ROW("1", "wgmma_kernel",
                                                 "smsp__sass_average_data_bytes_per_sector_mem_global.pct", "%", "50")
                                    ROW("2", "spill_kernel", "gpu__time_duration.sum", "ns", "8,672")
                                        ROW("2", "spill_kernel", "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "byte",
                                            "69,206,016")
                                            ROW("2", "spill_kernel", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",
                                                "byte", "8,650,752")
                                                ROW("3", "mma_kernel", "gpu__time_duration.sum", "ns", "35,072");

static struct kg_ncu_launches parsed(const char *text) {
    struct kg_ncu_launches launches;
    struct kg_error err;
    kg_must(kg_ncu_parse(text, strlen(text), &launches, &err), &err);
    return launches;
}

static void reads_what_ncu_writes(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_ncu_launches l = parsed(SAMPLE);
    ck_assert_uint_eq(l.n_items, 4);
    ck_assert_str_eq(l.items[1].kernel, "wgmma_kernel");
    ck_assert_double_eq(kg_ncu_value(&l.items[0], "dram__bytes_read.sum"), 33561600);
    ck_assert(isnan(kg_ncu_value(&l.items[0], "dram__bytes_op_read.sum")));
    ck_assert(isnan(kg_ncu_value(&l.items[1], "dram__bytes_read.sum")));
    ck_assert_str_eq(l.items[0].values[0].unit, "byte");
    ck_assert_str_eq(kg_ncu_main_kernel(&l), "mma_kernel");
    kg_ncu_launches_free(&l);
}

static double figure(const struct kg_ncu_launches *launches, const char *kernel, const char *name) {
    struct kg_ncu_figure figures[KG_NCU_FIGURES];
    kg_ncu_figures(launches, kernel, figures);
    for (size_t i = 0; i < KG_NCU_FIGURES; i++)
        if (strcmp(figures[i].name, name) == 0) return figures[i].value;
    ck_abort_msg("no figure %s", name);
    return 0;
}

/* Half of the wgmma kernel's sectors come by bulk copies, all used, and half of each of the others is: 0.75. */
static void figures_by_hand(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_ncu_launches l = parsed(SAMPLE);
    ck_assert_double_eq_tol(figure(&l, "mma_kernel", "tensor_pipe_share"), 0.0991, 1e-12);
    ck_assert_double_eq(figure(&l, "mma_kernel", "memory_efficiency"), 1);
    ck_assert_double_eq(figure(&l, "wgmma_kernel", "memory_efficiency"), 0.75);
    ck_assert_double_eq(figure(&l, "mma_kernel", "time"), 35616); /* the median of two */
    ck_assert_double_eq(figure(&l, "mma_kernel", "registers"), 18);
    ck_assert_double_eq(figure(&l, "mma_kernel", "spilled_bytes"), 0);
    ck_assert_double_eq(figure(&l, "spill_kernel", "spilled_bytes"), 69206016 + 8650752);
    ck_assert(isnan(figure(&l, "spill_kernel", "memory_efficiency"))); /* not reported is not zero */
    ck_assert(isnan(figure(&l, "mma_kernel", "achieved_occupancy")));
    kg_ncu_launches_free(&l);
}

/* FP8 has one figure, int8 another. */
static void operations_by_operand(struct kg_record *rec, const void *arg) {
    static const char ONE[] = HEAD ROW("0", "a", "sm__ops_path_tensor_src_fp8.sum", "", "268,435,456")
        ROW("0", "a", "sm__ops_path_tensor_src_int8.sum", "", "0");
    struct kg_ncu_launches l = parsed(ONE);
    (void)rec;
    (void)arg;
    ck_assert_double_eq(figure(&l, "a", "fp8_operations"), 268435456);
    ck_assert_double_eq(figure(&l, "a", "int8_operations"), 0);
    kg_ncu_launches_free(&l);
}

/* Over launches of all kernels; what one of them has not is not a sum of the others. */
static void sums_over_launches(struct kg_record *rec, const void *arg) {
    static const char TWO[] = HEAD ROW("0", "a", "dram__bytes_read.sum", "byte", "1,000")
        ROW("0", "a", "dram__bytes_write.sum", "byte", "10") ROW("0", "a", "gpu__time_duration.sum", "ns", "5")
            ROW("0", "a", "lts__t_bytes.sum", "byte", "7") ROW("1", "b", "dram__bytes_read.sum", "byte", "200")
                ROW("1", "b", "dram__bytes_write.sum", "byte", "0") ROW("1", "b", "gpu__time_duration.sum", "ns", "6");
    struct kg_ncu_figure sums[KG_NCU_SUMS];
    struct kg_ncu_launches l = parsed(TWO), none = { NULL, 0 };
    (void)rec;
    (void)arg;
    kg_ncu_sums(&l, sums);
    ck_assert_str_eq(sums[0].name, "time");
    ck_assert_double_eq(sums[0].value, 11);
    ck_assert_str_eq(sums[1].name, "dram_bytes");
    ck_assert_double_eq(sums[1].value, 1210);
    ck_assert_str_eq(sums[2].name, "l2_bytes");
    ck_assert(isnan(sums[2].value));
    kg_ncu_sums(&none, sums);
    ck_assert(isnan(sums[0].value) && isnan(sums[1].value));
    kg_ncu_launches_free(&l);
}

/* A kernel's launches can be left out, first and last ones too; a name that begins alike is another. */
static void launches_left_out(struct kg_record *rec, const void *arg) {
    static const char FOUR[] =
        HEAD ROW("0", "a", "gpu__time_duration.sum", "ns", "5") ROW("1", "ab", "gpu__time_duration.sum", "ns", "6")
            ROW("2", "b", "gpu__time_duration.sum", "ns", "7") ROW("3", "a", "gpu__time_duration.sum", "ns", "8");
    struct kg_ncu_launches l = parsed(FOUR);
    (void)rec;
    (void)arg;
    kg_ncu_launches_drop(&l, "a");
    ck_assert_uint_eq(l.n_items, 2);
    ck_assert_str_eq(l.items[0].kernel, "ab");
    ck_assert_str_eq(l.items[1].kernel, "b");
    ck_assert_double_eq(kg_ncu_value(&l.items[1], "gpu__time_duration.sum"), 7);
    kg_ncu_launches_free(&l);
}

/* Each metric asked for once, and nothing that a list of them cannot hold. */
static void asks_for_each_metric_once(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    char *metrics = kg_ncu_metrics();
    json_t *seen = json_object();
    ck_assert_uint_eq(strspn(metrics, "abcdefghijklmnopqrstuvwxyz0123456789_.,"), strlen(metrics));
    char *rest = NULL;
    for (char *name = strtok_r(metrics, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        ck_assert_msg(!json_object_get(seen, name), "%s twice", name);
        json_object_set_new(seen, name, json_true());
    }
    ck_assert_uint_ge(json_object_size(seen), KG_NCU_FIGURES);
    json_decref(seen);
    free(metrics);
}

static const struct hostile {
    const char *name, *text;
    size_t len; /* 0: up to the NUL */
    const char *message;
} HOSTILE[] = {
    { "nothing", "", 0, "no line of columns" },
    { "only_an_error", "==PROF== x\n==ERROR== Failed to initialize the profiler: LibraryNotLoaded\nthe end", 0,
      "LibraryNotLoaded" },
    { "other_columns", "\"ID\",\"Kernel Name\"\n\"0\",\"k\"\n", 0, "no line of columns" },
    { "field_missing", HEAD "\"0\",\"635\",\"probe\"\n", 0, "line 2 has not the 15" },
    { "field_too_many", HEAD ROW("0", "k\",\"k", "m", "", "1"), 0, "line 2 has not the 15" },
    { "quote_left_open", HEAD ROW("0", "k", "m", "", "1") "\"0\",\"635", 0, "line 3" },
    { "text_behind_a_quote", HEAD "\"0\" \"1\"\n", 0, "line 2" },
    { "comma_at_the_end", HEAD "\"0\",\n", 0, "line 2" },
    { "more_fields_than_any_line",
      "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\","
      "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\","
      "\"\","
      "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\","
      "\"\","
      "\"\",\"\",\"\",\"\",\"\"\n",
      0, "no line of columns" },
    { "bytes_of_any_kind", "\0\"\n\"\0\"\n\xff\xfe\n==ERROR==", 17, "ncu wrote no counters" },
};

static void hostile(struct kg_record *rec, const void *arg) {
    const struct hostile *h = arg;
    struct kg_ncu_launches launches;
    struct kg_error err;
    (void)rec;
    kg_must_fail(kg_ncu_parse(h->text, h->len ? h->len : strlen(h->text), &launches, &err), KG_ERR_FORMAT, &err,
                 h->message, NULL);
}

/* Carriage returns, quotes in quotes, columns in another order and again, a last line without an end; no number is no
 * value. */
static void odd_but_good(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const char TEXT[] = "\"Metric Value\",\"Metric Unit\",\"Metric Name\",\"Kernel Name\",\"ID\"\r\n"
                               "\"1,5e3\",\"\",\"a\",\"say \"\"k\"\"<1, 2>\",\"7\"\r\n"
                               "\"1e999\",\"\",\"b\",\"say \"\"k\"\"<1, 2>\",\"7\"\r\n"
                               "\"\",\"\",\"c\",\"say \"\"k\"\"<1, 2>\",\"7\"\r\n"
                               "\"Metric Value\",\"Metric Unit\",\"Metric Name\",\"Kernel Name\",\"ID\"\r\n"
                               "\"(!) nan\",\"\",\"d\",\"other\",\"8\"";
    struct kg_ncu_launches l = parsed(TEXT);
    ck_assert_uint_eq(l.n_items, 2);
    ck_assert_str_eq(l.items[0].kernel, "say \"k\"<1, 2>");
    ck_assert_uint_eq(l.items[0].n_values, 1);
    ck_assert_double_eq(kg_ncu_value(&l.items[0], "a"), 15000);
    ck_assert_uint_eq(l.items[1].n_values, 0);
    kg_ncu_launches_free(&l);
}

/* A program in ncu's place; KIGO_NCU names it. */
static void stand_in(const struct kg_record *rec, const char *script) {
    char *path = kg_path_join(kg_scratch_dir(rec), "stand-in");
    struct kg_error err;
    kg_must(kg_file_write(path, script, strlen(script), &err), &err);
    ck_assert_int_eq(chmod(path, 0700), 0);
    setenv("KIGO_NCU", path, 1);
    free(path);
}

/* Takes its own words apart as ncu would: the options that matter, then the program with the case. */
#define TAKE_WORDS                                                                                                     \
    "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --log-file) log=$2; shift 2 ;; --metrics | --print-units | "         \
    "--print-kernel-base) shift 2 ;; --clock-control) [ \"$2\" = none ] || exit 9; shift 2 ;; --csv) shift ;; "        \
    "*) break ;; esac; done\n[ \"$KIGO_BENCH_COUNTED\" = 1 ] && [ \"$2\" = --case ] || exit 8\n"

static const struct failing {
    const char *name, *script, *message;
} FAILING[] = {
    { "ncu_is_not_there", NULL, "exit code 127" },
    { "ncu_cannot_count", TAKE_WORDS "echo '==ERROR== ERR_NVGPUCTRPERM - no permission' >$log; exit 1\n",
      "ERR_NVGPUCTRPERM" },
    { "the_case_fails",
      TAKE_WORDS
      "printf 'not ok 1\\n  message: \"too wrong\"\\n'; echo '==ERROR== returned an error code (1).' >$log; exit 1\n",
      "message: \"too wrong\"" },
    { "no_file", TAKE_WORDS "echo broken >&2\n", "broken" },
    { "no_counters", TAKE_WORDS "echo '==PROF== no kernels were profiled' >$log\n", "ncu wrote no counters" },
};

static void fails_in_words(struct kg_record *rec, const void *arg) {
    const struct failing *f = arg;
    struct kg_ncu_launches launches;
    struct kg_error err;
    if (f->script) stand_in(rec, f->script);
    else setenv("KIGO_NCU", "/nowhere/ncu", 1);
    const enum kg_status status = kg_ncu_run("/bin/true", "bench/a/b", kg_scratch_dir(rec), &launches, &err);
    unsetenv("KIGO_NCU");
    ck_assert_msg(status != KG_OK && strstr(err.message, f->message) != NULL, "'%s' does not say '%s'", err.message,
                  f->message);
}

static double metric(const struct kg_record *rec, const char *name) {
    for (size_t i = 0; i < json_array_size(rec->metrics); i++) {
        const json_t *m = json_array_get(rec->metrics, i);
        if (strcmp(json_string_value(json_object_get(m, "name")), name) == 0)
            return json_number_value(json_object_get(m, "value"));
    }
    return NAN;
}

/* Recorded where the key is one of those asked for, the main kernel's by their plain names; nothing under the counters.
 */
static void recorded_where_asked_for(struct kg_record *rec, const void *arg) {
    const struct kg_bench_machine gpu = { .name = "cuda" }, cpu = { .name = "cpu" };
    struct kg_buffer script = KG_BUFFER_INIT;
    (void)arg;
    kg_buffer_printf(&script, "%scat >$log <<'END'\n%sEND\n", TAKE_WORDS, SAMPLE);
    stand_in(rec, kg_buffer_text(&script));
    kg_buffer_free(&script);
    unsetenv("KIGO_BENCH_NCU");
    kg_bench_record_counters(rec, &gpu);
    setenv("KIGO_BENCH_NCU", "bench/other/*\nunit/other*\n", 1);
    kg_bench_record_counters(rec, &gpu);
    setenv("KIGO_BENCH_NCU", "bench/other/*\nunit/ncu/recorded*\n", 1);
    kg_bench_record_counters(rec, &cpu);
    setenv("KIGO_BENCH_COUNTED", "1", 1);
    kg_bench_record_counters(rec, &gpu);
    unsetenv("KIGO_BENCH_COUNTED");
    ck_assert_uint_eq(json_array_size(rec->metrics), 0);
    kg_bench_record_counters(rec, &gpu);
    unsetenv("KIGO_BENCH_NCU");
    unsetenv("KIGO_NCU");
    ck_assert_double_eq(metric(rec, "ncu.kernels"), 3);
    ck_assert_double_eq(metric(rec, "ncu.registers"), 18);
    ck_assert_double_eq(metric(rec, "ncu.spilled_bytes"), 0);
    ck_assert_double_eq(metric(rec, "ncu.spill_kernel.spilled_bytes"), 69206016 + 8650752);
    ck_assert(isnan(metric(rec, "ncu.achieved_occupancy")));
}

static void add(struct kg_case_list *list, const char *op, const char *name,
                void (*run)(struct kg_record *, const void *), const void *arg) {
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit", .op = op, .name = name, .run = run, .arg = arg });
}

static void build(struct kg_case_list *list) {
    static const struct kg_case CASES[] = {
        { .name = "reads_what_ncu_writes", .run = reads_what_ncu_writes },
        { .name = "figures_by_hand", .run = figures_by_hand },
        { .name = "operations_by_operand", .run = operations_by_operand },
        { .name = "sums_over_launches", .run = sums_over_launches },
        { .name = "launches_left_out", .run = launches_left_out },
        { .name = "asks_for_each_metric_once", .run = asks_for_each_metric_once },
        { .name = "odd_but_good", .run = odd_but_good },
        { .name = "recorded_where_asked_for", .run = recorded_where_asked_for },
    };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) add(list, "ncu", CASES[i].name, CASES[i].run, NULL);
    for (size_t i = 0; i < KG_COUNT_OF(HOSTILE); i++)
        add(list, "ncu_output_hostile", HOSTILE[i].name, hostile, &HOSTILE[i]);
    for (size_t i = 0; i < KG_COUNT_OF(FAILING); i++)
        add(list, "ncu_run", FAILING[i].name, fails_in_words, &FAILING[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
