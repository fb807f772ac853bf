#include "suites/support/history_maker.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "bundle/manifest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *kg_made_case_key(size_t i) {
    static char key[96];
    snprintf(key, sizeof key, "bench/linear/case_%zu[cuda,f16,M=1 N=%zu]", i, 64 * (1 + i % 16));
    return key;
}

struct files {
    struct kg_buffer plan, results, journal, samples;
    size_t n_planned, n_pass, n_fail, n_skip, n_crash, n_timeout, n_norun;
};

static void count(struct files *files, const char *status) {
    const struct {
        const char *status;
        size_t *n;
    } rows[] = { { "pass", &files->n_pass },   { "fail", &files->n_fail },       { "skip", &files->n_skip },
                 { "crash", &files->n_crash }, { "timeout", &files->n_timeout }, { "norun", &files->n_norun } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) *rows[i].n += strcmp(rows[i].status, status) == 0;
    files->n_planned++;
}

static void put_plan(struct files *files, const char *key, const char *rest, const char *def_sha, uint64_t seed) {
    kg_buffer_printf(&files->plan,
                     "{\"def_sha\":\"%s\",\"key\":\"%s\",%s,\"seed\":\"%llu\",\"spec\":\"FT-054\","
                     "\"suite\":\"bench/bench_made\",\"timeout_s\":60.0}\n",
                     def_sha, key, rest, (unsigned long long)seed);
}

static void put_result_head(struct files *files, const char *key, const char *def_sha, const struct kg_made_case *c) {
    const bool passed = strcmp(c->status, "pass") == 0;
    kg_buffer_printf(&files->results,
                     "{\"def_sha\":\"%s\",\"duration_ns\":1000000,\"key\":\"%s\",\"reason\":%s%s%s,\"seed\":\"%llu\","
                     "\"started_us\":1700000000000000,\"status\":\"%s\",\"suite\":\"bench/bench_made\",",
                     def_sha, key, passed ? "" : "\"", passed ? "null" : c->reason, passed ? "" : "\"",
                     (unsigned long long)c->seed, c->status);
    kg_buffer_printf(&files->journal,
                     "{\"event\":\"start\",\"key\":\"%s\",\"utc_us\":1700000000000000}\n"
                     "{\"event\":\"end\",\"key\":\"%s\",\"status\":\"%s\",\"utc_us\":1700000000001000}\n",
                     key, key, c->status);
    count(files, c->status);
}

/* Samples that are all the median. */
static void put_timing(struct files *files, const struct kg_made_case *c) {
    enum { N_SAMPLES = 20 };
    if (c->time_ns <= 0) return;
    const float sample = (float)c->time_ns;
    const size_t offset = files->samples.len / sizeof sample;
    for (int i = 0; i < N_SAMPLES; i++) kg_buffer_append(&files->samples, &sample, sizeof sample);
    kg_buffer_printf(&files->results,
                     "{\"bytes\":1048576,\"ci_hi\":%.17g,\"ci_lo\":%.17g,\"flops\":2097152,\"kind\":\"%s\",\"mad\":0,"
                     "\"max\":%.17g,\"median\":%.17g,\"min\":%.17g,\"n\":%d,\"name\":\"time\",\"samples_offset\":%zu,"
                     "\"state\":\"warm\",\"valid\":%s}",
                     c->time_ns, c->time_ns, c->timing ? c->timing : "graph", c->time_ns, c->time_ns, c->time_ns,
                     N_SAMPLES, offset, c->throttled ? "false" : "true");
}

