/* What SQLite is asked to do: every statement that this process runs while a trace is on, with the work it took. The
 * work is counted in steps of SQLite's virtual machine (SQLITE_STMTSTATUS_VM_STEP,
 * https://sqlite.org/c3ref/c_stmtstatus_counter.html), the same for the same statement over the same rows, however
 * loaded the machine. One trace at a time. */
#ifndef KIGO_SUITES_STATEMENT_TRACE_H
#define KIGO_SUITES_STATEMENT_TRACE_H

#include <stddef.h>
#include <stdint.h>

struct kg_traced {
    char *sql;
    uint64_t n_steps; /* by all its runs */
};
struct kg_trace {
    struct kg_traced *items; /* a text once, in the order of first use */
    size_t n_items;
    uint64_t n_steps;
};

/* Connections that are opened from here on are traced. */
void kg_trace_begin(void);
/* Ends the trace; the result is the caller's to free. Connections must be closed. */
void kg_trace_end(struct kg_trace *trace);
void kg_trace_free(struct kg_trace *trace);

#endif
