/* env.json: the machine and the libraries a run met. Nothing in it but "run" changes from one run to the next on the
 * same machine, so that its hash without "run" names the environment in the index. */
#include "bundle/internal.h"
#include "backend/gpu.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "measure/nvml.h"
#include <gnu/libc-version.h>
#include <locale.h>
#include <openssl/crypto.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static json_t *text_or_null(const char *text) {
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_null();
}

/* The value of the first line "<name><blanks><separator><blanks><value>" of a file in /proc or /etc, without quotes. */
static json_t *value_in_file(const char *path, const char *name, char separator) {
    char *text = NULL;
    size_t size_bytes = 0;
    json_t *value = NULL;
    if (kg_file_read(path, &text, &size_bytes, NULL) != KG_OK) return json_null();
    for (char *line = text; line && !value;) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        char *at = line + strlen(name);
        if (strncmp(line, name, strlen(name)) == 0) {
            at += strspn(at, " \t");
            if (*at == separator) {
                at += 1 + strspn(at + 1, " \t\"");
                at[strcspn(at, "\"")] = '\0';
                value = text_or_null(at);
            }
        }
        line = end ? end + 1 : NULL;
    }
    free(text);
    return value ? value : json_null();
}

static json_t *first_line(const char *path) {
    char *text = NULL;
    size_t size_bytes = 0;
    if (kg_file_read(path, &text, &size_bytes, NULL) != KG_OK) return json_null();
    text[strcspn(text, "\n")] = '\0';
    json_t *value = text_or_null(text);
    free(text);
    return value;
}

static json_t *cpu(void) {
    cpu_set_t usable;
    const int n_usable = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
    return json_pack("{s:o, s:I, s:o, s:o, s:o}", "model", value_in_file("/proc/cpuinfo", "model name", ':'),
                     "n_online", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "n_usable",
                     n_usable > 0 ? json_integer(n_usable) : json_null(), "governor",
                     first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), "cgroup_max",
                     first_line("/sys/fs/cgroup/cpu.max"));
}

static json_t *libraries(void) {
    char pcre2[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "libc", gnu_get_libc_version(), "sqlite", sqlite3_libversion(),
                     "jansson", jansson_version_str(), "pcre2", pcre2, "openssl", OpenSSL_version(OPENSSL_VERSION));
}

static json_t *figure_or_null(int64_t value) {
    return value >= 0 ? json_integer((json_int_t)value) : json_null();
}

/* What NVML adds to a GPU, found by its UUID; nulls where it does not tell. */
static void add_nvml(json_t *gpu, struct kg_nvml *nvml, const unsigned char uuid[16]) {
    struct kg_nvml_device device = { .max_sm_mhz = -1, .max_memory_mhz = -1, .power_limit_mw = -1, .ecc = -1 };
    bool found = false;
    for (size_t i = 0; nvml && !found && i < kg_nvml_n_devices(nvml); i++)
        found = kg_nvml_describe(nvml, i, &device, NULL) == KG_OK && memcmp(device.uuid, uuid, sizeof device.uuid) == 0;
    json_object_set_new(gpu, "nvidia_driver", found ? text_or_null(kg_nvml_driver(nvml)) : json_null());
    json_object_set_new(gpu, "max_sm_mhz", figure_or_null(found ? device.max_sm_mhz : -1));
    json_object_set_new(gpu, "max_memory_mhz", figure_or_null(found ? device.max_memory_mhz : -1));
    json_object_set_new(gpu, "power_limit_w",
                        found && device.power_limit_mw >= 0 ? json_real((double)device.power_limit_mw / 1000)
                                                            : json_null());
}

/* *why is left empty if there are GPUs. */
static json_t *gpus(struct kg_error *why) {
    enum { MAX_GPUS = 64 };
    struct kg_gpu_info *list = kg_xcalloc(MAX_GPUS, sizeof *list);
    struct kg_nvml *nvml = NULL;
    size_t n = 0;
    json_t *all = kg_gpu_list(list, MAX_GPUS, &n, why) == KG_OK ? json_array() : json_null();
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

json_t *kg_bundle_environment(const kg_json *run) {
    struct utsname system;
    struct kg_error why = { KG_OK, "" };
    json_t *gpu_list = gpus(&why);
    const bool named = uname(&system) == 0;
    const char *lang = getenv("LC_ALL") ? getenv("LC_ALL") : getenv("LANG");
    const json_int_t memory_bytes = (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE);
    return json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu", cpu(), "memory_bytes",
                     memory_bytes, "os", value_in_file("/etc/os-release", "PRETTY_NAME", '='), "kernel",
                     named ? text_or_null(system.release) : json_null(), "machine",
                     named ? text_or_null(system.machine) : json_null(), "libraries", libraries(), "locale",
                     text_or_null(setlocale(LC_ALL, NULL)), "lang", text_or_null(lang), "gpus", gpu_list, "gpus_why",
                     *why.message ? text_or_null(why.message) : json_null(), "run",
                     run ? json_deep_copy(run) : json_object());
}