static void put_case(struct files *files, size_t i, const struct kg_made_case *c) {
    const char *key = kg_made_case_key(i);
    char def_sha[KG_SHA256_HEX_SIZE], rest[256];
    kg_sha256_hex(c->definition, strlen(c->definition), def_sha);
    snprintf(rest, sizeof rest,
             "\"backend\":\"%s\",\"dtype\":\"f16\",\"layer\":\"bench\",\"name\":\"case_%zu\",\"op\":\"%s\","
             "\"shape\":\"M=1 N=%zu\"",
             c->backend, i, c->op, 64 * (1 + i % 16));
    put_plan(files, key, rest, def_sha, c->seed);
    put_result_head(files, key, def_sha, c);
    struct kg_buffer *out = &files->results;
    if (strcmp(c->status, "pass") != 0) {
        kg_buffer_puts(out, "\"errors\":[],\"timings\":[],\"metrics\":[],\"memory\":[]}\n");
        return;
    }
    const double largest = c->limit > 0 ? c->max_abs / c->limit : c->nmse;
    kg_buffer_printf(out,
                     "\"errors\":[{\"judged\":true,\"margin\":%.17g,\"max_abs\":%.17g,\"max_rel\":%.17g,\"n\":%d,"
                     "\"n_nonfinite\":0,\"name\":\"y\",\"nmse\":%.17g,\"one_minus_cos\":1e-9,\"rms_rel\":%.17g,"
                     "\"tolerance\":{\"%s\":%.17g",
                     largest, c->max_abs, c->max_rel, c->n, c->nmse, sqrt(c->nmse), c->limit > 0 ? "max_abs" : "nmse",
                     c->limit > 0 ? c->limit : 1.0);
    if (c->mixed_rel > 0) kg_buffer_printf(out, ",\"mixed_rel\":%.17g", c->mixed_rel);
    kg_buffer_puts(out, "},\"why\":\"made\",\"worst_got\":1.0,\"worst_index\":7,\"worst_want\":1.0}],\"timings\":[");
    put_timing(files, c);
    kg_buffer_puts(out, "],\"metrics\":[");
    if (c->time_ns > 0)
        kg_buffer_printf(out,
                         "{\"name\":\"graph.warm.gb_per_s\",\"unit\":\"GB/s\",\"value\":%.9g},"
                         "{\"name\":\"graph.warm.tflop_per_s\",\"unit\":\"TFLOP/s\",\"value\":%.9g}",
                         1048576 / c->time_ns, 2097.152 / c->time_ns);
    kg_buffer_puts(out, "],\"memory\":[");
    if (c->more_memory)
        kg_buffer_printf(out, "{\"left_bytes\":0,\"peak_bytes\":1073741824,\"tag\":\"%s\"},", c->more_memory);
    kg_buffer_printf(out,
                     "{\"left_bytes\":%.0f,\"peak_bytes\":%.0f,\"tag\":\"kv\"},"
                     "{\"left_bytes\":0,\"peak_bytes\":4096,\"tag\":\"weights\"}]}\n",
                     c->left_bytes, c->peak_bytes);
}

static void put_canary(struct files *files, double speed) {
    static const char KEY[] = "bench/canary/memory_and_gemm[cuda,f16,-]";
    char def_sha[KG_SHA256_HEX_SIZE];
    kg_sha256_hex("canary", 6, def_sha);
    put_plan(files, KEY,
             "\"backend\":\"cuda\",\"dtype\":\"f16\",\"layer\":\"bench\",\"name\":\"memory_and_gemm\","
             "\"op\":\"canary\",\"shape\":null",
             def_sha, 7);
    put_result_head(files, KEY, def_sha, &(struct kg_made_case){ .status = "pass", .seed = 7 });
    kg_buffer_printf(&files->results,
                     "\"errors\":[],\"timings\":[],\"memory\":[],\"metrics\":["
                     "{\"name\":\"roofline.copy\",\"unit\":\"GB/s\",\"value\":%.17g},"
                     "{\"name\":\"roofline.read\",\"unit\":\"GB/s\",\"value\":%.17g},"
                     "{\"name\":\"roofline.gemm\",\"unit\":\"TFLOP/s\",\"value\":%.17g}]}\n",
                     4000 * speed, 4200 * speed, 800 * speed);
}

static enum kg_status write_text(const char *dir, const char *relative, const struct kg_buffer *text,
                                 struct kg_error *err) {
    char *path = kg_path_join(dir, relative);
    FILE *file = fopen(path, "wb");
    enum kg_status status = KG_OK;
    if (!file || fwrite(kg_buffer_text(text), 1, text->len, file) != text->len)
        status = kg_fail(err, KG_ERR_IO, "cannot write %s", path);
    if (file && fclose(file) != 0) status = kg_fail(err, KG_ERR_IO, "cannot write %s", path);
    free(path);
    return status;
}

static const char *verdict_of(const struct files *files, const struct kg_made_run *run) {
    const bool ran = files->n_planned > files->n_skip;
    if (run->partial || files->n_norun > 0 || !ran) return "incomplete";
    return files->n_fail + files->n_crash + files->n_timeout > 0 ? "fail" : "pass";
}

static void put_summary(const struct files *files, const struct kg_made_run *run, const char *id,
                        struct kg_buffer *out) {
    const char *verdict = verdict_of(files, run);
    kg_buffer_printf(out,
                     "{\"bundle_id\":\"%s\",\"state\":\"%s\",\"verdict\":\"%s\",\"exit_code\":%d,\"seed\":\"7\","
                     "\"started_us\":%lld,\"sealed_us\":%lld,\"n_planned\":%zu,\"n_pass\":%zu,\"n_fail\":%zu,"
                     "\"n_skip\":%zu,\"n_crash\":%zu,\"n_timeout\":%zu,\"n_norun\":%zu}\n",
                     id, run->partial ? "partial" : "complete", verdict,
                     strcmp(verdict, "incomplete") == 0 ? 5
                     : strcmp(verdict, "fail") == 0     ? 1
                                                        : 0,
                     (long long)run->started_us, (long long)run->started_us + 1000000, files->n_planned, files->n_pass,
                     files->n_fail, files->n_skip, files->n_crash, files->n_timeout, files->n_norun);
}

