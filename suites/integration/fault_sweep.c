#include "suites/integration/fault_sweep.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/archive.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/integration/fault_places.h"
#include "suites/integration/fault_server.h"
#include "suites/integration/fault_world.h"
#include "suites/support/fault_report.h"
#include <check.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_ARGS = 24, MAX_SHOWN = 12, SEEN_BYTES = KG_SHA256_HEX_SIZE + 1, DEATHS_BETWEEN_LOOKS = 16 };

struct answer {
    int exit_code, signal;
    bool timed_out;
    char *out, *err;
};

struct sweep {
    const struct kg_fault_verb *verb;
    const struct kg_fault_sweep *how;
    char *dir, *world;
    struct kg_fault_world *kept; /* the world as `make` filled it */
    struct kg_fault_server *verb_calls, *list_calls, *verify_calls;
    char *report_path, *injector, *program;
    struct kg_fault_report *report;
    struct answer right;                   /* without a fault */
    struct answer list_before, list_after; /* what `kigo list` answers */
    char *names_before, *names_after;      /* of the folder of bundles */
    struct kg_buffer findings;
    char index_name[16]; /* "index.sqlite", masked: a journal of it may stay */
    char leaves[16];     /* the verb's, masked */
    size_t n_findings, n_failed, n_got_over, n_changed, n_deaths, n_looks;
    char (*seen)[SEEN_BYTES]; /* worlds that were found right */
    size_t n_seen, max_seen;
};

static void answer_free(struct answer *a) {
    free(a->out);
    free(a->err);
    *a = (struct answer){ 0 };
}

/* Ids and times differ from run to run, and so does the number of a time's digits: 9.8 ms and 13 ms are the same. */
static void mask(char *text) {
    for (char *s = text; *s; s++)
        if (isxdigit((unsigned char)*s) || (*s == '.' && s > text && s[-1] == '#' && isdigit((unsigned char)s[1])))
            *s = '#';
    char *to = text;
    for (const char *s = text; *s; s++)
        if (*s != '#' || to == text || to[-1] != '#') *to++ = *s;
    *to = '\0';
}

static char *in_world(const struct sweep *w, const char *arg) {
    return arg[0] == '@' ? kg_path_join(w->world, arg + 1) : kg_xstrdup(arg);
}

/* `kigo ARGS` in the world, to be called many times. */
static struct kg_fault_server *start(const struct sweep *w, const char *const *args) {
    char *owned[MAX_ARGS + 1] = { kg_xstrdup(w->program) };
    size_t n = 1;
    for (; args[n - 1] && n < MAX_ARGS; n++) owned[n] = in_world(w, args[n - 1]);
    char *env[12], *variable = NULL;
    size_t n_env = 0;
    env[n_env++] = kg_xasprintf("TMPDIR=%s/tmp", w->world);
    env[n_env++] = kg_xasprintf("XDG_CACHE_HOME=%s/cache", w->world);
    env[n_env++] = kg_xasprintf("KIGO_BUNDLES=%s/bundles", w->world);
    if (w->verb->variable) {
        const char *equals = strchr(w->verb->variable, '=');
        variable = in_world(w, equals + 1);
        env[n_env++] = kg_xasprintf("%.*s=%s", (int)(equals - w->verb->variable), w->verb->variable, variable);
    }
    env[n_env++] = kg_xasprintf("KIGO_FAULT_PROGRAM=%s", w->program);
    env[n_env++] = kg_xasprintf("KIGO_FAULT_REPORT=%s", w->report_path);
    env[n_env++] = kg_xasprintf("KIGO_FAULT_KIND=%s", w->how->kind);
    if (w->how->only) env[n_env++] = kg_xasprintf("KIGO_FAULT_ONLY=%s", w->how->only);
    if (w->how->n_frames) env[n_env++] = kg_xasprintf("KIGO_FAULT_FRAMES=%d", w->how->n_frames);
    env[n_env++] = kg_xasprintf("LD_PRELOAD=%s", w->injector);
    env[n_env] = NULL;
    struct kg_fault_server *server = kg_fault_server_start((const char *const *)owned, (const char *const *)env);
    for (size_t i = 0; i < n; i++) free(owned[i]);
    for (size_t i = 0; i < n_env; i++) free(env[i]);
    free(variable);
    return server;
}

