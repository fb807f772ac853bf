/* A libnvidia-ml.so.1 of two GPUs for the suites. FAKE_NVML in the environment says what is wrong with it: "init" (it
 * does not start), "power" (no figures of power), "none" (no GPU), "hot:N" (the first N times it is asked in a process,
 * the first GPU is slowed down by heat), "untold" (no throttle reasons), "slow"
 * (an answer takes 10 ms, and fake_nvml_busy is 1 meanwhile). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, N_GPUS = 2 };

static int gpus[N_GPUS];
static int started;
extern volatile int fake_nvml_busy;
volatile int fake_nvml_busy;

static int is_wrong(const char *what) {
    const char *said = getenv("FAKE_NVML");
    return said && strcmp(said, what) == 0;
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *text, unsigned size);
int nvmlDeviceGetUUID(void *device, char *text, unsigned size);
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *c);
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]);
int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *pending);
int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]);

static unsigned index_of(const void *device) {
    return device == &gpus[1];
}

int nvmlInit_v2(void) {
    started = !is_wrong("init");
    return started ? OK : UNINITIALIZED;
}

int nvmlShutdown(void) {
    started = 0;
    return OK;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "123.45.67");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *n) {
    *n = is_wrong("none") ? 0 : N_GPUS;
    return started ? OK : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &gpus[index];
    return OK;
}

int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    snprintf(text, size, "Fake GPU %u", index_of(device));
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    snprintf(text, size, "GPU-0123456%u-89ab-cdef-0123-456789abcdef", index_of(device));
    return OK;
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz) {
    *mhz = clock == 1 ? 1500 + index_of(device) : 2600;
    return OK;
}

int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz) {
    (void)device;
    *mhz = clock == 1 ? 1980 : 3201;
    return OK;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *c) {
    (void)sensor;
    *c = 40 + index_of(device);
    return OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) {
    (void)device;
    *mw = 123456;
    return is_wrong("power") ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) {
    (void)device;
    *mw = 700000;
    return is_wrong("power") ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    static int n_asked;
    const char *said = getenv("FAKE_NVML");
    *reasons = index_of(device) ? 0x24 : 0;
    if (said && strncmp(said, "hot:", 4) == 0 && !index_of(device)) *reasons = n_asked++ < atoi(said + 4) ? 0x41 : 0x1;
    return is_wrong("untold") ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]) {
    (void)device;
    memory[0] = 150000000000u;
    memory[1] = 149000000000u;
    memory[2] = 1000000000u;
    return OK;
}

int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *pending) {
    (void)device;
    *now = *pending = 1;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]) {
    const struct timespec pause = { 0, 10000000 };
    (void)device;
    if (is_wrong("slow")) {
        fake_nvml_busy = 1;
        nanosleep(&pause, NULL);
        fake_nvml_busy = 0;
    }
    rates[0] = 77;
    rates[1] = 55;
    return OK;
}
