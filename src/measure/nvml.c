#include "measure/nvml.h"
#include "base/buffer.h"
#include "base/size.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* NVML's own types and numbers, as far as they are used. */
typedef void *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory;
};
enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_TEMPERATURE_GPU = 0 };

/* X(member, symbol, parameters): all return NVML's status. */
#define FUNCTIONS(X)                                                                                                   \
    X(init, "nvmlInit_v2", (void))                                                                                     \
    X(shutdown, "nvmlShutdown", (void))                                                                                \
    X(driver, "nvmlSystemGetDriverVersion", (char *, unsigned))                                                        \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *))                                                                    \
    X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))                                              \
    X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                                                      \
    X(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned))                                                      \
    X(clock, "nvmlDeviceGetClockInfo", (nvml_device, int, unsigned *))                                                 \
    X(max_clock, "nvmlDeviceGetMaxClockInfo", (nvml_device, int, unsigned *))                                          \
    X(temperature, "nvmlDeviceGetTemperature", (nvml_device, int, unsigned *))                                         \
    X(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *))                                                     \
    X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", (nvml_device, unsigned *))                                       \
    X(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device, unsigned long long *))                      \
    X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory *))                                          \
    X(ecc, "nvmlDeviceGetEccMode", (nvml_device, unsigned *, unsigned *))                                              \
    X(utilization, "nvmlDeviceGetUtilizationRates", (nvml_device, struct nvml_utilization *))

struct kg_nvml {
    void *library;
#define MEMBER(member, symbol, parameters) int(*member) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
    char driver_version[96];
    size_t n_devices;
    nvml_device *devices;
};

static enum kg_status find_functions(struct kg_nvml *nvml, const char *path, struct kg_error *err) {
    void *found;
#define FIND(member, symbol, parameters)                                                                               \
    found = dlsym(nvml->library, symbol);                                                                              \
    if (!found) return kg_fail(err, KG_ERR_UNSUPPORTED, "no NVML: %s has no " symbol, path);                           \
    memcpy(&nvml->member, &found, sizeof found); /* ISO C has no cast from an object's pointer to a function's */
    FUNCTIONS(FIND)
#undef FIND
    return KG_OK;
}

static enum kg_status find_devices(struct kg_nvml *nvml, struct kg_error *err) {
    unsigned n = 0;
    int code = nvml->count(&n);
    if (code != NVML_SUCCESS) return kg_fail(err, KG_ERR_UNSUPPORTED, "no NVML: nvmlDeviceGetCount_v2 gives %d", code);
    nvml->devices = kg_xcalloc((size_t)n + 1, sizeof *nvml->devices);
    for (unsigned i = 0; i < n; i++) {
        code = nvml->handle(i, &nvml->devices[i]);
        if (code != NVML_SUCCESS)
            return kg_fail(err, KG_ERR_UNSUPPORTED, "no NVML: device %u does not answer (%d)", i, code);
    }
    nvml->n_devices = n;
    return KG_OK;
}

enum kg_status kg_nvml_open(struct kg_nvml **out, struct kg_error *err) {
    const char *asked = getenv("KIGO_NVML"), *path = asked && *asked ? asked : "libnvidia-ml.so.1";
    struct kg_nvml *nvml = kg_xcalloc(1, sizeof *nvml);
    nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        free(nvml);
        return kg_fail(err, KG_ERR_UNSUPPORTED, "no NVML: %s", dlerror());
    }
    enum kg_status status = find_functions(nvml, path, err);
    const int code = status == KG_OK ? nvml->init() : NVML_SUCCESS;
    if (status != KG_OK || code != NVML_SUCCESS) {
        if (status == KG_OK) status = kg_fail(err, KG_ERR_UNSUPPORTED, "no NVML: nvmlInit_v2 gives %d", code);
        dlclose(nvml->library);
        free(nvml);
        return status;
    }
    if (nvml->driver(nvml->driver_version, sizeof nvml->driver_version) != NVML_SUCCESS) nvml->driver_version[0] = '\0';
    status = find_devices(nvml, err);
    if (status == KG_OK) *out = nvml;
    else kg_nvml_close(nvml);
    return status;
}

void kg_nvml_close(struct kg_nvml *nvml) {
    if (!nvml) return;
    (void)nvml->shutdown();
    dlclose(nvml->library);
    free(nvml->devices);
    free(nvml);
}

const char *kg_nvml_driver(const struct kg_nvml *nvml) {
    return nvml->driver_version;
}

