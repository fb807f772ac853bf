/* A bundle by another hand: what docs/bundle-format.md calls mandatory, written with stdio and OpenSSL's SHA-256 and
 * nothing of kigo's. kigo verifies it, lists it, shows it and judges it; each mandatory member that is left out is
 * named. */
#include "suites/integration/verbs.h"
#include <check.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N_SAMPLES = 600, MAX_TEXT = 1 << 14, MAX_PATH_SIZE = 1024, RUNS = 7 };

struct stranger {
    const char *root;
    char id[64], commit[41];
    long long started_us;
    double least_ns;   /* of the samples, which are least_ns, least_ns + 1 ... */
    int left_out;      /* a row of MEMBERS; -1: none */
    const char *lacks; /* a file that is not written */
};

enum object {
    PLAN,
    ERROR,
    TIMING,
    METRIC,
    MEMORY,
    RESULT,
    PLANNED,
    START,
    END,
    SUMMARY,
    ENV,
    BUILD,
    GIT,
    SOURCE,
    INFO
};

/* "@i" the id, "@c" the commit, "@u" the time, "@0" ... "@4" the samples' statistics, "@E" ... lists and objects. */
static const struct member {
    enum object object;
    const char *name, *value;
} MEMBERS[] = {
    { PLAN, "key", "\"unit/stranger/work[cpu,f32,-]\"" },
    { PLAN, "suite", "\"stranger\"" },
    { PLAN, "layer", "\"unit\"" },
    { PLAN, "op", "\"stranger\"" },
    { PLAN, "name", "\"work\"" },
    { PLAN, "seed", "\"7\"" },
    { PLAN, "def_sha", "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"" },
    { PLAN, "timeout_s", "60" },
    { ERROR, "name", "\"y\"" },
    { ERROR, "n", "64" },
    { ERROR, "max_abs", "0.001" },
    { TIMING, "name", "\"work\"" },
    { TIMING, "kind", "\"host\"" },
    { TIMING, "state", "\"warm\"" },
    { TIMING, "n", "600" },
    { TIMING, "min", "@0" },
    { TIMING, "ci_lo", "@1" },
    { TIMING, "median", "@2" },
    { TIMING, "ci_hi", "@3" },
    { TIMING, "max", "@4" },
    { TIMING, "mad", "150" },
    { TIMING, "samples_offset", "0" },
    { METRIC, "name", "\"speed\"" },
    { METRIC, "unit", "\"tokens/s\"" },
    { METRIC, "value", "100" },
    { MEMORY, "tag", "\"weights\"" },
    { MEMORY, "peak_bytes", "4096" },
    { MEMORY, "left_bytes", "0" },
    { RESULT, "key", "\"unit/stranger/work[cpu,f32,-]\"" },
    { RESULT, "suite", "\"stranger\"" },
    { RESULT, "seed", "\"7\"" },
    { RESULT, "def_sha", "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"" },
    { RESULT, "status", "\"pass\"" },
    { RESULT, "errors", "@E" },
    { RESULT, "timings", "@T" },
    { RESULT, "metrics", "@M" },
    { RESULT, "memory", "@Y" },
    { PLANNED, "event", "\"planned\"" },
    { PLANNED, "utc_us", "@u" },
    { PLANNED, "n", "1" },
    { START, "event", "\"start\"" },
    { START, "utc_us", "@u" },
    { START, "key", "\"unit/stranger/work[cpu,f32,-]\"" },
    { END, "event", "\"end\"" },
    { END, "utc_us", "@u" },
    { END, "key", "\"unit/stranger/work[cpu,f32,-]\"" },
    { END, "status", "\"pass\"" },
    { SUMMARY, "bundle_id", "\"@i\"" },
    { SUMMARY, "state", "\"complete\"" },
    { SUMMARY, "verdict", "\"pass\"" },
    { SUMMARY, "exit_code", "0" },
    { SUMMARY, "seed", "\"7\"" },
    { SUMMARY, "started_us", "@u" },
    { SUMMARY, "sealed_us", "@u" },
    { SUMMARY, "n_planned", "1" },
    { SUMMARY, "n_pass", "1" },
    { SUMMARY, "n_fail", "0" },
    { SUMMARY, "n_skip", "0" },
    { SUMMARY, "n_crash", "0" },
    { SUMMARY, "n_timeout", "0" },
    { SUMMARY, "n_norun", "0" },
    { ENV, "cpu", "{\"model\":\"of a stranger\",\"n_usable\":1}" },
    { ENV, "gpus", "null" },
    { ENV, "run", "{\"argv\":[\"bench\"]}" },
    { BUILD, "version", "\"of a stranger\"" },
    { BUILD, "compiler", "\"cc\"" },
    { GIT, "commit", "\"@c\"" },
    { GIT, "dirty", "false" },
    { SOURCE, "git", "@G" },
    { SOURCE, "content_sha256", "null" },
    { INFO, "External-Identifier", "@i" },
    { INFO, "Kigo-State", "complete" },
    { INFO, "Kigo-Verdict", "pass" },
    { INFO, "Payload-Oxum", "@x" },
};
enum { N_MEMBERS = sizeof MEMBERS / sizeof *MEMBERS };

static const char *const PAYLOAD[] = { "build.json",  "dirty.diff",  "env.json",    "journal.ndjson", "junit.xml",
                                       "plan.ndjson", "report.md",   "results.csv", "results.ndjson", "results.tap",
                                       "samples.bin", "source.json", "summary.json" };
static const char *const TAGS[] = { "bag-info.txt", "bagit.txt", "manifest-sha256.txt", "statement.intoto.json" };
enum { N_PAYLOAD = sizeof PAYLOAD / sizeof *PAYLOAD, N_TAGS = sizeof TAGS / sizeof *TAGS };

static void path_of(const struct stranger *s, const char *file, char path[MAX_PATH_SIZE]) {
    ck_assert_int_lt(snprintf(path, MAX_PATH_SIZE, "%s/%s/%s", s->root, s->id, file), MAX_PATH_SIZE);
}

static void put_file(const struct stranger *s, const char *file, const void *bytes, size_t n_bytes) {
    char path[MAX_PATH_SIZE];
    if (s->lacks && strcmp(s->lacks, file) == 0) return;
    path_of(s, file, path);
    FILE *out = fopen(path, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, n_bytes, out), n_bytes);
    ck_assert_int_eq(fclose(out), 0);
}

static void put_object(const struct stranger *s, enum object object, FILE *out);

static void put_list(const struct stranger *s, enum object object, FILE *out) {
    putc('[', out);
    put_object(s, object, out);
    putc(']', out);
}

static void put_value(const struct stranger *s, const char *value, FILE *out) {
    const double statistics[] = { 0, 275, 299.5, 325, 599 };
    for (; *value; value++) {
        if (*value != '@') {
            putc(*value, out);
            continue;
        }
        switch (*++value) {
        case 'i': fputs(s->id, out); break;
        case 'c': fputs(s->commit, out); break;
        case 'u': fprintf(out, "%lld", s->started_us); break;
        case 'E': put_list(s, ERROR, out); break;
        case 'T': put_list(s, TIMING, out); break;
        case 'M': put_list(s, METRIC, out); break;
        case 'Y': put_list(s, MEMORY, out); break;
        case 'G': put_object(s, GIT, out); break;
        default: fprintf(out, "%.1f", s->least_ns + statistics[*value - '0']);
        }
    }
}

static void put_object(const struct stranger *s, enum object object, FILE *out) {
    const char *before = "{";
    for (int i = 0; i < N_MEMBERS; i++) {
        if (MEMBERS[i].object != object || i == s->left_out) continue;
        fprintf(out, "%s\"%s\":", before, MEMBERS[i].name);
        put_value(s, MEMBERS[i].value, out);
        before = ",";
    }
    putc('}', out);
}

/* Objects, a line each. */
static void put_objects(const struct stranger *s, const char *file, const enum object *objects, size_t n_objects) {
    char text[MAX_TEXT];
    FILE *out = fmemopen(text, sizeof text, "w");
    for (size_t i = 0; i < n_objects; i++) {
        put_object(s, objects[i], out);
        putc('\n', out);
    }
    const long len = ftell(out);
    ck_assert(len > 0 && len < MAX_TEXT);
    fclose(out);
    put_file(s, file, text, (size_t)len);
}

static void put_samples(const struct stranger *s) {
    unsigned char bytes[4 * N_SAMPLES];
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const float sample = (float)(s->least_ns + (double)i);
        unsigned bits;
        memcpy(&bits, &sample, sizeof bits);
        for (size_t k = 0; k < 4; k++) bytes[4 * i + k] = (unsigned char)(bits >> 8 * k);
    }
    put_file(s, "data/samples.bin", bytes, sizeof bytes);
}

