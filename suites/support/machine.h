/* What the bench programs share: the scale they run at, a back end opened once with the roofline measured on it, data
 * to work on, and timings recorded with what they mean. */
#ifndef KIGO_SUITES_BENCH_MACHINE_H
#define KIGO_SUITES_BENCH_MACHINE_H

#include "backend/backend.h"
#include "backend/measure.h"
#include "measure/roofline.h"
#include "measure/throttle.h"
#include "suites/harness/case.h"
#include <stdbool.h>

/* True under `kigo bench --quick` (KIGO_BENCH=quick): small shapes only. */
bool kg_bench_quick(void);

struct kg_bench_machine {
    const char *name;
    struct kg_backend *backend;
    uint64_t cache_bytes;
    bool has_roofline[2];           /* of KG_PRECISION_F32, KG_PRECISION_F16 */
    struct kg_roofline roofline[2]; /* by measured canaries: kg_bench_roofline */
};

/* The back end, opened once in a process. NULL, with the case skipped and the reason given, if it is not there; the
 * case fails if it cannot time. */
struct kg_bench_machine *kg_bench_machine_open(struct kg_record *rec, const char *backend);

enum kg_dtype kg_bench_dtype(enum kg_precision precision); /* of weights stored like the activations */

/* Workspace of linear from n_in to n_out for n_rows, and of such attention unless NULL. */
uint64_t kg_bench_workspace(struct kg_bench_machine *machine, enum kg_precision precision, uint32_t n_rows,
                            uint32_t n_in, uint32_t n_out, const struct kg_attention_args *attention);

/* The canaries of this process, measured at the first call for a precision of the matrix product; of f8 and i8, f16's
 * (f32's of the cpu). */
const struct kg_roofline *kg_bench_roofline(struct kg_bench_machine *machine, enum kg_precision precision);

/* Memory of the back end for a case; freed by kg_bench_free in reverse. Fails the case if there is not enough. */
struct kg_block kg_bench_alloc(struct kg_bench_machine *machine, uint64_t size_bytes);
void kg_bench_free(struct kg_bench_machine *machine, struct kg_block *blocks, size_t n_blocks);

/* The number of copies of a set of set_bytes that cold iterations rotate through. 0: measure warm only, because the set
 * is too small (device.h) or needs too much memory for the scale, or because nothing is timed (counters.h). */
size_t kg_bench_cold_sets(const struct kg_bench_machine *machine, uint64_t set_bytes);

/* Fills elements with normal values (mean 0, deviation 1), never zeros; another seed, other values. F8: E4M3 of
 * KG_BENCH_F8_PER_UNIT times such values, I8: int8 of KG_BENCH_I8_PER_UNIT times, which 4.5 deviations fill. */
enum { KG_BENCH_F8_PER_UNIT = 64, KG_BENCH_I8_PER_UNIT = 28 };
void kg_bench_fill(struct kg_bench_machine *machine, void *to, uint64_t n_elems, enum kg_precision precision,
                   uint64_t seed);
/* Fills with what normal values encode to, again and again: a number of blocks that shares no factor with powers of
 * two. */
void kg_bench_fill_blocks(struct kg_bench_machine *machine, enum kg_dtype dtype, void *to, uint64_t size_bytes);
/* Fills with NaN (i8: -1). */
void kg_bench_poison(struct kg_bench_machine *machine, void *to, uint64_t n_elems, enum kg_precision precision);
/* Elements first .. first + n - 1 of an array of the back end, as float32. malloc'ed. */
float *kg_bench_fetch(struct kg_bench_machine *machine, const void *from, uint64_t first, uint64_t n,
                      enum kg_precision precision);
/* Fails the case unless each element is finite: a poisoned output was written as a whole. */
void kg_bench_expect_written(struct kg_bench_machine *machine, const void *from, uint64_t n_elems,
                             enum kg_precision precision);

/* Measures by measure(arg) and, on a GPU that NVML watches, again while the GPU was slowed down (measure/throttle.h).
 * Call kg_bench_record_guarded after the timing of the samples that stayed: it records what was found under
 * `name`.discarded (samples thrown away) and `name`.sm_clock_before and _after, and marks a timing that was slowed down
 * as invalid. Fails the case if measure fails. */
struct kg_throttle_findings kg_bench_guard(const char *backend, enum kg_status (*measure)(void *, struct kg_error *),
                                           void *arg);
void kg_bench_record_guarded(struct kg_record *rec, const char *name, const struct kg_throttle_findings *findings,
                             size_t n_samples);

/* The work of a timing. launch(arg, t) runs iteration t on set t % n_sets. */
struct kg_bench_work {
    enum kg_status (*launch)(void *arg, size_t iteration, struct kg_error *err);
    void *arg;
    size_t n_sets;       /* together larger than twice the L2 */
    bool cold;           /* use all sets, otherwise only the first; launch decides */
    double bytes, flops; /* per iteration, by count */
    /* Timing by graph: iterations longer than this and above 100 TFLOP/s are timed in bursts, a sample and a pause of
     * 40 ms, so that the power limit does not slow them. 0: no bursts. */
    double bursts_from_ns;
};

/* Times and records: `time` with its statistics and samples, and as metrics <kind>.<state>.{gb_per_s, tflop_per_s,
 * roofline_share}. Returns the median in ns. */
double kg_bench_time(struct kg_record *rec, struct kg_bench_machine *machine, const struct kg_roofline *roofline,
                     enum kg_timing_kind kind, const struct kg_bench_work *work);

/* kg_bench_time cold (if has_cold) and warm, by graph on a device and by the host's clock otherwise. kernel_too: on a
 * device also cold by kernel. Warm timing repeats iteration 0. Also records the canaries (with a matrix product in
 * `precision`) and the number of sets. If another process counts (counters.h), launches the work and records
 * nothing. */
void kg_bench_time_states(struct kg_record *rec, struct kg_bench_machine *machine, enum kg_precision precision,
                          const struct kg_bench_work *work, bool has_cold, bool kernel_too);

/* Records the canaries a case's shares are shares of. */
void kg_bench_record_roofline(struct kg_record *rec, const struct kg_roofline *roofline);

#endif
