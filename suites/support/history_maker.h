/* Histories for the suites: many bundles' folders as the index reads them, written in a moment, with the commit,
 * machine, statuses and figures that a case asks for. They verify; what is derived from the records is empty. */
#ifndef KIGO_SUITES_HISTORY_MAKER_H
#define KIGO_SUITES_HISTORY_MAKER_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One case of a made run; set by the spec's function from what it is before. */
struct kg_made_case {
    bool absent;                   /* not planned at all */
    const char *status;            /* "pass" */
    const char *reason;            /* why it did not pass: "as the maker was asked" */
    const char *definition;        /* what def_sha is the hash of: "" */
    const char *backend;           /* "cuda" */
    const char *op;                /* "linear"; the key says linear whatever it is */
    uint64_t seed;                 /* 7 */
    double time_ns;                /* median of the timing time.graph.warm; 0: none */
    const char *timing;            /* the timing's kind; NULL: "graph" */
    bool throttled;                /* the timing is not valid */
    double max_abs;                /* of the comparison "y", limit 1 */
    double peak_bytes, left_bytes; /* of the tag "kv" */
    double limit;                  /* of max_abs: 1; 0: none, but one of 1 on nmse */
    double mixed_rel;              /* a mixed limit; 0: none */
    int n;                         /* values compared: 4096 */
    double max_rel, nmse;          /* 0.001, 1e-9 */
    const char *more_memory;       /* one more tag, of a GB; NULL: none */
};

struct kg_made_run {
    int64_t started_us;
    const char *commit; /* 40 hexadecimal digits, NULL: no git */
    bool dirty, partial;
    size_t n_cases;
    const char *gpu;       /* NULL: "Made GPU" */
    const char *cflags;    /* NULL: "-O3" */
    double canary;         /* speed of the machine's canaries against usual, 0: it has none */
    double sm_mhz;         /* of its telemetry, 0: there is none */
    double hotter_by;      /* degrees, than 46 */
    int n_throttled;       /* of its 5 samples */
    const char *os_kernel; /* NULL: "6.1" */
    const char *kernels;   /* text of build.json's "kernels"; NULL: none */
    void (*fill)(void *arg, size_t i, struct kg_made_case *c); /* NULL: as usual */
    void *arg;
};

/* Writes the folder below root; the id is put in *id (malloc'ed; id may be NULL). */
KG_WARN_UNUSED enum kg_status kg_made_run_write(const char *root, const struct kg_made_run *run, char **id,
                                                struct kg_error *err);
/* "bench/linear/case_<i>[cuda,f16,M=1 N=<64 (1 + i % 16)>]"; static storage */
const char *kg_made_case_key(size_t i);

#endif