/* The SHA-256 in hexadecimal, and the size. False if there is no such file. */
static int hash_file(const struct stranger *s, const char *file, char hex[65], size_t *n_bytes) {
    static unsigned char bytes[1 << 16];
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char path[MAX_PATH_SIZE];
    path_of(s, file, path);
    FILE *in = fopen(path, "rb");
    if (!in) return 0;
    *n_bytes = fread(bytes, 1, sizeof bytes, in);
    ck_assert_uint_lt(*n_bytes, sizeof bytes);
    fclose(in);
    SHA256(bytes, *n_bytes, digest);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return 1;
}

/* A manifest of files below `folder`; their number and bytes as Payload-Oxum has them. */
static void put_manifest(const struct stranger *s, const char *manifest, const char *folder, const char *const *files,
                         size_t n_files, char oxum[48]) {
    char text[MAX_TEXT];
    size_t len = 0, n = 0, all_bytes = 0;
    for (size_t i = 0; i < n_files; i++) {
        char file[64], hex[65];
        size_t n_bytes = 0;
        snprintf(file, sizeof file, "%s%s", folder, files[i]);
        if (!hash_file(s, file, hex, &n_bytes)) continue;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s  %s\n", hex, file);
        all_bytes += n_bytes;
        n++;
    }
    snprintf(oxum, 48, "%zu.%zu", all_bytes, n);
    put_file(s, manifest, text, len);
}

