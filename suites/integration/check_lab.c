#include "suites/integration/check_lab.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "run/failure_name.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <kigo/bundle.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 30 };

static char *make_dir(const char *parent, const char *name) {
    char *path = kg_path_join(parent, name);
    ck_assert_int_eq(kg_dir_make(path, NULL), KG_OK);
    return path;
}

void kg_lab_open(struct kg_lab *lab, const struct kg_record *rec) {
    lab->dir = kg_xstrdup(kg_scratch_dir(rec));
    lab->suites = make_dir(lab->dir, "suites");
    lab->bundles = make_dir(lab->dir, "bundles");
    lab->tmp = make_dir(lab->dir, "tmp");
}

void kg_lab_close(struct kg_lab *lab) {
    free(lab->dir);
    free(lab->suites);
    free(lab->bundles);
    free(lab->tmp);
}

void kg_lab_add(const struct kg_lab *lab, const char *program, const char *as) {
    char *target = kg_xasprintf("%s/%s", kg_suites_path("harness/selftest"), program);
    char *link = kg_path_join(lab->suites, as);
    ck_assert_msg(symlink(target, link) == 0, "%s: %s", link, strerror(errno));
    free(link);
    free(target);
}

/* The command's arguments; the array is malloc'ed, they are not. Programs run one after another, in an order that tests
 * know, unless --jobs says otherwise. */
static const char **command(const struct kg_lab *lab, const char *const *args) {
    const char *fixed[] = { kg_program_path(), "check",      "--suites", lab->suites,
                            "--bundles",       lab->bundles, "--jobs",   "1" };
    size_t n_fixed = sizeof fixed / sizeof *fixed, n_args = 0;
    for (; args && args[n_args]; n_args++)
        if (strcmp(args[n_args], "--jobs") == 0) n_fixed = sizeof fixed / sizeof *fixed - 2;
    const char **argv = kg_xcalloc(n_fixed + n_args + 1, sizeof *argv);
    memcpy(argv, fixed, n_fixed * sizeof *argv);
    if (n_args > 0) memcpy(argv + n_fixed, args, n_args * sizeof *argv);
    return argv;
}

void kg_lab_check(const struct kg_lab *lab, const char *const *args, struct kg_process_result *result) {
    const char **argv = command(lab, args);
    char *tmp = kg_xasprintf("TMPDIR=%s", lab->tmp);
    const char *env[] = { tmp, NULL };
    const struct kg_process process = { .argv = argv, .env = env, .timeout_s = 2 * PATIENCE_S };
    const enum kg_status status = kg_process_run(&process, result, NULL);
    free(tmp);
    free(argv);
    ck_assert_int_eq(status, KG_OK);
    ck_assert_msg(!result->timed_out, "kigo check did not end: %s%s", result->out, result->err);
}

pid_t kg_lab_start(const struct kg_lab *lab, const char *const *args) {
    const char **argv = command(lab, args);
    const pid_t test = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int null = open("/dev/null", O_RDWR);
        if (getppid() != test || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) _exit(126);
        setenv("TMPDIR", lab->tmp, 1);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    free(argv);
    ck_assert_int_gt(pid, 0);
    return pid;
}

static void pause_a_little(void) {
    const struct timespec t = { .tv_nsec = 2000000 };
    nanosleep(&t, NULL);
}

int kg_lab_wait(pid_t pid) {
    const uint64_t limit_ns = kg_clock_monotonic_ns() + (uint64_t)PATIENCE_S * 1000000000u;
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (kg_clock_monotonic_ns() > limit_ns) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            ck_abort_msg("kigo check did not end in %d s", PATIENCE_S);
        }
        pause_a_little();
    }
    return status;
}

/* The first folder below bundles/ with the prefix; NULL if there is none. malloc'ed. */
static char *find_dir(const struct kg_lab *lab, const char *prefix, size_t *n_found) {
    struct kg_dir_list list;
    char *found = NULL;
    *n_found = 0;
    ck_assert_int_eq(kg_dir_list(lab->bundles, &list, NULL), KG_OK);
    for (size_t i = 0; i < list.n_names; i++) {
        const char *name = list.names[i];
        const bool match = *prefix ? strncmp(name, prefix, strlen(prefix)) == 0 : *name >= '0' && *name <= '9';
        if (!match) continue;
        (*n_found)++;
        if (!found) found = kg_path_join(lab->bundles, name);
    }
    kg_dir_list_free(&list);
    return found;
}

size_t kg_lab_count(const struct kg_lab *lab, const char *prefix) {
    size_t n;
    free(find_dir(lab, prefix, &n));
    return n;
}

char *kg_lab_bundle(const struct kg_lab *lab) {
    size_t n;
    char *bundle = find_dir(lab, "", &n);
    ck_assert_uint_eq(n, 1);
    return bundle;
}

