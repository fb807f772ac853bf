#include "suites/integration/fleet_reads.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/transfer.h"
#include "suites/integration/fleet_both.h"
#include "suites/integration/hostile_store.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N_RUNS = 4, N_CASES = 8, MOST_ARGS = 12 };

/* Cases that differ from run to run in status, definition and figures. */
static void fill(void *arg, size_t i, struct kg_made_case *c) {
    static const char *const STATUSES[] = { "pass", "fail", "pass", "skip", "pass" };
    const size_t run = *(const size_t *)arg;
    c->status = run == 0 || run == 3 ? "pass" : STATUSES[(i + run) % KG_COUNT_OF(STATUSES)]; /* green: a baseline */
    c->absent = i == 3 && run == 2;
    c->definition = i == 5 && run > 2 ? "another" : "";
    c->time_ns = i % 5 == 4 ? 0 : 1e6 * (1 + (double)run / 3) / (1 + (double)i);
    c->max_abs = 1.0 / (double)(3 + run + i);
    c->peak_bytes = i % 2 ? 1 << 20 : 0;
}

/* Runs of a folder, and the same in a fleet. */
struct reads {
    struct kg_fleet_both both;
    struct kg_history_lab folder;
    char *id; /* of the last made run */
};

static char *run_made(struct reads *reads, size_t number) {
    const struct kg_made_run run = { .commit = number == 2 ? NULL : reads->folder.commits[number],
                                     .n_cases = N_CASES,
                                     .gpu = number == 1 ? "\xc3\x89tat GPU" : NULL,
                                     .fill = fill,
                                     .arg = &number };
    return kg_history_lab_run(&reads->folder, run);
}

/* False: the case was marked as skipped. */
static bool open_reads(struct reads *reads, struct kg_record *rec, size_t n_runs) {
    char *dir = kg_path_join(kg_scratch_dir(rec), "repository"), *root = kg_path_join(dir, "bundles");
    *reads = (struct reads){ .id = NULL };
    const bool is_open = kg_fleet_both_open(&reads->both, rec, root);
    if (is_open) kg_history_lab_open_in(&reads->folder, dir, N_RUNS + 2);
    for (size_t i = 0; is_open && i < n_runs; i++) {
        free(reads->id);
        reads->id = run_made(reads, i);
        kg_fleet_both_push(&reads->both, i % 2 ? "runner_a" : "runner_b", reads->id);
    }
    free(root);
    free(dir);
    return is_open;
}

static void close_reads(struct reads *reads) {
    free(reads->id);
    kg_history_lab_close(&reads->folder);
    kg_fleet_both_close(&reads->both);
}

/* An escape, quotes, a right-to-left mark and the like in every string. */
static char *push_hostile(const struct reads *reads) {
    char *dir = kg_maker_sealed(reads->folder.root, 2), *id = kg_xstrdup(strrchr(dir, '/') + 1);
    kg_hostile_records(dir);
    kg_fleet_both_push(&reads->both, "runner_b", id);
    free(dir);
    return id;
}

