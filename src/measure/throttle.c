#include "measure/throttle.h"
#include "base/buffer.h"
#include "measure/nvml.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t SLOWING = KG_NVML_THROTTLE_POWER_CAP | KG_NVML_THROTTLE_HW_SLOWDOWN | KG_NVML_THROTTLE_SYNC_BOOST |
                               KG_NVML_THROTTLE_SW_THERMAL | KG_NVML_THROTTLE_HW_THERMAL |
                               KG_NVML_THROTTLE_HW_POWER_BRAKE;
enum { PAUSE_MS = 100 }; /* for power and heat to fall below their limits; twice as long each time */

struct kg_throttle {
    struct kg_nvml *nvml;
    size_t device;
};

enum kg_status kg_throttle_open(const unsigned char uuid[16], struct kg_throttle **throttle, struct kg_error *err) {
    struct kg_throttle own = { 0 };
    enum kg_status status = kg_nvml_open(&own.nvml, err);
    if (status != KG_OK) return status;
    for (; own.device < kg_nvml_n_devices(own.nvml); own.device++) {
        struct kg_nvml_device device;
        status = kg_nvml_describe(own.nvml, own.device, &device, err);
        if (status != KG_OK || memcmp(device.uuid, uuid, sizeof device.uuid) == 0) break;
    }
    if (status == KG_OK && own.device == kg_nvml_n_devices(own.nvml))
        status = kg_fail(err, KG_ERR_UNSUPPORTED, "NVML has no device of the GPU's UUID");
    if (status != KG_OK) {
        kg_nvml_close(own.nvml);
        return status;
    }
    *throttle = kg_xmalloc(sizeof own);
    **throttle = own;
    return KG_OK;
}

void kg_throttle_close(struct kg_throttle *throttle) {
    if (!throttle) return;
    kg_nvml_close(throttle->nvml);
    free(throttle);
}

struct speed {
    int64_t reasons, mhz; /* -1: not reported */
};

static struct speed speed_of(const struct kg_throttle *t) {
    struct speed s;
    if (kg_nvml_speed(t->nvml, t->device, &s.reasons, &s.mhz, NULL) != KG_OK) s.reasons = s.mhz = -1;
    return s;
}

static void pause_before(int try) {
    const long ms = (long)PAUSE_MS << (try - 1);
    const struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    nanosleep(&pause, NULL);
}

enum kg_status kg_throttle_guard(struct kg_throttle *throttle,
                                 enum kg_status (*measure)(void *arg, struct kg_error *err), void *arg,
                                 struct kg_throttle_findings *findings, struct kg_error *err) {
    struct kg_throttle_findings f = { .mhz_before = -1, .mhz_after = -1 };
    enum kg_status status = KG_OK;
    for (int i = 0; i < KG_THROTTLE_TRIES && status == KG_OK; i++) {
        struct speed before = { 0 }, after = { 0 };
        if (i > 0) pause_before(i);
        if (throttle) before = speed_of(throttle);
        status = measure(arg, err);
        if (!throttle || status != KG_OK) break;
        after = speed_of(throttle);
        f.known = before.reasons >= 0 && after.reasons >= 0;
        f.mhz_before = before.mhz;
        f.mhz_after = after.mhz;
        if (!f.known) break;
        const int64_t reasons = (before.reasons | after.reasons) & SLOWING;
        f.reasons |= reasons;
        f.throttled = reasons != 0;
        if (!f.throttled) break;
        f.n_discarded += i + 1 < KG_THROTTLE_TRIES; /* the last one stays */
    }
    *findings = f;
    return status;
}