static bool has_started(const char *bundle, const char *key) {
    char *path = kg_path_join(bundle, "data/journal.ndjson"), *text = NULL;
    char *needle = kg_xasprintf("\"%s\"", key);
    size_t size;
    const bool found = kg_file_read(path, &text, &size, NULL) == KG_OK && strstr(text, needle) != NULL;
    free(text);
    free(needle);
    free(path);
    return found;
}

void kg_lab_wait_for_start(const struct kg_lab *lab, const char *key) {
    const uint64_t limit_ns = kg_clock_monotonic_ns() + (uint64_t)PATIENCE_S * 1000000000u;
    for (bool started = false; !started; pause_a_little()) {
        size_t n;
        char *bundle = find_dir(lab, ".tmp-", &n);
        started = bundle && has_started(bundle, key);
        free(bundle);
        if (!started && kg_clock_monotonic_ns() > limit_ns) ck_abort_msg("%s was not started in %d s", key, PATIENCE_S);
    }
}

void kg_lab_expect_verified(const char *bundle) {
    struct kg_bundle_findings findings = { 0 };
    struct kg_error err = { 0 };
    const enum kg_status status = kg_bundle_verify(bundle, &findings, &err);
    if (status != KG_OK)
        ck_abort_msg("%s: %s: %s (%s %s)", bundle, kg_status_name(status), err.message,
                     findings.n_items ? findings.items[0].what : "", findings.n_items ? findings.items[0].path : "");
    kg_bundle_findings_free(&findings);
}

json_t *kg_lab_lines(const char *bundle, const char *file) {
    char *path = kg_xasprintf("%s/data/%s", bundle, file), *text = NULL;
    size_t size;
    const enum kg_status status = kg_file_read(path, &text, &size, NULL);
    ck_assert_msg(status == KG_OK, "%s cannot be read", path);
    json_t *lines = json_array();
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *record = json_loads(line, 0, NULL);
        ck_assert_msg(record != NULL, "%s holds '%s'", path, line);
        json_array_append_new(lines, record);
    }
    free(text);
    free(path);
    return lines;
}

const json_t *kg_lab_result(const json_t *results, const char *key) {
    size_t i;
    json_t *record;
    json_array_foreach(results, i, record) {
        if (strcmp(json_string_value(json_object_get(record, "key")), key) == 0) return record;
    }
    return NULL;
}

void kg_lab_expect_status(const json_t *results, const char *key, const char *status) {
    const json_t *record = kg_lab_result(results, key);
    ck_assert_msg(record != NULL, "%s has no result", key);
    const char *got = json_string_value(json_object_get(record, "status"));
    const char *reason = json_string_value(json_object_get(record, "reason"));
    ck_assert_msg(strcmp(got, status) == 0, "%s: %s (%s), not %s", key, got, reason ? reason : "no reason", status);
}

char *kg_lab_failure(const char *bundle, const char *key, const char *file) {
    char *folder = kg_failure_folder(key), *text = NULL;
    char *path = kg_xasprintf("%s/data/failures/%s/%s", bundle, folder, file);
    size_t size;
    if (kg_file_read(path, &text, &size, NULL) != KG_OK) text = NULL;
    free(path);
    free(folder);
    return text;
}

char *kg_last_line(const char *text) {
    size_t end = strlen(text);
    while (end > 0 && text[end - 1] == '\n') end--;
    size_t begin = end;
    while (begin > 0 && text[begin - 1] != '\n') begin--;
    return kg_xstrndup(text + begin, end - begin);
}

void kg_lab_expect_records(const char *bundle, const struct kg_lab_expected *rows, size_t n_rows) {
    json_t *results = kg_lab_lines(bundle, "results.ndjson"), *plan = kg_lab_lines(bundle, "plan.ndjson");
    ck_assert_uint_eq(json_array_size(plan), n_rows);
    ck_assert_uint_eq(json_array_size(results), n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        kg_lab_expect_status(results, rows[i].key, rows[i].status);
        const char *reason = json_string_value(json_object_get(kg_lab_result(results, rows[i].key), "reason"));
        ck_assert_msg(rows[i].reason ? reason && strstr(reason, rows[i].reason) : !reason, "%s: reason %s", rows[i].key,
                      reason);
    }
    json_decref(results);
    json_decref(plan);
}

void kg_lab_expect_exit(const struct kg_process_result *r, int exit_code, const char *last_line) {
    ck_assert_msg(r->exit_code == exit_code, "exit code %d, not %d: %s%s", r->exit_code, exit_code, r->out, r->err);
    char *last = kg_last_line(r->out);
    if (last_line) ck_assert_str_eq(last, last_line);
    free(last);
}

void kg_lab_expect_empty(const char *dir) {
    struct kg_dir_list list;
    ck_assert_int_eq(kg_dir_list(dir, &list, NULL), KG_OK);
    ck_assert_msg(list.n_names == 0, "%s was left in %s", list.n_names ? list.names[0] : "", dir);
    kg_dir_list_free(&list);
}