/* at: the call that fails, 0: none, places are noted, -1: nothing is counted. */
static struct answer run(const struct sweep *w, struct kg_fault_server *server, int64_t at) {
    struct kg_process_result result;
    w->report->n_calls = w->report->n_failed = 0;
    kg_fault_server_call(server, at, &result);
    return (struct answer){ result.exit_code, result.signal, result.timed_out, result.out, result.err };
}

/* Masked names of a folder, a line each. */
static char *names_in(const char *world, const char *folder) {
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_dir_list list = { 0 };
    struct kg_error err;
    char *dir = kg_path_join(world, folder);
    kg_must(kg_dir_list(dir, &list, &err), &err);
    kg_buffer_puts(&text, "\n");
    for (size_t i = 0; i < list.n_names; i++) {
        mask(list.names[i]);
        kg_buffer_printf(&text, "%s\n", list.names[i]);
    }
    kg_dir_list_free(&list);
    free(dir);
    return text.data;
}

static void finding(struct sweep *w, const char *fmt, ...) KG_PRINTF(2, 3);
static void finding(struct sweep *w, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *text = kg_xvasprintf(fmt, args);
    va_end(args);
    fprintf(stderr, "%s: %s\n", w->verb->name, text);
    if (w->n_findings++ < MAX_SHOWN) kg_buffer_printf(&w->findings, "%.400s\n", text);
    free(text);
}

static bool same_answer(const struct sweep *w, const struct answer *a, const struct answer *b) {
    if (a->exit_code != b->exit_code) return false;
    if (w->verb->only_answers) return strcmp(a->out, b->out) == 0;
    char *x = kg_xstrdup(a->out), *y = kg_xstrdup(b->out);
    mask(x);
    mask(y);
    const bool same = strcmp(x, y) == 0;
    free(y);
    free(x);
    return same;
}

/* Whether what it printed says why it failed; SQLite has other texts for EIO and ENOSPC. A file that it cannot open for
 * writing it opens for reading, and drops why. */
static bool says_why(const struct answer *a, int code) {
    const char *const whys[] = { strerror(code),
                                 "disk I/O error",
                                 "database disk image is malformed",
                                 "database or disk is full",
                                 "unable to open database file",
                                 "attempt to write a readonly database",
                                 "out of memory" };
    for (size_t i = 0; i < KG_COUNT_OF(whys); i++)
        if (strstr(a->err, whys[i]) || strstr(a->out, whys[i])) return true;
    return false;
}

/* glibc's loader ends a process so where the table of C++'s unique symbols cannot grow, as at a start. */
enum { LOADER_LACKED_MEMORY = 127 };
/* An error is one of input and output, or of memory; one of integrity or usage may be the consequence if it says so.
 */
static bool is_error(const struct sweep *w, const struct answer *a) {
    if (a->exit_code == LOADER_LACKED_MEMORY) return strcmp(a->err, "out of memory\n") == 0;
    if (a->exit_code == KG_EXIT_INCOMPLETE || a->exit_code == KG_EXIT_INTERNAL) return *a->err != '\0';
    const bool may_say_so = a->exit_code == KG_EXIT_INTEGRITY || a->exit_code == KG_EXIT_USAGE ||
                            (w->verb->runs_cases && a->exit_code == KG_EXIT_FAILED);
    if (w->verb->lacks && a->exit_code == w->right.exit_code && strstr(a->out, w->verb->lacks))
        return says_why(a, w->report->code);
    return may_say_so && says_why(a, w->report->code);
}