size_t kg_nvml_n_devices(const struct kg_nvml *nvml) {
    return nvml->n_devices;
}

/* "GPU-" and 32 hexadecimal digits with dashes anywhere. */
static void parse_uuid(const char *text, unsigned char uuid[16]) {
    unsigned char read[16] = { 0 };
    size_t n = 0;
    memset(uuid, 0, sizeof read);
    if (strncmp(text, "GPU-", 4) != 0) return;
    for (const char *s = text + 4; *s && n < 2 * sizeof read; s++) {
        const char *const digits = "0123456789abcdef0123456789ABCDEF", *at = strchr(digits, *s);
        if (!at) continue;
        read[n / 2] = (unsigned char)(read[n / 2] << 4 | ((at - digits) & 15));
        n++;
    }
    if (n == 2 * sizeof read) memcpy(uuid, read, sizeof read);
}

static int64_t value_or_unknown(int code, unsigned long long value) {
    return code == NVML_SUCCESS && value <= INT64_MAX ? (int64_t)value : -1;
}

static enum kg_status check_index(const struct kg_nvml *nvml, size_t index, struct kg_error *err) {
    if (index < nvml->n_devices) return KG_OK;
    return kg_fail(err, KG_ERR_RANGE, "NVML has %zu devices, none of index %zu", nvml->n_devices, index);
}

enum kg_status kg_nvml_describe(struct kg_nvml *nvml, size_t index, struct kg_nvml_device *device,
                                struct kg_error *err) {
    const enum kg_status status = check_index(nvml, index, err);
    if (status != KG_OK) return status;
    nvml_device handle = nvml->devices[index];
    char uuid[96] = "";
    unsigned value = 0, pending = 0;
    int code;
    if (nvml->name(handle, device->name, sizeof device->name) != NVML_SUCCESS) device->name[0] = '\0';
    code = nvml->uuid(handle, uuid, sizeof uuid);
    parse_uuid(code == NVML_SUCCESS ? uuid : "", device->uuid);
    code = nvml->max_clock(handle, NVML_CLOCK_SM, &value);
    device->max_sm_mhz = value_or_unknown(code, value);
    code = nvml->max_clock(handle, NVML_CLOCK_MEMORY, &value);
    device->max_memory_mhz = value_or_unknown(code, value);
    code = nvml->power_limit(handle, &value);
    device->power_limit_mw = value_or_unknown(code, value);
    code = nvml->ecc(handle, &value, &pending);
    device->ecc = value_or_unknown(code, value);
    return KG_OK;
}

enum kg_status kg_nvml_speed(struct kg_nvml *nvml, size_t index, int64_t *throttle_reasons, int64_t *sm_mhz,
                             struct kg_error *err) {
    const enum kg_status status = check_index(nvml, index, err);
    if (status != KG_OK) return status;
    unsigned long long reasons = 0;
    unsigned mhz = 0;
    int code = nvml->throttle(nvml->devices[index], &reasons);
    *throttle_reasons = value_or_unknown(code, reasons);
    code = nvml->clock(nvml->devices[index], NVML_CLOCK_SM, &mhz);
    *sm_mhz = value_or_unknown(code, mhz);
    return KG_OK;
}

enum kg_status kg_nvml_sample(struct kg_nvml *nvml, size_t index, struct kg_nvml_sample *sample, struct kg_error *err) {
    const enum kg_status status = kg_nvml_speed(nvml, index, &sample->throttle_reasons, &sample->sm_mhz, err);
    if (status != KG_OK) return status;
    nvml_device handle = nvml->devices[index];
    unsigned value = 0;
    struct nvml_memory memory = { 0 };
    struct nvml_utilization utilization = { 0 };
    int code = nvml->clock(handle, NVML_CLOCK_MEMORY, &value);
    sample->memory_mhz = value_or_unknown(code, value);
    code = nvml->power(handle, &value);
    sample->power_mw = value_or_unknown(code, value);
    code = nvml->power_limit(handle, &value);
    sample->power_limit_mw = value_or_unknown(code, value);
    code = nvml->temperature(handle, NVML_TEMPERATURE_GPU, &value);
    sample->temperature_c = value_or_unknown(code, value);
    code = nvml->memory(handle, &memory);
    sample->memory_used_bytes = value_or_unknown(code, memory.used);
    code = nvml->utilization(handle, &utilization);
    sample->utilization_percent = value_or_unknown(code, utilization.gpu);
    return KG_OK;
}
