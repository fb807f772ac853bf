#include "suites/support/ncu_figures.h"
#include "base/buffer.h"
#include "base/size.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char TIME[] = "gpu__time_duration.sum";
static const char LOAD_SECTORS[] = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"; /* asynchronous copies too */
static const char STORE_SECTORS[] = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum";
static const char ASKED_SHARE[] = "smsp__sass_average_data_bytes_per_sector_mem_global.pct";
static const char BULK_LOAD_SECTORS[] = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum";
static const char BULK_STORE_SECTORS[] = "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum";

static double memory_efficiency(const struct kg_ncu_launch *l) {
    const double threads = kg_ncu_value(l, LOAD_SECTORS) + kg_ncu_value(l, STORE_SECTORS);
    const double bulk = kg_ncu_value(l, BULK_LOAD_SECTORS) + kg_ncu_value(l, BULK_STORE_SECTORS);
    const double asked = threads > 0 ? threads * kg_ncu_value(l, ASKED_SHARE) / 100 : threads;
    return threads + bulk > 0 ? (asked + bulk) / (threads + bulk) : NAN;
}

/* A figure is the sum of its metrics times the factor, or what `make` makes of them. */
enum { MAX_METRICS = 5 };
static const struct row {
    const char *name, *unit;
    double factor;
    const char *metrics[MAX_METRICS];
    double (*make)(const struct kg_ncu_launch *launch);
} ROWS[] = {
    { "time", "ns", 1, { TIME }, NULL },
    { "tensor_pipe_share", "ratio", 0.01, { "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed" }, NULL },
    { "fp8_operations", "count", 1, { "sm__ops_path_tensor_src_fp8.sum" }, NULL },
    { "int8_operations", "count", 1, { "sm__ops_path_tensor_src_int8.sum" }, NULL },
    { "achieved_occupancy", "ratio", 0.01, { "sm__warps_active.avg.pct_of_peak_sustained_active" }, NULL },
    { "memory_efficiency",
      "ratio",
      1,
      { LOAD_SECTORS, STORE_SECTORS, ASKED_SHARE, BULK_LOAD_SECTORS, BULK_STORE_SECTORS },
      memory_efficiency },
    { "dram_read_bytes", "bytes", 1, { "dram__bytes_read.sum" }, NULL },
    { "dram_written_bytes", "bytes", 1, { "dram__bytes_write.sum" }, NULL },
    { "l2_bytes", "bytes", 1, { "lts__t_bytes.sum" }, NULL },
    { "bulk_copy_sectors", "count", 1, { BULK_LOAD_SECTORS, BULK_STORE_SECTORS }, NULL },
    { "sectors_per_load",
      "count",
      1,
      { "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio" },
      NULL },
    { "sectors_per_store",
      "count",
      1,
      { "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio" },
      NULL },
    { "registers", "count", 1, { "launch__registers_per_thread" }, NULL },
    { "shared_bytes", "bytes", 1, { "launch__shared_mem_per_block" }, NULL },
    { "spilled_bytes",
      "bytes",
      1,
      { "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum" },
      NULL },
    { "blocks", "count", 1, { "launch__grid_size" }, NULL },
};
_Static_assert(KG_COUNT_OF(ROWS) == KG_NCU_FIGURES, "a row a figure");

char *kg_ncu_metrics(void) {
    struct kg_buffer b = KG_BUFFER_INIT;
    for (size_t r = 0; r < KG_COUNT_OF(ROWS); r++)
        for (size_t m = 0; m < MAX_METRICS && ROWS[r].metrics[m]; m++)
            if (!b.len || !strstr(b.data, ROWS[r].metrics[m]))
                kg_buffer_printf(&b, "%s%s", b.len ? "," : "", ROWS[r].metrics[m]);
    return b.data;
}

static double figure_of(const struct row *row, const struct kg_ncu_launch *launch) {
    double sum = 0;
    if (row->make) return row->make(launch);
    for (size_t m = 0; m < MAX_METRICS && row->metrics[m]; m++) sum += kg_ncu_value(launch, row->metrics[m]);
    return row->factor * sum;
}

void kg_ncu_figures(const struct kg_ncu_launches *launches, const char *kernel,
                    struct kg_ncu_figure figures[KG_NCU_FIGURES]) {
    double *const values = kg_xcalloc(launches->n_items + 1, sizeof *values);
    for (size_t r = 0; r < KG_COUNT_OF(ROWS); r++) {
        size_t n = 0;
        for (size_t i = 0; i < launches->n_items; i++) {
            const struct kg_ncu_launch *l = &launches->items[i];
            if (strcmp(l->kernel, kernel) != 0) continue;
            values[n] = figure_of(&ROWS[r], l);
            n += !isnan(values[n]);
        }
        figures[r] = (struct kg_ncu_figure){ ROWS[r].name, ROWS[r].unit, n > 0 ? kg_median(values, n) : NAN };
    }
    free(values);
}

void kg_ncu_sums(const struct kg_ncu_launches *launches, struct kg_ncu_figure sums[KG_NCU_SUMS]) {
    static const struct row SUMS[KG_NCU_SUMS] = {
        { "time", "ns", 1, { TIME }, NULL },
        { "dram_bytes", "bytes", 1, { "dram__bytes_read.sum", "dram__bytes_write.sum" }, NULL },
        { "l2_bytes", "bytes", 1, { "lts__t_bytes.sum" }, NULL },
    };
    for (size_t r = 0; r < KG_NCU_SUMS; r++) {
        sums[r] = (struct kg_ncu_figure){ SUMS[r].name, SUMS[r].unit, launches->n_items > 0 ? 0 : NAN };
        for (size_t i = 0; i < launches->n_items; i++) sums[r].value += figure_of(&SUMS[r], &launches->items[i]);
    }
}

const char *kg_ncu_main_kernel(const struct kg_ncu_launches *launches) {
    const char *found = NULL;
    double most = -1;
    for (size_t i = 0; i < launches->n_items; i++) {
        double sum = 0;
        for (size_t k = 0; k < launches->n_items; k++) {
            const double ns = kg_ncu_value(&launches->items[k], TIME);
            if (strcmp(launches->items[k].kernel, launches->items[i].kernel) == 0 && !isnan(ns)) sum += ns;
        }
        if (sum > most) {
            most = sum;
            found = launches->items[i].kernel;
        }
    }
    return found;
}
