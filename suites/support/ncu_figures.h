/* What is recorded of a kernel's hardware counters: which metrics Nsight Compute is asked for, and the figures made of
 * them. Names and meanings of the metrics: NVIDIA, Nsight Compute Documentation, "Profiling Guide" (Metrics Structure,
 * Metrics Decoder) and "Nsight Compute CLI" (Nvprof Metric Comparison); all are of gh100 in `ncu --query-metrics --chip
 * gh100`, 2025.3.1.
 *
 *     tensor_pipe_share   cycles in which the tensor pipe was active (mma.sync and wgmma alike), of those elapsed
 *     fp8_operations      that the tensor cores did on operands of FP8; int8_operations: of int8
 *     achieved_occupancy  warps active on a multiprocessor that has any, of the most it can hold
 *     memory_efficiency   bytes that global loads and stores asked for, of those in the 32-byte sectors that it took
 *     spilled_bytes       local memory read and written: registers that were spilled, and arrays on the stack
 *     l2_bytes            all that went through the L2, from any side; dram_*: its misses
 *
 * Of memory_efficiency: loads, stores and asynchronous copies by the threads' addresses; bulk copies (TMA) move whole
 * sectors of boxes whose rows are multiples of one, so each of their sectors counts as used.
 *
 * Under ncu each launch runs alone, several times, with its caches flushed before (its default, --cache-control all).
 */
#ifndef KIGO_SUITES_NCU_FIGURES_H
#define KIGO_SUITES_NCU_FIGURES_H

#include "suites/support/ncu_output.h"

/* The metrics to ask for, with commas between. malloc'ed. */
char *kg_ncu_metrics(void);

struct kg_ncu_figure {
    const char *name; /* "tensor_pipe_share" */
    const char *unit; /* "ratio", "bytes", "count", "ns" */
    double value;     /* NAN: ncu did not report what it takes */
};
enum { KG_NCU_FIGURES = 16 };

/* Of all launches of a kernel, each the median over them. */
void kg_ncu_figures(const struct kg_ncu_launches *launches, const char *kernel,
                    struct kg_ncu_figure figures[KG_NCU_FIGURES]);

/* Of all launches together: "time", "dram_bytes" (read and written), "l2_bytes". NAN where a launch has no such metric.
 */
enum { KG_NCU_SUMS = 3 };
void kg_ncu_sums(const struct kg_ncu_launches *launches, struct kg_ncu_figure sums[KG_NCU_SUMS]);

/* The kernel in which most time went, NULL if there was no launch. Borrowed. */
const char *kg_ncu_main_kernel(const struct kg_ncu_launches *launches);

#endif
