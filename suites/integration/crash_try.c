#include "suites/integration/crash_try.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/integration/crash_disk.h"
#include "suites/integration/crash_trace.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_COMPLAINTS = 3, COMPLAINT_CHARS = 1500 };
static const struct kg_disk_choice EVERYTHING = { KG_DISK_ALL, KG_DISK_ALL, KG_NO_NODE, 0 };
static const struct kg_disk_choice SYNCED_ONLY = { KG_DISK_NONE, KG_DISK_NONE, KG_NO_NODE, 0 };

struct trial {
    struct kg_record *rec;
    const struct kg_crash_scene *scene;
    struct kg_crash_place place;
    char **argv;
    struct kg_disk_image *before;
    size_t n_tried, n_bad;
    struct kg_buffer complaints;
};

/* False if the case was skipped. */
static bool open_trial(struct trial *t, struct kg_record *rec, const struct kg_crash_scene *scene) {
    struct kg_disk_log log;
    *t = (struct trial){ .rec = rec, .scene = scene };
    if (!kg_crash_place_open(&t->place, scene, rec)) return false;
    t->argv = kg_crash_command(&t->place, scene);
    kg_disk_log_open(&log, t->place.world);
    t->before = kg_disk_image_make(&log, log.n_before, &EVERYTHING);
    kg_disk_log_close(&log);
    return true;
}

static void close_trial(struct trial *t, const char *counted) {
    if (t->argv) kg_crash_command_free(t->argv);
    if (t->before) kg_disk_image_free(t->before);
    kg_crash_place_close(&t->place);
    kg_record_metric(t->rec, counted, "count", (double)t->n_tried);
    kg_record_metric(t->rec, "bad", "count", (double)t->n_bad);
    ck_assert_msg(t->n_bad == 0, "%zu of %zu moments are bad%s", t->n_bad, t->n_tried, kg_buffer_text(&t->complaints));
    kg_buffer_free(&t->complaints);
}

static void reset_world(const struct trial *t) {
    ck_assert_int_eq(kg_path_remove(t->place.world, NULL), KG_OK);
    kg_disk_image_write(t->before, t->place.world);
}

static char *read_said(const struct trial *t) {
    char *text = NULL;
    size_t size_bytes;
    if (kg_file_read(t->place.said, &text, &size_bytes, NULL) != KG_OK) return kg_xstrdup("");
    return text;
}

/* Takes over the complaint; `moment` says when it was. */
static void note(struct trial *t, char *complaint, const char *moment) {
    t->n_tried++;
    if (!complaint) return;
    if (t->n_bad++ < MOST_COMPLAINTS)
        kg_buffer_printf(&t->complaints, "\n%s: %.*s", moment, COMPLAINT_CHARS, complaint);
    free(complaint);
}

/* The lines of results in unfinished bundles. malloc'ed. */
static char *unfinished_results(const struct trial *t) {
    char *pattern = kg_xasprintf("%s/bundles/.tmp-*/data/results.ndjson", t->place.world);
    struct kg_buffer all = KG_BUFFER_INIT;
    glob_t found;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char *text = NULL;
            size_t size_bytes;
            if (kg_file_read(found.gl_pathv[i], &text, &size_bytes, NULL) == KG_OK)
                kg_buffer_append(&all, text, size_bytes);
            free(text);
        }
        globfree(&found);
    }
    free(pattern);
    return all.data ? all.data : kg_xstrdup("");
}

static const char *name_of(enum kg_disk_op_kind kind) {
    static const char *const NAMES[] = { "mkdir", "create",   "link", "unlink", "rename",
                                         "write", "truncate", "sync", "output" };
    return NAMES[kind];
}

/* "after the write of data/plan.ndjson" */
static char *moment_text(const struct kg_disk_log *log, size_t n, const char *which, size_t number) {
    const struct kg_disk_op *op = n > log->n_before ? &log->ops[n - 1] : NULL;
    return kg_xasprintf("%s %zu, after %s %s%s%s", which, number, op ? name_of(op->kind) : "nothing",
                        op && op->name ? op->name : "", op && op->to_name ? " to " : "",
                        op && op->to_name ? op->to_name : "");
}

/* Runs the command; false if nobody may trace here: the case was skipped. */
static bool trace(const struct trial *t, struct kg_disk_log *log, size_t kill_at, bool torn, struct kg_crash_end *end) {
    const struct kg_crash_run run = { (const char *const *)t->argv, t->place.said, kill_at, torn };
    struct kg_error err;
    kg_disk_log_open(log, t->place.world);
    const enum kg_status status = kg_crash_trace(&run, log, end, &err);
    if (status == KG_ERR_UNSUPPORTED) kg_record_skip(t->rec, "cannot trace: %s", err.message);
    else EXPECT_OK(status, err);
    return status == KG_OK;
}

enum variant { PLAIN, RUN_FIRST, TORN, N_VARIANTS };