/* What the folder of bundles may not have: names that it has neither before nor after. */
static void expect_nothing_left(struct sweep *w, const char *when, const char *call) {
    char *names = names_in(w->world, "bundles"), *tmp = names_in(w->world, "tmp"), *rest = names;
    const bool is_named = w->verb->runs_again && strncmp(tmp, "\nkigo-runs-", strlen("\nkigo-runs-")) == 0;
    /* SQLite removes the file that it sorts in (etilqs_...) while it has it open, and does not look whether that went
     * well. */
    const bool of_sorting = strstr(call, ", unlink ") && strstr(call, "/etilqs_") && strcmp(tmp, "\n#tilqs_#\n") == 0;
    if (strcmp(tmp, "\n") != 0 && !is_named && !of_sorting) finding(w, "%s: %s: left in tmp: %s", call, when, tmp);
    for (char *name; (name = strsep(&rest, "\n"));) {
        char *line = kg_xasprintf("\n%s\n", name);
        const bool tolerated = *w->leaves && strncmp(name, w->leaves, strlen(w->leaves)) == 0;
        const bool of_index = strncmp(name, w->index_name, strlen(w->index_name)) == 0;
        if (*name && !tolerated && !of_index && !strstr(w->names_before, line) && !strstr(w->names_after, line))
            finding(w, "%s: %s: left in the folder of bundles: %s", call, when, name);
        free(line);
    }
    free(tmp);
    free(names);
}

static void expect_list(struct sweep *w, const char *call) {
    struct answer list = run(w, w->list_calls, -1);
    const bool before = same_answer(w, &list, &w->list_before), after = same_answer(w, &list, &w->list_after);
    const bool between = (w->verb->by_steps || w->verb->runs_cases) && list.exit_code == KG_EXIT_OK;
    if (!before && !after && !between)
        finding(w, "%s: list then ends with %d: %s%s", call, list.exit_code, list.err, list.out);
    answer_free(&list);
}

static void expect_verified(struct sweep *w, const char *call) {
    struct answer verified = run(w, w->verify_calls, -1);
    if (verified.exit_code != KG_EXIT_OK && verified.exit_code != KG_EXIT_NOTHING_TO_DO)
        finding(w, "%s: verify then ends with %d: %s%s", call, verified.exit_code, verified.err, verified.out);
    answer_free(&verified);
}

static void expect_works_again(struct sweep *w, const char *call) {
    const struct kg_fault_verb *verb = w->verb;
    struct answer again = run(w, w->verb_calls, -1);
    const bool right =
        same_answer(w, &again, &w->right) || (!verb->only_answers && again.exit_code == w->right.exit_code);
    if (!right && again.exit_code != verb->again)
        finding(w, "%s: once more, it ends with %d: %s%s", call, again.exit_code, again.err, again.out);
    answer_free(&again);
}

/* What the verb left behind, and what others make of it. */
static void look(struct sweep *w, const char *call, bool died) {
    w->n_looks++;
    if (!died) expect_nothing_left(w, "at once", call);
    expect_list(w, call);
    if (!w->verb->only_answers) expect_verified(w, call);
    expect_works_again(w, call);
    /* A killed run's folder for temporary files is the system's to remove. */
    if (!(died && w->verb->leaves)) expect_nothing_left(w, "once more", call);
}

static bool was_seen(const struct sweep *w, const char *world) {
    for (size_t i = 0; i < w->n_seen; i++)
        if (strcmp(w->seen[i], world) == 0) return true;
    return false;
}

/* Worlds with the same bytes in the same files answer alike: one of them is looked at, unless something is wrong with
 * it. */
