/* Many inputs of every target, on as many processors as are asked for: `make check-fuzz`. Which bytes an input has
 * follows from the seed and its number, so that a finding can be made again anywhere. */
#include "base/clock.h"
#include "base/file.h"
#include "base/options.h"
#include "base/size.h"
#include "bundle/archive.h"
#include "suites/fuzz/limits.h"
#include "suites/fuzz/readers.h"
#include "suites/fuzz/worker.h"
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double SECOND_NS = 1e9;
enum { BATCH = 1000, MINIMISE_SECONDS = 20, MAX_FINDINGS = 20 /* of a target, then it is left alone */ };

struct options {
    struct kg_option_list targets;
    const char *out, *corpus;
    int64_t jobs, seconds, inputs, first;
    double scale;
    uint64_t seed;
};

/* What a target has come to. */
struct progress {
    struct kg_fuzz_inputs inputs;
    uint64_t next, end; /* numbers of inputs */
    size_t n_findings;
    struct kg_fuzz_counts counts;
};

struct fuzzing {
    const struct options *o;
    struct progress *targets;
    size_t n_targets, n_workers, n_findings;
    struct kg_fuzz_worker *workers;
    uint64_t begun_ns, end_ns, said_ns; /* end_ns 0: no end by time */
    json_t *findings;
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number) {
    (void)signal_number;
    stopped = 1;
}

static void add(struct kg_fuzz_counts *sum, const struct kg_fuzz_counts *c) {
    sum->n_inputs += c->n_inputs;
    sum->cpu_ns += c->cpu_ns;
    for (size_t i = 0; i < KG_FUZZ_STATUSES; i++) sum->by_status[i] += c->by_status[i];
    if (c->slowest_ns > sum->slowest_ns) {
        sum->slowest_ns = c->slowest_ns;
        sum->slowest_input = c->slowest_input;
    }
    if (c->largest_share > sum->largest_share) {
        sum->largest_share = c->largest_share;
        sum->largest_input = c->largest_input;
    }
    if (c->most_bytes > sum->most_bytes) sum->most_bytes = c->most_bytes;
    if (c->largest_image > sum->largest_image) sum->largest_image = c->largest_image;
}

static uint64_t n_done(const struct fuzzing *f) {
    uint64_t n = 0;
    for (size_t i = 0; i < f->n_targets; i++) n += f->targets[i].counts.n_inputs;
    return n;
}

/* The target that is furthest behind its share, so that an end by time finds all of them equally far. */
static struct progress *next_target(const struct fuzzing *f) {
    struct progress *found = NULL;
    double least = 1;
    for (size_t i = 0; i < f->n_targets; i++) {
        struct progress *p = &f->targets[i];
        const double done = (double)(p->next - (uint64_t)f->o->first) / (double)(p->end - (uint64_t)f->o->first);
        if (p->next >= p->end || p->n_findings >= MAX_FINDINGS || done >= least) continue;
        least = done;
        found = p;
    }
    return found;
}

/* Keeps the input, shortened, with what the process said. */
static void keep(struct fuzzing *f, struct progress *p, const struct kg_fuzz_worker *w, const char *what) {
    const char *target = p->inputs.target->name;
    const uint64_t number = w->shared->input;
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_error err;
    char *path = kg_xasprintf("%s/%s-%" PRIu64, f->o->out, target, number), *log = kg_xasprintf("%s.log", path);
    if (rename(w->log, log) != 0) fprintf(stderr, "no log %s\n", log);
    kg_fuzz_make_input(&p->inputs, number, &image);
    const size_t size = image.len;
    kg_fuzz_minimise(p->inputs.target, &image, MINIMISE_SECONDS);
    if (kg_file_write(path, kg_buffer_text(&image), image.len, &err) != KG_OK) fprintf(stderr, "%s\n", err.message);
    json_array_append_new(f->findings, json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "target", target, "what", what,
                                                 "input", (json_int_t)number, "bytes", (json_int_t)size, "shortened",
                                                 (json_int_t)image.len, "file", path));
    fprintf(stderr, "\n%s: %s: input %" PRIu64 ", %s\n", target, what, number, path);
    p->n_findings++;
    f->n_findings++;
    kg_buffer_free(&image);
    free(log);
    free(path);
}

