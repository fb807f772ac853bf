/* env.json: the machine and the libraries a run met. Nothing in it but "run" changes from one run to the next on the
 * same machine, so that its hash without "run" names the environment in the index. */
#include "bundle/internal.h"
#include "base/file.h"
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

json_t *kg_bundle_environment(const struct kg_bundle_options *options) {
    struct utsname system;
    const bool named = uname(&system) == 0;
    const char *lang = getenv("LC_ALL") ? getenv("LC_ALL") : getenv("LANG");
    const json_int_t memory_bytes = (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE);
    return json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu", cpu(), "memory_bytes",
                     memory_bytes, "os", value_in_file("/etc/os-release", "PRETTY_NAME", '='), "kernel",
                     named ? text_or_null(system.release) : json_null(), "machine",
                     named ? text_or_null(system.machine) : json_null(), "libraries", libraries(), "locale",
                     text_or_null(setlocale(LC_ALL, NULL)), "lang", text_or_null(lang), "gpus",
                     options->gpus ? json_deep_copy(options->gpus) : json_null(), "gpus_why",
                     options->gpus ? json_null() : text_or_null(options->gpus_why), "run",
                     options->run ? json_deep_copy(options->run) : json_object());
}