static void put_info(const struct stranger *s, const char *oxum) {
    char text[MAX_TEXT];
    FILE *out = fmemopen(text, sizeof text, "w");
    for (int i = 0; i < N_MEMBERS; i++) {
        if (MEMBERS[i].object != INFO || i == s->left_out) continue;
        fprintf(out, "%s: ", MEMBERS[i].name);
        if (strcmp(MEMBERS[i].value, "@x") == 0) fputs(oxum, out);
        else put_value(s, MEMBERS[i].value, out);
        putc('\n', out);
    }
    const long len = ftell(out);
    fclose(out);
    put_file(s, "bag-info.txt", text, (size_t)len);
}

static void put_statement(const struct stranger *s) {
    char text[MAX_TEXT], hex[65] = "";
    size_t n_bytes;
    hash_file(s, "manifest-sha256.txt", hex, &n_bytes);
    const int len = snprintf(text, sizeof text,
                             "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":"
                             "\"manifest-sha256.txt\",\"digest\":{\"sha256\":\"%s\"}}],\"predicateType\":"
                             "\"https://in-toto.io/attestation/test-result/v0.1\",\"predicate\":{\"result\":"
                             "\"PASSED\"}}\n",
                             hex);
    put_file(s, "statement.intoto.json", text, (size_t)len);
}