static struct progress *progress_of(const struct fuzzing *f, const struct kg_fuzz_worker *w) {
    for (size_t i = 0; i < f->n_targets; i++)
        if (&f->targets[i].inputs == w->inputs) return &f->targets[i];
    abort();
}

static bool may_start(const struct fuzzing *f) {
    return !stopped && (f->end_ns == 0 || kg_clock_monotonic_ns() < f->end_ns);
}

/* Ends, goes on behind a finding, or takes a new batch. True while there is something to wait for. */
static bool tend(struct fuzzing *f, struct kg_fuzz_worker *w) {
    if (w->pid > 0) {
        const enum kg_fuzz_end end = kg_fuzz_worker_poll(w);
        if (end == KG_FUZZ_RUNS) return true;
        struct progress *p = progress_of(f, w);
        add(&p->counts, &w->shared->counts);
        if (end != KG_FUZZ_DONE) {
            p->counts.n_inputs++;
            keep(f, p, w, end == KG_FUZZ_TOO_SLOW ? "takes too long" : "crashes");
            if (w->shared->input + 1 < w->end && p->n_findings < MAX_FINDINGS && may_start(f)) {
                kg_fuzz_worker_start(w, w->inputs, w->shared->input + 1, w->end);
                return true;
            }
        }
    }
    struct progress *p = may_start(f) ? next_target(f) : NULL;
    if (!p) return false;
    const uint64_t end = p->next + BATCH < p->end ? p->next + BATCH : p->end;
    kg_fuzz_worker_start(w, &p->inputs, p->next, end);
    p->next = end;
    return true;
}

static void say_progress(struct fuzzing *f, bool last) {
    const uint64_t now = kg_clock_monotonic_ns();
    const double seconds = (double)(now - f->begun_ns) / SECOND_NS;
    if (!last && (double)(now - f->said_ns) < (isatty(STDERR_FILENO) ? 1 : 30) * SECOND_NS) return;
    f->said_ns = now;
    fprintf(stderr, "%s%" PRIu64 " inputs in %.0f s, %.0f a second, %zu findings%s", isatty(STDERR_FILENO) ? "\r" : "",
            n_done(f), seconds, (double)n_done(f) / seconds, f->n_findings,
            last || !isatty(STDERR_FILENO) ? "\n" : "   ");
}

static void fuzz_all(struct fuzzing *f) {
    const struct timespec pause = { 0, 2000000 };
    f->workers = kg_xcalloc(f->n_workers, sizeof *f->workers);
    for (size_t i = 0; i < f->n_workers; i++) {
        char *log = kg_xasprintf("%s/worker-%zu.log", f->o->out, i);
        kg_fuzz_worker_open(&f->workers[i], log);
        free(log);
    }
    for (bool busy = true; busy;) {
        busy = false;
        for (size_t i = 0; i < f->n_workers; i++) busy = tend(f, &f->workers[i]) || busy;
        say_progress(f, !busy);
        if (busy) nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < f->n_workers; i++) {
        (void)!unlink(f->workers[i].log);
        kg_fuzz_worker_close(&f->workers[i]);
    }
    free(f->workers);
}

static json_t *target_json(const struct progress *p) {
    const struct kg_fuzz_counts *c = &p->counts;
    json_t *outcomes = json_object();
    for (size_t s = 0; s < KG_FUZZ_STATUSES; s++)
        if (c->by_status[s])
            json_object_set_new(outcomes, s ? kg_status_name((enum kg_status)s) : "accepted",
                                json_integer((json_int_t)c->by_status[s]));
    return json_pack("{s:s, s:I, s:I, s:f, s:o, s:f, s:I, s:I, s:f, s:I, s:I, s:I}", "target", p->inputs.target->name,
                     "inputs", (json_int_t)c->n_inputs, "seeds", (json_int_t)p->inputs.n_seeds, "cpu_s",
                     (double)c->cpu_ns / SECOND_NS, "outcomes", outcomes, "slowest_cpu_s",
                     (double)c->slowest_ns / SECOND_NS, "slowest_input", (json_int_t)c->slowest_input, "most_bytes",
                     (json_int_t)c->most_bytes, "largest_share_of_limit", (double)c->largest_share / 1000,
                     "largest_share_input", (json_int_t)c->largest_input, "longest_image_bytes",
                     (json_int_t)c->largest_image, "findings", (json_int_t)p->n_findings);
}

