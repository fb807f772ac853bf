#include "measure/timing.h"
#include "base/clock.h"

void kg_timing_host(void (*body)(void *arg), void *arg, size_t n_warmup, size_t n_samples, uint64_t *samples_ns) {
    for (size_t i = 0; i < n_warmup; i++) body(arg);
    for (size_t i = 0; i < n_samples; i++) {
        const uint64_t start_ns = kg_clock_monotonic_ns();
        body(arg);
        samples_ns[i] = kg_clock_monotonic_ns() - start_ns;
    }
}
