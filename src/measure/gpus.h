/* The GPUs of this machine as records name them. */
#ifndef KIGO_MEASURE_GPUS_H
#define KIGO_MEASURE_GPUS_H

#include <kigo/status.h>
#include <jansson.h>

/* An array, an object a GPU: name, uuid_sha256, compute_capability, n_sms, l2_bytes, memory_bytes, driver,
 * cuda_runtime, ecc, and of NVML (null where it does not report them) nvidia_driver, max_sm_mhz, max_memory_mhz,
 * power_limit_w. NULL if none can be used, *why says why. */
json_t *kg_gpus_json(struct kg_error *why);

#endif