void kg_fleet_reads_as_a_folder(struct kg_record *rec, const void *arg) {
    /* @: the last made run; #: its last 8 digits; %: its commit; !: the hostile one */
    static const struct {
        const char *args[MOST_ARGS];
        bool all_forms; /* beside JSON, which report does not have */
    } CALLS[] = {
        { { "show", "@", "--repo", "$" }, true },
        { { "show", "!" }, false },
        { { "show", "#", "--failures" }, false },
        { { "show", "%", "--slowest", "3" }, false },
        { { "show", "@", "--case", "*case_1*" }, false },
        { { "show", "latest~1", "--machine", "made" }, false },
        { { "show", "@", "--machine", "nobody's" }, false },
        { { "show", "latest~3" }, false },
        { { "show", "latest~99" }, false },
        { { "show", "20" }, false },
        { { "show", "no such run" }, false },
        { { "show", "" }, false },
        { { "show", "latest", "--commits", "HEAD~4..HEAD~1", "--repo", "$" }, false },
        { { "report", "@", "--repo", "$" }, true },
        { { "report", "!", "--markdown" }, false },
        { { "report", "latest~1", "--against", "latest~3", "--csv" }, false },
        { { "report", "@", "--against", "no such run" }, false },
        { { "report", "no such run" }, false },
        { { "report", "--history", "--repo", "$" }, true },
        { { "report", "--history", "--limit", "2", "--csv" }, false },
        { { "diff", "latest~2", "@" }, true },
        { { "diff", "@", "latest~3", "--all" }, false },
        { { "diff", "latest~1", "@", "--case", "*_1*", "--backend", "cu*" }, false },
        { { "diff", "@", "!" }, false },
        { { "diff", "@", "no such run" }, false },
    };
    static const char *const FORMS[] = { NULL, "--csv", "--markdown" };
    struct reads reads;
    (void)arg;
    if (!open_reads(&reads, rec, N_RUNS)) return;
    char *hostile = push_hostile(&reads), commit[13];
    snprintf(commit, sizeof commit, "%.12s", reads.folder.commits[N_RUNS - 1]);
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        const char *args[MOST_ARGS] = { NULL };
        for (size_t k = 0; CALLS[i].args[k]; k++) {
            const char *const word = CALLS[i].args[k];
            args[k] = strcmp(word, "@") == 0   ? reads.id
                      : strcmp(word, "#") == 0 ? reads.id + strlen(reads.id) - 8
                      : strcmp(word, "%") == 0 ? commit
                      : strcmp(word, "!") == 0 ? hostile
                      : strcmp(word, "$") == 0 ? reads.folder.repository
                                               : word;
        }
        const bool has_json = strcmp(args[0], "report") != 0;
        kg_fleet_both_expect(&reads.both, args, has_json ? "--json" : NULL);
        for (size_t k = 0; CALLS[i].all_forms && k < KG_COUNT_OF(FORMS); k++)
            kg_fleet_both_expect(&reads.both, args, FORMS[k]);
    }
    /* Else the same words would be about nothing. */
    kg_fleet_lab_kigo(&reads.both.fleet, "reader", ARGS("show", reads.id, "--repo", reads.folder.repository),
                      KG_EXIT_OK, "against 1 run", NULL);
    /* A path is one here, too: the run that lies there, which the fleet is not asked for. */
    char *path = kg_path_join(reads.folder.root, reads.id);
    kg_fleet_lab_kigo(&reads.both.fleet, "reader", ARGS("show", path), KG_EXIT_OK, reads.id, NULL);
    free(path);
    free(hostile);
    close_reads(&reads);
}

/* Puts a file in the place of a run's archive, as whoever owns the database may. */
static void put_archive(const struct reads *reads, const char *id, const char *path) {
    struct kg_file_map file;
    struct kg_error err;
    char sha256[KG_SHA256_HEX_SIZE];
    EXPECT_OK(kg_file_map_open(path, &file, &err), err);
    kg_sha256_hex(file.data, file.size_bytes, sha256);
    struct kg_buffer sql = KG_BUFFER_INIT;
    kg_buffer_printf(&sql,
                     "UPDATE kigo.archive SET size_bytes = %zu, n_chunks = 1, sha256 = '%s' WHERE bundle_id = '%s';"
                     "UPDATE kigo.archive_chunk SET data = '\\x",
                     file.size_bytes, sha256, id);
    for (size_t i = 0; i < file.size_bytes; i++) kg_buffer_printf(&sql, "%02x", file.data[i]);
    kg_buffer_printf(&sql,
                     "' WHERE chunk_no = 0 AND tagmanifest_sha256 ="
                     " (SELECT tagmanifest_sha256 FROM kigo.archive WHERE bundle_id = '%s')",
                     id);
    free(kg_fleet_lab_sql(&reads->both.fleet, "postgres", sql.data));
    kg_buffer_free(&sql);
    kg_file_map_close(&file);
}