static void look_once(struct sweep *w, const char *call, bool died) {
    const size_t n_findings = w->n_findings;
    char world[SEEN_BYTES];
    world[0] = died ? 'd' : ' ';
    kg_fault_world_digest(w->kept, world + 1);
    if (!was_seen(w, world)) {
        look(w, call, died);
        if (w->n_seen == w->max_seen) {
            w->max_seen = 2 * w->max_seen + 16;
            w->seen = kg_xrealloc(w->seen, w->max_seen * sizeof *w->seen);
        }
        if (w->n_findings == n_findings) memcpy(w->seen[w->n_seen++], world, sizeof world);
    }
}

/* One fault, and what became of it. Where it left the world untouched, all that follows is as without it. */
static void try(struct sweep *w, size_t at) {
    struct answer a = run(w, w->verb_calls, (int64_t)at);
    char *call = kg_xasprintf("%s %zu, %s", w->how->kind, at, w->report->call);
    const bool failed = w->report->n_failed > 0; /* threads: this time there may have been fewer calls */
    const bool right = same_answer(w, &a, &w->right);
    w->n_failed += failed;
    w->n_got_over += failed && right;
    if (failed && (a.signal || a.timed_out))
        finding(w, "%s: %s %d: %s", call, a.timed_out ? "hangs" : "ends by signal", a.signal, a.err);
    else if (failed && !right && !is_error(w, &a))
        finding(w, "%s: ends with %d, not %d: %s%s", call, a.exit_code, w->right.exit_code, a.err, a.out);
    /* Whom the lack of memory ends at once leaves what a kill leaves: it is looked at now and then. */
    const bool died = a.exit_code == KG_EXIT_INCOMPLETE && strstr(a.err, "kigo: out of memory");
    if (!kg_fault_world_is_same(w->kept)) {
        w->n_changed++;
        if (!died || w->n_deaths++ % DEATHS_BETWEEN_LOOKS == 0) look_once(w, call, died);
        kg_fault_world_put_back(w->kept);
    }
    free(call);
    answer_free(&a);
}

