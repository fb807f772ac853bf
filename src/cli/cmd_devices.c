/* kigo devices: what this build and machine can run on. */
#include "backend/gpu.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

static json_t *gpu_json(const struct kg_gpu_info *gpu) {
    char uuid_sha256[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(gpu->uuid, sizeof gpu->uuid, uuid_sha256);
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:i, s:i, s:b}", "name", gpu->name, "uuid_sha256", uuid_sha256,
                     "compute_capability", gpu->compute_capability, "n_sms", gpu->n_sms, "l2_bytes", gpu->l2_bytes,
                     "memory_bytes", (json_int_t)gpu->memory_bytes, "driver_version", gpu->driver_version,
                     "runtime_version", gpu->runtime_version, "ecc_enabled", gpu->ecc_enabled);
}

static enum kg_status print_json(const struct kg_gpu_info *gpus, size_t n_gpus, const char *why_none,
                                 struct kg_error *err) {
    json_t *list = json_array();
    for (size_t i = 0; i < n_gpus; i++) json_array_append_new(list, gpu_json(&gpus[i]));
    return kg_cli_print_json(json_pack("{s:I, s:o, s:s?}", "processors", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
                                       "gpus", list, "no_gpu_reason", why_none),
                             err);
}

static enum kg_status print_text(const struct kg_gpu_info *gpus, size_t n_gpus, const char *why_none,
                                 struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_text_printf(&out, "cpu   %ld processors\n", sysconf(_SC_NPROCESSORS_ONLN));
    if (why_none) kg_text_printf(&out, "cuda  %s\n", why_none);
    for (size_t i = 0; i < n_gpus; i++) kg_gpu_put(&gpus[i], i, &out);
    return kg_cli_print(&out, err);
}

int kg_cmd_devices(int argc, char **argv) {
    bool json = false;
    const struct kg_option options[] = {
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        "kigo devices",
        "[--json]",
        "Lists the processors and GPUs this build can run on, or says why there is no GPU.",
        options,
        KG_COUNT_OF(options),
        0,
        0
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;

    struct kg_gpu_info gpus[KG_MAX_GPUS];
    size_t n_gpus;
    const bool found = kg_gpu_list(gpus, KG_MAX_GPUS, &n_gpus, &err) == KG_OK;
    struct kg_error print_err;
    const char *why = found ? NULL : err.message;
    const enum kg_status status =
        json ? print_json(gpus, n_gpus, why, &print_err) : print_text(gpus, n_gpus, why, &print_err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("devices", &print_err);
}