static int report(struct fuzzing *f) {
    json_t *targets = json_array();
    for (size_t i = 0; i < f->n_targets; i++) json_array_append_new(targets, target_json(&f->targets[i]));
    json_t *all =
        json_pack("{s:I, s:I, s:f, s:I, s:{s:I, s:I, s:I}, s:o, s:O}", "seed", (json_int_t)f->o->seed, "inputs",
                  (json_int_t)n_done(f), "wall_s", (double)(kg_clock_monotonic_ns() - f->begun_ns) / SECOND_NS, "jobs",
                  (json_int_t)f->n_workers, "limits", "bytes", (json_int_t)KG_FUZZ_BASE_BYTES, "times_size",
                  (json_int_t)KG_FUZZ_TIMES_SIZE, "seconds", (json_int_t)KG_FUZZ_SECONDS, "targets", targets,
                  "findings", f->findings);
    char *path = kg_path_join(f->o->out, "fuzz.json");
    const bool written = json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    if (!written) fprintf(stderr, "cannot write %s\n", path);
    free(path);
    json_decref(all);
    if (f->n_findings > 0) return KG_EXIT_FAILED;
    return written && n_done(f) > 0 ? KG_EXIT_OK : KG_EXIT_INCOMPLETE;
}

/* Files of <corpus>/<target>/, by name, become seeds. */
static void add_corpus(const char *corpus, struct kg_fuzz_inputs *inputs) {
    char *dir = kg_path_join(corpus, inputs->target->name);
    struct kg_dir_list list = { 0 };
    if (kg_path_is_dir(dir) && kg_dir_list(dir, &list, NULL) != KG_OK) fprintf(stderr, "cannot list %s\n", dir);
    for (size_t i = 0; i < list.n_names; i++) {
        char *path = kg_path_join(dir, list.names[i]), *data = NULL;
        size_t size = 0;
        if (kg_file_read_regular(path, &data, &size, NULL) == KG_OK && size <= KG_FUZZ_MAX_BYTES)
            kg_fuzz_inputs_add(inputs, data, size);
        free(data);
        free(path);
    }
    kg_dir_list_free(&list);
    free(dir);
}

static bool is_wanted(const struct options *o, const struct kg_fuzz_target *target) {
    if (target->run == kg_fuzz_archive && kg_archive_missing()) {
        fprintf(stderr, "%s is left out: %s\n", target->name, kg_archive_missing());
        return false;
    }
    for (size_t i = 0; i < o->targets.n_items; i++)
        if (strcmp(o->targets.items[i], target->name) == 0) return true;
    return o->targets.n_items == 0;
}

struct call {
    const struct options *o;
    const char *const *files;
    size_t n_files;
    int code;
};

static int fuzz(const struct options *o) {
    struct fuzzing f = { .o = o, .n_workers = (size_t)o->jobs, .findings = json_array() };
    struct kg_error err;
    if (kg_dir_make(o->out, &err) != KG_OK) return fprintf(stderr, "%s\n", err.message), KG_EXIT_USAGE;
    f.targets = kg_xcalloc(KG_FUZZ_N_TARGETS, sizeof *f.targets);
    for (size_t i = 0; i < KG_FUZZ_N_TARGETS; i++) {
        if (!is_wanted(o, &KG_FUZZ_TARGETS[i])) continue;
        struct progress *p = &f.targets[f.n_targets++];
        const double n = o->inputs ? (double)o->inputs : KG_FUZZ_TARGETS[i].thousand * 1000.0 * o->scale;
        kg_fuzz_inputs_open(&KG_FUZZ_TARGETS[i], o->seed, &p->inputs);
        if (o->corpus) add_corpus(o->corpus, &p->inputs);
        p->next = (uint64_t)o->first;
        p->end = p->next + (uint64_t)n;
    }
    f.begun_ns = f.said_ns = kg_clock_monotonic_ns();
    if (o->seconds) f.end_ns = f.begun_ns + (uint64_t)((double)o->seconds * SECOND_NS);
    fuzz_all(&f);
    const int code = report(&f);
    for (size_t i = 0; i < f.n_targets; i++) kg_fuzz_inputs_close(&f.targets[i].inputs);
    free(f.targets);
    json_decref(f.findings);
    return code;
}