static void kill_once(struct trial *t, size_t at, enum variant variant) {
    static const char *const WHICH[] = { "killed at call", "another run first, killed at call", "killed inside call" };
    struct kg_disk_log log;
    struct kg_crash_end end;
    reset_world(t);
    /* A run may come to fewer calls than one before it: then this is one that nobody killed. */
    if (trace(t, &log, at, variant == TORN, &end) && (variant != TORN || end.tore)) {
        char *said = read_said(t), *results = unfinished_results(t);
        const struct kg_crash_moment moment = { said, results, variant == RUN_FIRST };
        char *when = moment_text(&log, log.n_ops, WHICH[variant], at);
        note(t, kg_crash_complaint(&t->place, t->scene, t->place.world, &moment), when);
        free(when);
        free(results);
        free(said);
    }
    kg_disk_log_close(&log);
}

/* Runs it to its end once: how many calls there are to kill it at; 0 if the case was skipped. */
static size_t count_calls(struct trial *t) {
    struct kg_disk_log log;
    struct kg_crash_end end;
    reset_world(t);
    const bool traced = trace(t, &log, 0, false, &end);
    kg_disk_log_close(&log);
    ck_assert_msg(!traced || end.exit_code == 0, "%s ends with %d", t->scene->name, end.exit_code);
    return traced ? end.n_changes : 0;
}

void kg_crash_kill_at_calls(struct kg_record *rec, const struct kg_crash_scene *scene, size_t most) {
    struct trial t;
    struct kg_rng rng;
    if (!open_trial(&t, rec, scene)) return;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    const size_t n = count_calls(&t);
    for (size_t i = 0; i < n * N_VARIANTS && t.n_bad < MOST_COMPLAINTS; i++)
        if (kg_rng_below(&rng, n * N_VARIANTS) < most)
            kill_once(&t, i / N_VARIANTS + 1, (enum variant)(i % N_VARIANTS));
    close_trial(&t, "kills");
}

static pid_t start(const struct trial *t) {
    const pid_t test = getpid(), pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0) return pid;
    const int said = open(t->place.said, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (getppid() != test || dup2(null, 0) < 0 || dup2(said, 1) < 0 || dup2(null, 2) < 0) _exit(126);
    execv(t->argv[0], t->argv);
    _exit(127);
}

/* How long the command takes, in us. */
static uint64_t time_whole(const struct trial *t) {
    int state;
    reset_world(t);
    const uint64_t begun_ns = kg_clock_monotonic_ns();
    ck_assert_int_gt(waitpid(start(t), &state, 0), 0);
    ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the command fails: %d", state);
    return (kg_clock_monotonic_ns() - begun_ns) / 1000;
}

void kg_crash_kill_at_random(struct kg_record *rec, const struct kg_crash_scene *scene, size_t n) {
    struct trial t;
    struct kg_rng rng;
    int state;
    if (!open_trial(&t, rec, scene)) return;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    const uint64_t most_us = time_whole(&t) * 5 / 4 + 1;
    for (size_t i = 0; i < n && t.n_bad < MOST_COMPLAINTS; i++) {
        const uint64_t after_us = kg_rng_below(&rng, most_us);
        reset_world(&t);
        const pid_t pid = start(&t);
        usleep((useconds_t)after_us);
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, &state, 0), pid);
        char *said = read_said(&t), *results = unfinished_results(&t);
        char *when = kg_xasprintf("kill %zu, after %llu us", i, (unsigned long long)after_us);
        const struct kg_crash_moment moment = { said, results, i % 2 == 0 };
        note(&t, kg_crash_complaint(&t.place, scene, t.place.world, &moment), when);
        free(when);
        free(results);
        free(said);
    }
    close_trial(&t, "kills");
}

struct power {
    struct trial *trial;
    const struct kg_disk_log *log;
    char *state; /* the folder that is made */
    char (*seen)[KG_SHA256_HEX_SIZE];
    size_t n_seen;
    struct kg_rng rng;
};

/* What had been printed before the n-th op. malloc'ed. */
static char *said_before(const struct kg_disk_log *log, size_t n) {
    struct kg_buffer said = KG_BUFFER_INIT;
    for (size_t i = 0; i < n; i++)
        if (log->ops[i].kind == KG_DISK_SAY) kg_buffer_append(&said, log->ops[i].bytes, log->ops[i].n_bytes);
    return said.data ? said.data : kg_xstrdup("");
}

/* Whether the same folder was tried when as much was promised. */
static bool was_seen(struct power *p, const struct kg_disk_image *image, const char *said, const char *results) {
    char hex[KG_SHA256_HEX_SIZE], all[KG_SHA256_HEX_SIZE];
    kg_disk_image_hash(image, hex);
    char *key = kg_xasprintf("%s %zu %zu", hex, strlen(said), strlen(results));
    kg_sha256_hex(key, strlen(key), all);
    free(key);
    for (size_t i = 0; i < p->n_seen; i++)
        if (strcmp(p->seen[i], all) == 0) return true;
    p->seen = kg_xrealloc(p->seen, (p->n_seen + 1) * sizeof *p->seen);
    memcpy(p->seen[p->n_seen++], all, sizeof all);
    return false;
}

