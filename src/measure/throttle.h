/* Whether a GPU was slowed down while something was measured: NVML's throttle reasons and the clock, before and after.
 *
 * A measurement during which the GPU was slowed down at either end is thrown away as a whole and taken again, at most
 * KG_THROTTLE_TRIES times with a pause between; if none was clean the last one stays and says so. Idle clocks and
 * clocks that were set are no slowing down. Without NVML a measurement is taken once and nothing is known. */
#ifndef KIGO_MEASURE_THROTTLE_H
#define KIGO_MEASURE_THROTTLE_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KG_THROTTLE_TRIES = 4 };

struct kg_throttle;

/* Watches the GPU of that UUID (kg_gpu_info). KG_ERR_UNSUPPORTED if NVML does not answer or has no such GPU. */
KG_WARN_UNUSED enum kg_status kg_throttle_open(const unsigned char uuid[16], struct kg_throttle **throttle,
                                               struct kg_error *err);
void kg_throttle_close(struct kg_throttle *throttle); /* NULL is good */

struct kg_throttle_findings {
    bool known;                    /* NVML reported the reasons at both ends */
    bool throttled;                /* every try was slowed down, so the one that stays too */
    size_t n_discarded;            /* tries thrown away */
    int64_t reasons;               /* KG_NVML_THROTTLE_* that slow down, of all tries together */
    int64_t mhz_before, mhz_after; /* SM clock around the try that stays; -1: not reported */
};

/* Calls measure(arg) until a call was clean. throttle NULL: once. The first failure of measure is returned. */
KG_WARN_UNUSED enum kg_status kg_throttle_guard(struct kg_throttle *throttle,
                                                enum kg_status (*measure)(void *arg, struct kg_error *err), void *arg,
                                                struct kg_throttle_findings *findings, struct kg_error *err);

#endif
