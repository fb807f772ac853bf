#include "suites/fuzz/worker.h"
#include "base/clock.h"
#include "suites/fuzz/folder.h"
#include "suites/fuzz/limits.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const uint64_t SECOND_NS = 1000000000;

void kg_fuzz_worker_open(struct kg_fuzz_worker *worker, const char *log) {
    *worker = (struct kg_fuzz_worker){ .log = kg_xstrdup(log) };
    worker->shared = mmap(NULL, sizeof *worker->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (worker->shared == MAP_FAILED) kg_fuzz_give_up("no memory to share");
}

void kg_fuzz_worker_close(struct kg_fuzz_worker *worker) {
    munmap(worker->shared, sizeof *worker->shared);
    free(worker->log);
    *worker = (struct kg_fuzz_worker){ 0 };
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static void count(struct kg_fuzz_counts *c, uint64_t input, size_t size, enum kg_status status, uint64_t ns,
                  int64_t peak) {
    const uint64_t share =
        (uint64_t)(peak > 0 ? peak : 0) * 1000 / (KG_FUZZ_BASE_BYTES + KG_FUZZ_TIMES_SIZE * (uint64_t)size);
    c->n_inputs++;
    c->cpu_ns += ns;
    c->by_status[status]++;
    if (ns > c->slowest_ns) {
        c->slowest_ns = ns;
        c->slowest_input = input;
    }
    if (peak > c->most_bytes) c->most_bytes = peak;
    if (share > c->largest_share) {
        c->largest_share = share;
        c->largest_input = input;
    }
    if (size > c->largest_image) c->largest_image = size;
}

/* Standard error goes into the log; the process ends with its parent. */
static void begin_child(const char *log) {
    const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    if (fd >= 0) dup2(fd, STDERR_FILENO);
    if (fd > STDERR_FILENO) close(fd);
}

_Noreturn static void run_batch(const struct kg_fuzz_worker *w) {
    struct kg_buffer image = KG_BUFFER_INIT;
    begin_child(w->log);
    for (uint64_t i = w->first; i < w->end; i++) {
        int64_t peak;
        kg_fuzz_make_input(w->inputs, i, &image);
        kg_fuzz_name_input("input %llu of seed %llu", (unsigned long long)i, (unsigned long long)w->inputs->seed);
        w->shared->begun_ns = kg_clock_monotonic_ns();
        w->shared->input = i;
        const uint64_t begin = cpu_ns();
        const enum kg_status status = kg_fuzz_run(w->inputs->target, (const uint8_t *)image.data, image.len, &peak);
        count(&w->shared->counts, i, image.len, status, cpu_ns() - begin, peak);
    }
    kg_fuzz_folder_remove();
    _exit(0);
}

void kg_fuzz_worker_start(struct kg_fuzz_worker *worker, const struct kg_fuzz_inputs *inputs, uint64_t first,
                          uint64_t end) {
    worker->inputs = inputs;
    worker->first = worker->shared->input = first;
    worker->end = end;
    worker->shared->counts = (struct kg_fuzz_counts){ 0 };
    worker->shared->begun_ns = kg_clock_monotonic_ns();
    worker->pid = fork();
    if (worker->pid == 0) run_batch(worker);
    if (worker->pid < 0) kg_fuzz_give_up("cannot fork");
}

enum kg_fuzz_end kg_fuzz_worker_poll(struct kg_fuzz_worker *worker) {
    int status;
    if (waitpid(worker->pid, &status, WNOHANG) == worker->pid) {
        worker->pid = 0;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? KG_FUZZ_DONE : KG_FUZZ_CRASHED;
    }
    const uint64_t input = worker->shared->input, begun = worker->shared->begun_ns;
    if (kg_clock_monotonic_ns() < begun + KG_FUZZ_SECONDS * SECOND_NS || input != worker->shared->input)
        return KG_FUZZ_RUNS;
    kill(worker->pid, SIGKILL);
    waitpid(worker->pid, &status, 0);
    worker->pid = 0;
    return KG_FUZZ_TOO_SLOW;
}

enum kg_fuzz_end kg_fuzz_try(const struct kg_fuzz_target *target, const uint8_t *data, size_t size, const char *log) {
    const struct timespec pause = { 0, 1000000 };
    const uint64_t end = kg_clock_monotonic_ns() + KG_FUZZ_SECONDS * SECOND_NS;
    int status, code = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        int64_t peak;
        begin_child(log);
        kg_fuzz_name_input("as given");
        (void)kg_fuzz_run(target, data, size, &peak);
        kg_fuzz_folder_remove();
        _exit(0);
    }
    while (pid > 0 && (code = waitpid(pid, &status, WNOHANG)) == 0 && kg_clock_monotonic_ns() < end)
        nanosleep(&pause, NULL);
    if (code == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? KG_FUZZ_DONE : KG_FUZZ_CRASHED;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return KG_FUZZ_TOO_SLOW;
}

void kg_fuzz_minimise(const struct kg_fuzz_target *target, struct kg_buffer *image, int seconds) {
    const uint64_t end = kg_clock_monotonic_ns() + (uint64_t)seconds * SECOND_NS;
    const enum kg_fuzz_end wanted = kg_fuzz_try(target, (const uint8_t *)image->data, image->len, "/dev/null");
    if (wanted != KG_FUZZ_CRASHED) return; /* inputs that take too long take long to shorten */
    for (size_t step = image->len / 2; step > 0; step /= 2) {
        for (size_t at = 0; at + step <= image->len && kg_clock_monotonic_ns() < end;) {
            struct kg_buffer less = KG_BUFFER_INIT;
            kg_buffer_append(&less, image->data, at);
            kg_buffer_append(&less, image->data + at + step, image->len - at - step);
            const bool same = kg_fuzz_try(target, (const uint8_t *)less.data, less.len, "/dev/null") == wanted;
            if (same) {
                kg_buffer_free(image);
                *image = less;
            } else {
                kg_buffer_free(&less);
                at += step;
            }
        }
    }
}