/* The archive of a bundle's folder, sound or not; its path malloc'ed. */
static char *pack(struct kg_record *rec, const char *dir, const char *name) {
    char *path = kg_path_join(kg_scratch_dir(rec), name);
    struct kg_error err;
    EXPECT_OK(kg_bundle_pack(dir, path, &err), err);
    return path;
}

static void expect_refused(const struct reads *reads, const char *cache, const char *run, int exit_code,
                           const char *says) {
    const char *const calls[][3] = { { "show", run }, { "diff", run, run } };
    for (size_t i = 0; i < KG_COUNT_OF(calls); i++) {
        const char *const args[] = { calls[i][0], calls[i][1], calls[i][2], NULL };
        struct kg_process_result result;
        kg_fleet_both_ask(&reads->both, args, cache, &result);
        ck_assert_msg(result.exit_code == exit_code && strstr(result.err, says),
                      "kigo %s ended with %d: %.2000s%.2000s", args[0], result.exit_code, result.out, result.err);
        ck_assert_msg(!strstr(result.err, strchr(cache, '=') + 1) && !strstr(result.err, "kigo-fleet-"),
                      "it says where runs are kept: %.2000s", result.err);
        kg_process_result_free(&result);
    }
}

void kg_fleet_reads_only_what_verifies(struct kg_record *rec, const void *arg) {
    struct reads reads;
    (void)arg;
    if (!open_reads(&reads, rec, 2)) return;
    char *cache = kg_xasprintf("XDG_CACHE_HOME=%s/cache", kg_scratch_dir(rec)),
         *dir = kg_path_join(reads.folder.root, reads.id), *bad = kg_path_join(kg_scratch_dir(rec), reads.id),
         *other = run_made(&reads, 2), *other_dir = kg_path_join(reads.folder.root, other);
    char *copy = kg_maker_copy(dir, bad);
    kg_maker_append(copy, "data/dirty.diff", "by hand\n");
    char *tampered = pack(rec, copy, "tampered.tar.zst"), *sound = pack(rec, dir, "sound.tar.zst"),
         *of_other = pack(rec, other_dir, "other.tar.zst");
    expect_refused(&reads, cache, "no such run", KG_EXIT_USAGE, "'kigo list' shows what there is");
    put_archive(&reads, reads.id, tampered);
    expect_refused(&reads, cache, reads.id, KG_EXIT_INTEGRITY, "does not verify");
    kg_fleet_lab_kigo(&reads.both.fleet, "postgres", ARGS("fleet", "reindex"), KG_EXIT_INTEGRITY, reads.id, NULL);
    put_archive(&reads, reads.id, sound);
    kg_fleet_lab_kigo(&reads.both.fleet, "postgres", ARGS("fleet", "reindex"), KG_EXIT_OK, "indexed 2 runs", NULL);
    put_archive(&reads, reads.id, of_other);
    expect_refused(&reads, cache, reads.id, KG_EXIT_INTEGRITY, "holds another bundle");
    put_archive(&reads, reads.id, sound);
    free(
        kg_fleet_lab_sql(&reads.both.fleet, "postgres", "UPDATE kigo.archive_chunk SET data = set_byte(data, 100, 1)"));
    expect_refused(&reads, cache, reads.id, KG_EXIT_INTEGRITY, "is not the one that was pushed");
    free(kg_fleet_lab_sql(&reads.both.fleet, "postgres", "TRUNCATE kigo.archive_chunk"));
    expect_refused(&reads, cache, reads.id, KG_EXIT_INTEGRITY, "chunk 0 of the archive is missing");
    /* A name that would lead out of the folder in which runs are kept. */
    free(kg_fleet_lab_sql(&reads.both.fleet, "postgres",
                          "UPDATE kigo.archive SET bundle_id = '20260101T000000Z-/../../x-12345678'"
                          " WHERE bundle_id = (SELECT max(bundle_id) FROM kigo.archive)"));
    expect_refused(&reads, cache, "12345678", KG_EXIT_INTEGRITY, "no run's name");
    kg_fleet_lab_kigo(&reads.both.fleet, "reader", ARGS("pull", "12345678", "--bundles", cache), KG_EXIT_INTEGRITY,
                      "no run's name", NULL);
    char *const all[] = { of_other, sound, tampered, copy, other_dir, other, bad, dir, cache };
    for (size_t i = 0; i < KG_COUNT_OF(all); i++) free(all[i]);
    close_reads(&reads);
}

