/* What NVIDIA's management library reports of GPUs: clocks, power, temperature, throttling, memory.
 *
 * The library comes with the driver, so it is opened at run time (libnvidia-ml.so.1, or the file that the environment
 * variable KIGO_NVML names) and no header of it is needed. Figures a device does not report are -1. Functions may be
 * called from several threads. (NVIDIA, NVML API Reference Guide.) */
#ifndef KIGO_MEASURE_NVML_H
#define KIGO_MEASURE_NVML_H

#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

struct kg_nvml;

/* KG_ERR_UNSUPPORTED with the reason if there is no such library or it does not answer. */
KG_WARN_UNUSED enum kg_status kg_nvml_open(struct kg_nvml **nvml, struct kg_error *err);
void kg_nvml_close(struct kg_nvml *nvml); /* NULL is good */

const char *kg_nvml_driver(const struct kg_nvml *nvml); /* "580.65.06"; "" if not reported */
size_t kg_nvml_n_devices(const struct kg_nvml *nvml);

/* What does not change while programs run. */
struct kg_nvml_device {
    char name[96];
    unsigned char uuid[16]; /* as in struct kg_gpu_info; zeros if not reported */
    int64_t max_sm_mhz, max_memory_mhz;
    int64_t power_limit_mw;
    int64_t ecc; /* 1 on, 0 off */
};
KG_WARN_UNUSED enum kg_status kg_nvml_describe(struct kg_nvml *nvml, size_t index, struct kg_nvml_device *device,
                                               struct kg_error *err);

struct kg_nvml_sample {
    int64_t sm_mhz, memory_mhz;
    int64_t power_mw, power_limit_mw;
    int64_t temperature_c;
    int64_t throttle_reasons; /* bits of KG_NVML_THROTTLE_*; 0: at full speed */
    int64_t memory_used_bytes;
    int64_t utilization_percent;
};
/* Bits of throttle_reasons. GPU_IDLE and APPLICATION_CLOCKS are no slowing down. */
enum {
    KG_NVML_THROTTLE_GPU_IDLE = 0x1,
    KG_NVML_THROTTLE_APPLICATION_CLOCKS = 0x2,
    KG_NVML_THROTTLE_POWER_CAP = 0x4,
    KG_NVML_THROTTLE_HW_SLOWDOWN = 0x8,
    KG_NVML_THROTTLE_SYNC_BOOST = 0x10,
    KG_NVML_THROTTLE_SW_THERMAL = 0x20,
    KG_NVML_THROTTLE_HW_THERMAL = 0x40,
    KG_NVML_THROTTLE_HW_POWER_BRAKE = 0x80,
};
/* throttle_reasons and sm_mhz only: some of the others take NVML milliseconds. */
KG_WARN_UNUSED enum kg_status kg_nvml_speed(struct kg_nvml *nvml, size_t index, int64_t *throttle_reasons,
                                            int64_t *sm_mhz, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_nvml_sample(struct kg_nvml *nvml, size_t index, struct kg_nvml_sample *sample,
                                             struct kg_error *err);

#endif