static void try_disk(struct power *p, size_t n, const struct kg_disk_choice *choice) {
    static const char *const PARTS[] = { "all", "none", "zeros", "pages", "random" };
    static const char RESULTS[] = "bundles/.tmp-*/data/results.ndjson";
    struct trial *t = p->trial;
    struct kg_disk_image *synced = kg_disk_image_make(p->log, n, &SYNCED_ONLY);
    struct kg_disk_image *image = kg_disk_image_make(p->log, n, choice);
    char *said = said_before(p->log, n), *results = kg_disk_image_text(synced, RESULTS);
    if (!was_seen(p, image, said, results)) {
        const struct kg_crash_moment moment = { said, results, kg_rng_below(&p->rng, 2) };
        char *when = moment_text(p->log, n, "power lost at call", n - p->log->n_before);
        char *what = kg_xasprintf(
            "%s; unsynced names: %s, bytes: %s, other: %s %s%s", when, PARTS[choice->names], PARTS[choice->bytes],
            choice->other == KG_NO_NODE ? "none" : name_of(p->log->ops[choice->other].kind),
            choice->other == KG_NO_NODE || !p->log->ops[choice->other].name ? "" : p->log->ops[choice->other].name,
            moment.run_first ? ", another run first" : "");
        ck_assert_int_eq(kg_path_remove(p->state, NULL), KG_OK);
        kg_disk_image_write(image, p->state);
        note(t, kg_crash_complaint(&t->place, t->scene, p->state, &moment), what);
        free(what);
        free(when);
    }
    free(results);
    free(said);
    kg_disk_image_free(image);
    kg_disk_image_free(synced);
}

static const struct kg_disk_choice PLAINLY[] = {
    { KG_DISK_ALL, KG_DISK_NONE, KG_NO_NODE, 0 },  { KG_DISK_NONE, KG_DISK_NONE, KG_NO_NODE, 0 },
    { KG_DISK_ALL, KG_DISK_ZEROS, KG_NO_NODE, 0 }, { KG_DISK_ALL, KG_DISK_PAGES, KG_NO_NODE, 0 },
    { KG_DISK_NONE, KG_DISK_ALL, KG_NO_NODE, 0 },  { KG_DISK_ALL, KG_DISK_ALL, KG_NO_NODE, 0 },
};

/* One op that is open the other way round than the rest, and parts of everything. */
static const enum kg_disk_part MIXED[][2] = { { KG_DISK_ALL, KG_DISK_ALL },
                                              { KG_DISK_ALL, KG_DISK_NONE },
                                              { KG_DISK_NONE, KG_DISK_ALL },
                                              { KG_DISK_RANDOM, KG_DISK_RANDOM } };

/* Calls try_disk for each, or counts them (p NULL). */
static size_t each_mixed(struct power *p, const struct kg_disk_log *log, size_t n_all, size_t most) {
    size_t counted = 0;
    for (size_t n = log->n_before; n <= log->n_ops; n++)
        for (size_t i = log->n_before; i < n; i++) {
            if (!kg_disk_op_is_open(log, n, i)) continue;
            for (size_t c = 0; c < KG_COUNT_OF(MIXED); c++) {
                counted++;
                if (!p || p->trial->n_bad >= MOST_COMPLAINTS || kg_rng_below(&p->rng, n_all) >= most) continue;
                const struct kg_disk_choice choice = { MIXED[c][0], MIXED[c][1], i, kg_rng_below(&p->rng, 1 << 30) };
                try_disk(p, n, &choice);
            }
        }
    return counted;
}

static void each_plain(struct power *p, size_t most) {
    const size_t n_first = p->log->n_before, n_all = (p->log->n_ops - n_first + 1) * KG_COUNT_OF(PLAINLY);
    for (size_t i = 0; i < n_all && p->trial->n_bad < MOST_COMPLAINTS; i++)
        if (kg_rng_below(&p->rng, n_all) < most)
            try_disk(p, n_first + i / KG_COUNT_OF(PLAINLY), &PLAINLY[i % KG_COUNT_OF(PLAINLY)]);
    /* Once it has come to its end, all that it said is true of the disk. */
    for (size_t c = 0; c < KG_COUNT_OF(PLAINLY); c++) try_disk(p, p->log->n_ops, &PLAINLY[c]);
}

void kg_crash_lose_power(struct kg_record *rec, const struct kg_crash_scene *scene, size_t most_plain,
                         size_t most_mixed) {
    struct trial t;
    struct kg_disk_log log;
    struct kg_crash_end end;
    if (!open_trial(&t, rec, scene)) return;
    reset_world(&t);
    struct power p = { .trial = &t, .log = &log, .state = kg_path_join(t.place.dir, "state") };
    kg_rng_init(&p.rng, kg_record_seed(rec), 0);
    if (trace(&t, &log, 0, false, &end)) {
        ck_assert_msg(end.exit_code == 0, "%s ends with %d", scene->name, end.exit_code);
        each_plain(&p, most_plain);
        each_mixed(&p, &log, each_mixed(NULL, &log, 0, 0), most_mixed);
    }
    free(p.seen);
    free(p.state);
    kg_disk_log_close(&log);
    close_trial(&t, "states");
}