/* says: NULL: anything. */
static void expect_show(const struct reads *reads, const char *variable, int exit_code, const char *says) {
    struct kg_process_result result;
    kg_fleet_both_ask(&reads->both, ARGS("show", reads->id, "--json"), variable, &result);
    ck_assert_msg(result.exit_code == exit_code && (!says || strstr(result.err, says)),
                  "kigo show ended with %d, not %d: %.2000s", result.exit_code, exit_code, result.err);
    ck_assert_msg(!strstr(result.err, strchr(variable, '=') + 1), "it says where runs are kept: %.2000s", result.err);
    kg_process_result_free(&result);
}

/* Once fetched a run is here, as long as nobody touches it; the folder stays small, and is only the user's. */
void kg_fleet_reads_from_a_cache(struct kg_record *rec, const void *arg) {
    enum { MANY = 40, KEPT = 32 };
    struct reads reads;
    (void)arg;
    if (!open_reads(&reads, rec, 1)) return;
    char *above = kg_path_join(kg_scratch_dir(rec), "cache"), *root = kg_path_join(above, "kigo/fleet"),
         *variable = kg_xasprintf("XDG_CACHE_HOME=%s", above), *nowhere = kg_xstrdup("XDG_CACHE_HOME=/dev/null"),
         *here = kg_path_join(root, reads.id), *notes = kg_path_join(root, "imports");
    struct kg_error err;
    expect_show(&reads, variable, KG_EXIT_OK, NULL);
    kg_maker_append(here, "data/summary.json", " ");
    expect_show(&reads, variable, KG_EXIT_OK, NULL); /* another came in its place */
    EXPECT_OK(kg_path_remove(here, &err), err);
    EXPECT_OK(kg_path_remove(notes, &err), err);
    EXPECT_OK(kg_file_write(notes, "", 0, &err), err); /* in the way */
    expect_show(&reads, variable, KG_EXIT_INTEGRITY, "imports");
    EXPECT_OK(kg_path_remove(notes, &err), err);
    expect_show(&reads, variable, KG_EXIT_OK, NULL);
    for (int i = 0; i < MANY; i++) {
        char name[64];
        snprintf(name, sizeof name, "20200101T0000%02dZ-000000000000-%08x", i, i);
        char *dir = kg_path_join(root, name);
        EXPECT_OK(kg_dir_make(dir, &err), err);
        free(dir);
    }
    expect_show(&reads, nowhere, KG_EXIT_OK, NULL);
    free(kg_fleet_lab_sql(&reads.both.fleet, "postgres", "TRUNCATE kigo.archive_chunk"));
    expect_show(&reads, variable, KG_EXIT_OK, NULL);
    ck_assert_uint_eq(kg_maker_count(root, "20200101T"), KEPT - 1);
    ck_assert_int_eq(chmod(above, 0777), 0); /* kigo's own folder below it is what counts */
    expect_show(&reads, variable, KG_EXIT_OK, NULL);
    char *own = kg_path_join(above, "kigo");
    ck_assert_int_eq(chmod(own, 0755), 0);
    expect_show(&reads, variable, KG_EXIT_INTEGRITY, NULL);
    ck_assert_int_eq(chmod(own, 0700), 0);
    expect_show(&reads, variable, KG_EXIT_OK, NULL);
    kg_maker_append(here, "data/summary.json", " ");
    expect_show(&reads, variable, KG_EXIT_INTEGRITY, NULL); /* it is fetched again, and the fleet has lost it */
    char *const all[] = { own, notes, here, nowhere, variable, root, above };
    for (size_t i = 0; i < KG_COUNT_OF(all); i++) free(all[i]);
    close_reads(&reads);
}