static void put_machine(const struct kg_made_run *run, struct kg_buffer *env, struct kg_buffer *build,
                        struct kg_buffer *source) {
    kg_buffer_printf(
        env,
        "{\"cpu\":{\"model\":\"Made CPU\",\"n_usable\":8},\"memory_bytes\":68719476736,\"os\":\"Made OS\","
        "\"kernel\":\"%s\",\"gpus\":[{\"name\":\"%s\",\"driver\":13000,\"cuda_runtime\":13000,"
        "\"nvidia_driver\":\"580.1\",\"power_limit_w\":700.0}],\"run\":{\"argv\":[\"bench\"],\"layers\":[],"
        "\"filter\":[],\"cases\":[],\"seed\":\"7\"}}\n",
        run->os_kernel ? run->os_kernel : "6.1", run->gpu ? run->gpu : "Made GPU");
    kg_buffer_printf(build,
                     "{\"version\":\"0\",\"compiler\":\"gcc\",\"cflags\":\"%s\",\"sanitizers\":\"\",\"cuda\":\"13\"",
                     run->cflags ? run->cflags : "-O3");
    if (run->kernels) kg_buffer_printf(build, ",\"kernels\":%s", run->kernels);
    kg_buffer_puts(build, "}\n");
    if (run->commit)
        kg_buffer_printf(
            source,
            "{\"version\":\"0\",\"content_sha256\":\"%.40s\",\"git\":{\"commit\":\"%s\",\"branch\":\"main\","
            "\"dirty\":%s}}\n",
            run->commit, run->commit, run->dirty ? "true" : "false");
    else kg_buffer_puts(source, "{\"version\":\"0\",\"content_sha256\":null,\"git\":null}\n");
}

/* Without a clock the header alone. */
static void put_telemetry(const struct kg_made_run *run, struct kg_buffer *out) {
    kg_buffer_puts(out, "utc_us,gpu,sm_mhz,memory_mhz,power_mw,power_limit_mw,temperature_c,throttle_reasons,"
                        "memory_used_bytes,utilization_percent\n");
    for (int i = 0; i < 5 && run->sm_mhz > 0; i++)
        kg_buffer_printf(out, "%lld,0,%.0f,3201,,700000,%.0f,%s,0,25\n", (long long)run->started_us + i,
                         run->sm_mhz - (i == 0 ? 1000 : 0), 46 + run->hotter_by,
                         i >= 5 - run->n_throttled ? "0x4"
                         : i == 0                  ? "0x1"
                                                   : "0x0");
}

struct file {
    const char *name;
    struct kg_buffer text;
};

/* A manifest of the files that `wanted` takes; they are sorted by name. */
static void put_manifest(const struct file *files, size_t n_files, bool (*wanted)(const char *path),
                         struct kg_buffer *out) {
    char sha256[KG_SHA256_HEX_SIZE];
    for (size_t i = 0; i < n_files; i++) {
        if (!wanted(files[i].name)) continue;
        kg_sha256_hex(kg_buffer_text(&files[i].text), files[i].text.len, sha256);
        kg_buffer_printf(out, "%s  %s\n", sha256, files[i].name);
    }
}

enum {
    BAG_INFO,
    BAGIT,
    BUILD,
    DIRTY_DIFF,
    ENV,
    JOURNAL,
    JUNIT,
    PLAN,
    REPORT,
    RESULTS_CSV,
    RESULTS,
    RESULTS_TAP,
    SAMPLES,
    SOURCE,
    SUMMARY,
    TELEMETRY,
    MANIFEST,
    STATEMENT,
    TAGMANIFEST,
    N_FILES
};