/* Files by the one target named: what `fuzz --target NAME FILE...` does, to look at a finding. */
static int run_files(const struct options *o, const char *const *files, size_t n_files) {
    const struct kg_fuzz_target *target = o->targets.n_items == 1 ? kg_fuzz_find(o->targets.items[0]) : NULL;
    struct kg_fuzz_inputs inputs;
    if (!target) return fprintf(stderr, "files need one --target\n"), KG_EXIT_USAGE;
    kg_fuzz_inputs_open(target, o->seed, &inputs);
    for (size_t i = 0; i < n_files; i++) {
        char *data = NULL;
        size_t size;
        int64_t peak;
        struct kg_error err;
        if (kg_file_read(files[i], &data, &size, &err) != KG_OK)
            return fprintf(stderr, "%s\n", err.message), KG_EXIT_USAGE;
        kg_fuzz_name_input("%s", files[i]);
        const enum kg_status status = kg_fuzz_run(target, (const uint8_t *)data, size, &peak);
        printf("%s: %s, %" PRId64 " bytes in use at most\n", files[i], kg_status_name(status), peak);
        free(data);
    }
    kg_fuzz_inputs_close(&inputs);
    return KG_EXIT_OK;
}

static void answer(void *arg) {
    struct call *call = arg;
    call->code = call->n_files ? run_files(call->o, call->files, call->n_files) : fuzz(call->o);
}

/* Crashes are stack traces; leaks are looked for after every input, and not at the end. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "abort_on_error=1:handle_abort=1:detect_leaks=0";
}
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) {
    return "print_stacktrace=1:abort_on_error=1";
}

int main(int argc, char **argv) {
    struct options o = { .out = "fuzz-out", .jobs = 1, .scale = 1, .seed = 1 };
    const struct kg_option options[] = {
        { "target", 't', KG_OPTION_TEXTS, &o.targets, "NAME", "only these targets; may be repeated", 0, 0 },
        { "jobs", 'j', KG_OPTION_INT, &o.jobs, "N", "processes (1)", 1, 1024 },
        { "seconds", 0, KG_OPTION_INT, &o.seconds, "S", "start no batch after that time", 1, 1e6 },
        { "inputs", 'n', KG_OPTION_INT, &o.inputs, "N", "inputs of each target, instead of its share", 1, 1e12 },
        { "scale", 0, KG_OPTION_DOUBLE, &o.scale, "X", "times the shares, 11 million inputs in all (1)", 1e-6, 1e6 },
        { "seed", 's', KG_OPTION_UINT64, &o.seed, "S", "which inputs (1)", 0, 0 },
        { "first", 0, KG_OPTION_INT, &o.first, "N", "number of the first input (0)", 0, 1e15 },
        { "corpus", 0, KG_OPTION_TEXT, &o.corpus, "DIR", "files of DIR/TARGET/ are seeds, too", 0, 0 },
        { "out", 'o', KG_OPTION_TEXT, &o.out, "DIR", "for fuzz.json and for inputs that were found (fuzz-out)", 0, 0 },
    };
    const struct kg_command command = {
        "fuzz",  "[options] [FILE...]", "Runs inputs of every target under limits of memory and time; files: those.",
        options, KG_COUNT_OF(options),  0,
        1 << 20
    };
    const char **args;
    size_t n_args;
    bool helped;
    struct kg_error err;
    if (kg_options_parse(&command, argc, argv, &args, &n_args, &helped, &err) != KG_OK)
        return fprintf(stderr, "%s\n", err.message), KG_EXIT_USAGE;
    if (helped) return KG_EXIT_OK;
    for (size_t i = 0; i < o.targets.n_items; i++)
        if (!kg_fuzz_find(o.targets.items[i]))
            return fprintf(stderr, "no target is named %s\n", o.targets.items[i]), KG_EXIT_USAGE;
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    struct call call = { &o, args, n_args, KG_EXIT_INTERNAL };
    if (!kg_fuzz_under_check(answer, &call)) call.code = KG_EXIT_INTERNAL;
    free(args);
    free(o.targets.items);
    return call.code;
}
