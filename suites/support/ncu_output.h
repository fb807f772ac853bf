/* Counters as Nsight Compute writes them with `--csv --print-units base --metrics ...`: among its log lines ("==PROF==
 * ...") and the output of the profiled program, one line of column names, and then a line for each metric of each
 * launch, every field in quotes:
 *
 *     "ID","Process ID",...,"Kernel Name",...,"Section Name","Metric Name","Metric Unit","Metric Value"
 *     "0","635",...,"sdpa_kernel",...,"Command line profiler metrics","dram__bytes_read.sum","byte","33,561,600"
 *
 * (as version 2025.3.1 has it; Nsight Compute CLI, "Command Line Options", Output). A metric that the chip has not, or
 * ncu could not read, has the value n/a. */
#ifndef KIGO_SUITES_NCU_OUTPUT_H
#define KIGO_SUITES_NCU_OUTPUT_H

#include <kigo/status.h>
#include <stddef.h>

struct kg_ncu_value {
    char *metric, *unit;
    double value; /* finite */
};

struct kg_ncu_launch {
    char *id, *kernel;
    struct kg_ncu_value *values; /* those that are numbers */
    size_t n_values;
};

struct kg_ncu_launches {
    struct kg_ncu_launch *items; /* in the order they were launched */
    size_t n_items;
};

/* KG_ERR_FORMAT naming the line where a line of values has not the columns' number of fields, a quote is left open, or
 * there are no columns; then with ncu's own last "==ERROR==" line. Text may hold anything. */
KG_WARN_UNUSED enum kg_status kg_ncu_parse(const char *text, size_t len, struct kg_ncu_launches *launches,
                                           struct kg_error *err);
void kg_ncu_launches_free(struct kg_ncu_launches *launches);
/* Leaves out the launches of a kernel. */
void kg_ncu_launches_drop(struct kg_ncu_launches *launches, const char *kernel);

/* The launch's value of a metric, NAN if there is none. */
double kg_ncu_value(const struct kg_ncu_launch *launch, const char *metric);

#endif
