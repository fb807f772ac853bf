/* A thread that writes down what NVML reports while other work goes on.
 *
 * The file is CSV: a header line, then a line a GPU and moment:
 *     utc_us,gpu,sm_mhz,memory_mhz,power_mw,power_limit_mw,temperature_c,throttle_reasons,memory_used_bytes,
 *     utilization_percent
 * throttle_reasons are NVML's bits, as 0x4; a figure that is not reported is empty. Each line is one write, so a death
 * leaves whole lines. */
#ifndef KIGO_MEASURE_TELEMETRY_H
#define KIGO_MEASURE_TELEMETRY_H

#include <kigo/status.h>
#include <stdint.h>

struct kg_telemetry;

/* Starts, and returns after the first sample; the thread takes no signals. While it lives, a fork waits until no sample
 * is being taken: the child of one that met it would inherit NVML's and the allocator's locks. KG_ERR_UNSUPPORTED where
 * NVML does not answer or has no device: no file then. */
KG_WARN_UNUSED enum kg_status kg_telemetry_start(const char *path, uint32_t interval_ms,
                                                 struct kg_telemetry **telemetry, struct kg_error *err);
/* Takes a last sample and ends; NULL is good. The status is that of the first write that failed, after which nothing
 * was written and no line is cut. */
enum kg_status kg_telemetry_stop(struct kg_telemetry *telemetry, struct kg_error *err);

#endif
