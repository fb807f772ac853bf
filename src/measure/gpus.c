#include "measure/gpus.h"
#include "backend/gpu.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "measure/nvml.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static json_t *figure_or_null(int64_t value) {
    return value >= 0 ? json_integer((json_int_t)value) : json_null();
}

/* What NVML adds to a GPU, found by its UUID; nulls where it does not report them. */
static void add_nvml(json_t *gpu, struct kg_nvml *nvml, const unsigned char uuid[16]) {
    struct kg_nvml_device device = { .max_sm_mhz = -1, .max_memory_mhz = -1, .power_limit_mw = -1, .ecc = -1 };
    bool found = false;
    for (size_t i = 0; nvml && !found && i < kg_nvml_n_devices(nvml); i++)
        found = kg_nvml_describe(nvml, i, &device, NULL) == KG_OK && memcmp(device.uuid, uuid, sizeof device.uuid) == 0;
    json_object_set_new(gpu, "nvidia_driver", found ? json_string(kg_nvml_driver(nvml)) : json_null());
    json_object_set_new(gpu, "max_sm_mhz", figure_or_null(found ? device.max_sm_mhz : -1));
    json_object_set_new(gpu, "max_memory_mhz", figure_or_null(found ? device.max_memory_mhz : -1));
    json_object_set_new(gpu, "power_limit_w",
                        found && device.power_limit_mw >= 0 ? json_real((double)device.power_limit_mw / 1000)
                                                            : json_null());
}

json_t *kg_gpus_json(struct kg_error *why) {
    struct kg_gpu_info *list = kg_xcalloc(KG_MAX_GPUS, sizeof *list);
    struct kg_nvml *nvml = NULL;
    size_t n = 0;
    json_t *all = kg_gpu_list(list, KG_MAX_GPUS, &n, why) == KG_OK ? json_array() : NULL;
    if (n > 0 && kg_nvml_open(&nvml, NULL) != KG_OK) nvml = NULL;
    for (size_t i = 0; i < n; i++) {
        char uuid_sha256[KG_SHA256_HEX_SIZE];
        kg_sha256_hex(list[i].uuid, sizeof list[i].uuid, uuid_sha256);
        json_t *gpu =
            json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:i, s:i, s:b}", "name", list[i].name, "uuid_sha256", uuid_sha256,
                      "compute_capability", list[i].compute_capability, "n_sms", list[i].n_sms, "l2_bytes",
                      list[i].l2_bytes, "memory_bytes", (json_int_t)list[i].memory_bytes, "driver",
                      list[i].driver_version, "cuda_runtime", list[i].runtime_version, "ecc", list[i].ecc_enabled);
        add_nvml(gpu, nvml, list[i].uuid);
        json_array_append_new(all, gpu);
    }
    kg_nvml_close(nvml);
    free(list);
    return all;
}
