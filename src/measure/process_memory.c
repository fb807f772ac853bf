#include "measure/process_memory.h"
#include <sys/resource.h>

uint64_t kg_process_peak_bytes(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return (uint64_t)usage.ru_maxrss * 1024;
}
