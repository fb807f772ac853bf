/* Hardware counters of a bench case (`kigo bench --ncu`): the case's program is run once more under Nsight Compute,
 * with this case alone and a few launches of its work, and what ncu counted is recorded as metrics ncu.<figure>
 * (ncu_figures.h) of its main kernel, the one in which most time goes; of other kernels as ncu.<kernel>.<figure>; of
 * all kernels of an iteration together as ncu.sum.{time, dram_bytes, l2_bytes}. */
#ifndef KIGO_SUITES_COUNTERS_H
#define KIGO_SUITES_COUNTERS_H

#include "suites/support/machine.h"

/* True in the process that runs under ncu (KIGO_BENCH_COUNTED is set): a case then launches its work by
 * kg_bench_launch_counted, and times nothing. */
bool kg_bench_counted(void);
void kg_bench_launch_counted(struct kg_bench_machine *machine, const struct kg_bench_work *work);

/* Counts and records, where the case was chosen (KIGO_BENCH_NCU, globs over keys, a line each) and runs on a GPU;
 * nothing otherwise. The case fails with ncu's message if it cannot count. A figure that ncu did not report is left
 * out, and a line of the log says so. */
void kg_bench_record_counters(struct kg_record *rec, const struct kg_bench_machine *machine);

#endif