static void put_bundle(const struct stranger *s) {
    static const char BAGIT[] = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
    static const char *const EMPTY[] = { "data/dirty.diff", "data/junit.xml", "data/report.md", "data/results.csv",
                                         "data/results.tap" };
    static const enum object JOURNAL[] = { PLANNED, START, END };
    static const struct {
        const char *file;
        enum object object;
    } OBJECTS[] = { { "data/plan.ndjson", PLAN }, { "data/results.ndjson", RESULT }, { "data/summary.json", SUMMARY },
                    { "data/env.json", ENV },     { "data/build.json", BUILD },      { "data/source.json", SOURCE } };
    char path[MAX_PATH_SIZE], oxum[48], none[48];
    path_of(s, "", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    path_of(s, "data", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    for (size_t i = 0; i < sizeof EMPTY / sizeof *EMPTY; i++) put_file(s, EMPTY[i], "", 0);
    for (size_t i = 0; i < sizeof OBJECTS / sizeof *OBJECTS; i++)
        put_objects(s, OBJECTS[i].file, &OBJECTS[i].object, 1);
    put_objects(s, "data/journal.ndjson", JOURNAL, 3);
    put_samples(s);
    put_file(s, "bagit.txt", BAGIT, sizeof BAGIT - 1);
    put_manifest(s, "manifest-sha256.txt", "data/", PAYLOAD, N_PAYLOAD, oxum);
    put_info(s, oxum);
    put_statement(s);
    put_manifest(s, "tagmanifest-sha256.txt", "", TAGS, N_TAGS, none);
}

static struct stranger stranger_of(const char *root, size_t n, const char *commit, double least_ns) {
    struct stranger s = { .root = root, .least_ns = least_ns, .left_out = -1 };
    s.started_us = 1700000000000000ll + (long long)n * 1000000;
    snprintf(s.commit, sizeof s.commit, "%.40s", commit);
    snprintf(s.id, sizeof s.id, "20231114T2213%02zuZ-%.12s-%08zx", 20 + n, commit, n);
    return s;
}

static const char ANY_COMMIT[] = "0123456789abcdef0123456789abcdef01234567";

/* Whole, it has no finding; list and show have its figures. */
static void verified_listed_shown(struct kg_record *rec, const void *arg) {
    const struct stranger s = stranger_of(kg_scratch_dir(rec), 1, ANY_COMMIT, 1e6);
    char *shown;
    (void)arg;
    put_bundle(&s);
    kg_verb_expect(s.root, ARGS("verify", s.id), KG_EXIT_OK, NULL);
    json_t *runs = kg_verb_json(s.root, ARGS("list"), KG_EXIT_OK);
    const json_t *run = json_array_get(runs, 0);
    ck_assert_uint_eq(json_array_size(runs), 1);
    ck_assert_str_eq(json_string_value(json_object_get(run, "bundle_id")), s.id);
    ck_assert_int_eq(kg_verb_integer(run, "n_pass"), 1);
    ck_assert_int_eq(kg_verb_integer(run, "started_us"), s.started_us);
    ck_assert_str_eq(json_string_value(json_object_get(run, "git_commit")), ANY_COMMIT);
    ck_assert_str_eq(json_string_value(json_object_get(run, "cpu_model")), "of a stranger");
    json_decref(runs);
    kg_verb_expect(s.root, ARGS("show", s.id, "--case", "unit/*"), KG_EXIT_OK, &shown);
    ck_assert_ptr_nonnull(strstr(shown, "unit/stranger/work[cpu,f32,-]"));
    free(shown);
}

/* What verify says of a bundle that is not whole. */
static void expect_named(const struct stranger *s, const char *name) {
    char *said;
    put_bundle(s);
    kg_verb_expect(s->root, ARGS("verify", s->id), KG_EXIT_INTEGRITY, &said);
    ck_assert_msg(strstr(said, name) != NULL, "without %s verify says: %s", name, said);
    free(said);
}

static void each_member_is_named(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (int i = 0; i < N_MEMBERS; i++) {
        struct stranger s = stranger_of(kg_scratch_dir(rec), (size_t)i, ANY_COMMIT, 1e6);
        snprintf(s.id, sizeof s.id, "20231114T221320Z-%.12s-%08x", ANY_COMMIT, (unsigned)i);
        s.left_out = i;
        expect_named(&s, MEMBERS[i].name);
    }
}

static void each_file_is_named(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (int i = 0; i < N_PAYLOAD + N_TAGS + 1; i++) {
        struct stranger s = stranger_of(kg_scratch_dir(rec), 0, ANY_COMMIT, 1e6);
        char file[64];
        snprintf(file, sizeof file, "%s%s", i < N_PAYLOAD ? "data/" : "",
                 i < N_PAYLOAD            ? PAYLOAD[i]
                 : i < N_PAYLOAD + N_TAGS ? TAGS[i - N_PAYLOAD]
                                          : "tagmanifest-sha256.txt");
        snprintf(s.id, sizeof s.id, "20231114T221320Z-%.12s-%08x", ANY_COMMIT, (unsigned)i);
        s.lacks = file;
        expect_named(&s, file);
    }
}

/* Seven commits in a separate repository, oldest first. False without git: the case was marked as skipped. */
static bool make_commits(struct kg_record *rec, char *repository, char commits[RUNS][41]) {
    char call[4 * MAX_PATH_SIZE];
    snprintf(repository, MAX_PATH_SIZE, "%s/repository", kg_scratch_dir(rec));
    snprintf(call, sizeof call,
             "command -v git >/dev/null || exit 1; mkdir '%s' && cd '%s' && git init -q && for i in 1 2 3 4 5 6 7; do "
             "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m $i || exit 1; done; "
             "git rev-list --reverse HEAD",
             repository, repository);
    FILE *in = popen(call, "r");
    bool good = in != NULL;
    for (int i = 0; i < RUNS && good; i++) good = fscanf(in, "%40s", commits[i]) == 1;
    if (in) pclose(in);
    if (!good) kg_record_skip(rec, "no git on this machine");
    return good;
}

/* Six runs of earlier commits; a seventh that is as they were, and one that takes 20% longer. */
static void judged(struct kg_record *rec, const void *arg) {
    static const struct {
        double least_ns;
        int exit_code;
    } ROWS[] = { { 1e6, KG_EXIT_OK }, { 1.2e6, KG_EXIT_FAILED } };
    char repository[MAX_PATH_SIZE], root[MAX_PATH_SIZE], commits[RUNS][41], *said;
    (void)arg;
    if (!make_commits(rec, repository, commits)) return;
    for (size_t row = 0; row < sizeof ROWS / sizeof *ROWS; row++) {
        snprintf(root, sizeof root, "%s/runs-%zu", kg_scratch_dir(rec), row);
        ck_assert_int_eq(mkdir(root, 0755), 0);
        for (size_t i = 0; i < RUNS; i++) {
            const struct stranger s =
                stranger_of(root, i, commits[i], i + 1 < RUNS ? 1e6 + 1000 * (double)(i % 3) : ROWS[row].least_ns);
            put_bundle(&s);
        }
        kg_verb_expect(root, ARGS("regress", "--repo", repository), ROWS[row].exit_code, &said);
        if (ROWS[row].exit_code) ck_assert_msg(strstr(said, "work.host.warm") != NULL, "%s", said);
        free(said);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "stranger", .name = #function, .run = function, .timeout_s = 60 }

static const struct kg_case CASES[] = {
    CASE(verified_listed_shown),
    CASE(each_member_is_named),
    CASE(each_file_is_named),
    CASE(judged),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, sizeof CASES / sizeof *CASES);
}
