/* Host timing: a body is run warm-up times apart and then once per sample, each sample timed by the monotonic clock. */
#ifndef KIGO_MEASURE_TIMING_H
#define KIGO_MEASURE_TIMING_H

#include <stddef.h>
#include <stdint.h>

/* Runs body(arg) n_warmup times unmeasured, then n_samples times, writing each run's duration to samples_ns. */
void kg_timing_host(void (*body)(void *arg), void *arg, size_t n_warmup, size_t n_samples, uint64_t *samples_ns);

#endif
