/* Memory of this process as the kernel counts it. */
#ifndef KIGO_MEASURE_PROCESS_MEMORY_H
#define KIGO_MEASURE_PROCESS_MEMORY_H

#include <stdint.h>

/* The largest resident set so far, in bytes (getrusage, which counts in KiB on Linux). */
uint64_t kg_process_peak_bytes(void);

#endif