static void put_tags(const struct kg_made_run *run, const char *id, const struct files *files, struct file *all) {
    unsigned long long n_bytes = 0, n_files = 0;
    char sha256[KG_SHA256_HEX_SIZE];
    for (size_t i = 0; i < N_FILES; i++) {
        if (!kg_manifest_is_payload(all[i].name)) continue;
        n_bytes += all[i].text.len;
        n_files++;
    }
    kg_buffer_printf(&all[BAG_INFO].text,
                     "External-Identifier: %s\nPayload-Oxum: %llu.%llu\nKigo-State: %s\nKigo-Verdict: %s\n"
                     "Kigo-Overhead-Share: 0.01\n",
                     id, n_bytes, n_files, run->partial ? "partial" : "complete", verdict_of(files, run));
    kg_buffer_puts(&all[BAGIT].text, KG_BAGIT_TXT);
    put_manifest(all, N_FILES, kg_manifest_is_payload, &all[MANIFEST].text);
    kg_sha256_hex(kg_buffer_text(&all[MANIFEST].text), all[MANIFEST].text.len, sha256);
    kg_buffer_printf(&all[STATEMENT].text, "{\"subject\":[{\"digest\":{\"sha256\":\"%s\"}}]}\n", sha256);
    put_manifest(all, N_FILES - 1, kg_manifest_is_tag, &all[TAGMANIFEST].text);
}

static enum kg_status write_files(const char *dir, const struct kg_made_run *run, const char *id, struct files *files,
                                  struct kg_error *err) {
    struct file all[N_FILES] = { [BAG_INFO] = { .name = "bag-info.txt" },
                                 [BAGIT] = { .name = "bagit.txt" },
                                 [BUILD] = { .name = "data/build.json" },
                                 [DIRTY_DIFF] = { .name = "data/dirty.diff" },
                                 [ENV] = { .name = "data/env.json" },
                                 [JOURNAL] = { "data/journal.ndjson", files->journal },
                                 [JUNIT] = { .name = "data/junit.xml" },
                                 [PLAN] = { "data/plan.ndjson", files->plan },
                                 [REPORT] = { .name = "data/report.md" },
                                 [RESULTS_CSV] = { .name = "data/results.csv" },
                                 [RESULTS] = { "data/results.ndjson", files->results },
                                 [RESULTS_TAP] = { .name = "data/results.tap" },
                                 [SAMPLES] = { "data/samples.bin", files->samples },
                                 [SOURCE] = { .name = "data/source.json" },
                                 [SUMMARY] = { .name = "data/summary.json" },
                                 [TELEMETRY] = { .name = "data/telemetry.csv" },
                                 [MANIFEST] = { .name = "manifest-sha256.txt" },
                                 [STATEMENT] = { .name = "statement.intoto.json" },
                                 [TAGMANIFEST] = { .name = "tagmanifest-sha256.txt" } };
    enum kg_status status = KG_OK;
    kg_buffer_printf(&all[JOURNAL].text, "{\"event\":\"planned\",\"n\":%zu,\"utc_us\":1700000000000000}\n",
                     files->n_planned);
    put_summary(files, run, id, &all[SUMMARY].text);
    put_machine(run, &all[ENV].text, &all[BUILD].text, &all[SOURCE].text);
    put_telemetry(run, &all[TELEMETRY].text);
    put_tags(run, id, files, all);
    for (size_t i = 0; i < N_FILES && status == KG_OK; i++) status = write_text(dir, all[i].name, &all[i].text, err);
    for (size_t i = 0; i < N_FILES; i++) kg_buffer_free(&all[i].text);
    return status;
}

enum kg_status kg_made_run_write(const char *root, const struct kg_made_run *run, char **id, struct kg_error *err) {
    char utc[KG_UTC_TEXT_SIZE], tail[KG_SHA256_HEX_SIZE], microseconds[32];
    struct files files = { 0 };
    kg_clock_utc_compact(run->started_us, utc);
    snprintf(microseconds, sizeof microseconds, "%lld", (long long)run->started_us);
    kg_sha256_hex(microseconds, strlen(microseconds), tail);
    char *name =
        kg_xasprintf("%s-%.12s%s-%.8s", utc, run->commit ? run->commit : "nogit", run->dirty ? "-dirty" : "", tail);
    if (run->canary > 0) put_canary(&files, run->canary);
    for (size_t i = 0; i < run->n_cases; i++) {
        struct kg_made_case c = { .status = "pass",
                                  .reason = "as the maker was asked",
                                  .definition = "",
                                  .backend = "cuda",
                                  .op = "linear",
                                  .seed = 7,
                                  .time_ns = 10000 + 100 * (double)i,
                                  .max_abs = 0.001,
                                  .peak_bytes = 1 << 20,
                                  .limit = 1,
                                  .n = 4096,
                                  .max_rel = 0.001,
                                  .nmse = 1e-9 };
        if (run->fill) run->fill(run->arg, i, &c);
        if (!c.absent) put_case(&files, i, &c);
    }
    char *dir = kg_path_join(root, name), *data = kg_path_join(dir, "data");
    enum kg_status status = kg_dir_make(data, err);
    if (status == KG_OK) status = write_files(dir, run, name, &files, err);
    free(data);
    free(dir);
    if (id && status == KG_OK) *id = name;
    else free(name);
    return status;
}