static void open_world(struct sweep *w, struct kg_record *rec) {
    static const char *const FOLDERS[] = { "bundles", "tmp", "cache/kigo" };
    struct kg_error err;
    w->dir = kg_xstrdup(kg_scratch_dir(rec));
    w->world = kg_path_join(w->dir, "world");
    w->program = realpath(kg_program_path(), NULL);
    w->injector = kg_xstrdup(kg_suites_path("support/fault_injector.so"));
    w->report_path = kg_path_join(w->dir, "report");
    for (size_t i = 0; i < KG_COUNT_OF(FOLDERS); i++) {
        char *path = kg_path_join(w->world, FOLDERS[i]);
        kg_must(kg_dir_make(path, &err), &err);
        free(path);
    }
    const int fd = open(w->report_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(ftruncate(fd, sizeof *w->report), 0);
    w->report = mmap(NULL, sizeof *w->report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    ck_assert_ptr_ne(w->report, MAP_FAILED);
    w->verb->make(w->world);
    char *copy = kg_path_join(w->dir, "before");
    w->kept = kg_fault_world_keep(w->world, copy);
    free(copy);
    w->verb_calls = start(w, w->verb->args);
    w->list_calls = start(w, ARGS("list", "--json"));
    w->verify_calls = start(w, ARGS("verify", "--all", "--chain"));
}

static void close_world(struct sweep *w) {
    kg_fault_server_stop(w->verb_calls);
    kg_fault_server_stop(w->list_calls);
    kg_fault_server_stop(w->verify_calls);
    munmap(w->report, sizeof *w->report);
    answer_free(&w->right);
    answer_free(&w->list_before);
    answer_free(&w->list_after);
    kg_buffer_free(&w->findings);
    free(w->seen);
    kg_fault_world_free(w->kept);
    char *const owned[] = {
        w->dir, w->world, w->program, w->injector, w->report_path, w->names_before, w->names_after
    };
    for (size_t i = 0; i < KG_COUNT_OF(owned); i++) free(owned[i]);
}

/* The right answer, and how the folder of bundles looks before and after it. */
static void learn(struct sweep *w) {
    w->names_before = names_in(w->world, "bundles");
    w->list_before = run(w, w->list_calls, -1);
    kg_fault_world_put_back(w->kept);
    w->right = run(w, w->verb_calls, 0);
    ck_assert_msg(w->right.signal == 0 && w->report->n_calls > 0, "kigo %s: %s%s", w->verb->name, w->right.out,
                  w->right.err);
}

static void learn_after(struct sweep *w) {
    w->list_after = run(w, w->list_calls, -1);
    expect_verified(w, "no fault");
    w->names_after = names_in(w->world, "bundles");
    expect_works_again(w, "no fault");
    kg_fault_world_put_back(w->kept);
}

static bool has_tool(const char *name) {
    const char *path = getenv("PATH");
    bool found = false;
    char *dirs = kg_xstrdup(path ? path : ""), *rest = dirs;
    for (char *dir; !found && (dir = strsep(&rest, ":"));) {
        char *program = kg_path_join(dir, name);
        found = access(program, X_OK) == 0;
        free(program);
    }
    free(dirs);
    return found;
}

/* Why no fault can be injected into this build's kigo; NULL: it can. */
static const char *without_faults(void) {
#if defined __SANITIZE_ADDRESS__
    return "AddressSanitizer's allocator has to be loaded before any other: builds without it inject faults";
#else
    return NULL;
#endif
}

void kg_fault_sweep(struct kg_record *rec, const struct kg_fault_verb *verb, const struct kg_fault_sweep *how) {
    if (without_faults()) return kg_record_skip(rec, "%s", without_faults());
    if (verb->of_archives && kg_archive_missing()) return kg_record_skip(rec, "%s", kg_archive_missing());
    if (verb->needs && !has_tool(verb->needs)) return kg_record_skip(rec, "no %s on this machine", verb->needs);
    struct sweep w = { .verb = verb, .how = how, .findings = KG_BUFFER_INIT };
    size_t n_chosen = 0, n_places = 0, n_calls;
    const uint64_t begun_ns = kg_clock_monotonic_ns();
    strcpy(w.index_name, "index.sqlite");
    mask(w.index_name);
    snprintf(w.leaves, sizeof w.leaves, "%s", verb->leaves ? verb->leaves : "");
    mask(w.leaves);
    open_world(&w, rec);
    learn(&w);
    n_calls = (size_t)w.report->n_calls;
    size_t *chosen = kg_fault_choose(w.report, how, kg_record_seed(rec), &n_places, &n_chosen);
    learn_after(&w);
    const size_t step = how->most == 0 || n_chosen <= how->most ? 1 : n_chosen / how->most;
    for (size_t i = step / 2; i < n_chosen; i += step) try(&w, chosen[i]);
    const double seconds = (double)(kg_clock_monotonic_ns() - begun_ns) * 1e-9;
    fprintf(stderr,
            "%s, %s: %zu calls from %zu stacks, %zu failed, %zu of them got over, %zu left files changed, in %zu "
            "ways, %zu findings, %.0f s\n",
            verb->name, how->kind, n_calls, n_places, w.n_failed, w.n_got_over, w.n_changed, w.n_looks, w.n_findings,
            seconds);
    kg_record_metric(rec, "calls", "count", (double)n_calls);
    kg_record_metric(rec, "places", "count", (double)n_places);
    kg_record_metric(rec, "failed", "count", (double)w.n_failed);
    kg_record_metric(rec, "changed", "count", (double)w.n_changed);
    kg_record_metric(rec, "looked_at", "count", (double)w.n_looks);
    kg_record_metric(rec, "got_over", "count", (double)w.n_got_over);
    char *text = kg_xstrdup(kg_buffer_text(&w.findings));
    const size_t n_findings = w.n_findings;
    free(chosen);
    close_world(&w);
    ck_assert_msg(n_findings == 0, "%zu findings:\n%s", n_findings, text);
    free(text);
}
