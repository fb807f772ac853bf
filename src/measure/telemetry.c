#include "measure/telemetry.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "measure/nvml.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct kg_telemetry {
    struct kg_nvml *nvml;
    int fd;
    char *path;
    uint64_t interval_ns;
    off_t whole; /* bytes of whole lines */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool began, stopping;
    enum kg_status status;
    struct kg_error error;
};

/* Held while a thread takes a sample, and around each fork: a child of a process whose other thread is inside an
 * allocator or NVML inherits their locks, and nobody there ever gives them back.
 */
static pthread_mutex_t sampling = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) {
    pthread_mutex_lock(&sampling);
}

static void after_fork(void) {
    pthread_mutex_unlock(&sampling);
}

static int forks_unguarded; /* the error code, once tried */

static void guard_forks(void) {
    forks_unguarded = pthread_atfork(before_fork, after_fork, after_fork);
}

static void write_text(struct kg_telemetry *t, const struct kg_buffer *text) {
    if (t->status != KG_OK) return;
    t->status = kg_fd_write(t->fd, kg_buffer_text(text), text->len, &t->error);
    if (t->status == KG_OK) t->whole += (off_t)text->len;
    else if (ftruncate(t->fd, t->whole) != 0) kg_error_prefix(&t->error, "%s, cut off inside a line", t->path);
}

static void put_figure(struct kg_buffer *line, int64_t value, const char *fmt) {
    kg_buffer_puts(line, ",");
    if (value >= 0) kg_buffer_printf(line, strcmp(fmt, "0x") == 0 ? "0x%" PRIx64 : "%" PRId64, value);
}

static void sample_all(struct kg_telemetry *t) {
    struct kg_buffer lines = KG_BUFFER_INIT;
    pthread_mutex_lock(&sampling);
    for (size_t i = 0; i < kg_nvml_n_devices(t->nvml); i++) {
        struct kg_nvml_sample s;
        if (kg_nvml_sample(t->nvml, i, &s, NULL) != KG_OK) continue;
        kg_buffer_printf(&lines, "%" PRId64 ",%zu", kg_clock_utc_us(), i);
        const int64_t before[] = { s.sm_mhz, s.memory_mhz, s.power_mw, s.power_limit_mw, s.temperature_c };
        for (size_t f = 0; f < sizeof before / sizeof *before; f++) put_figure(&lines, before[f], "");
        put_figure(&lines, s.throttle_reasons, "0x");
        put_figure(&lines, s.memory_used_bytes, "");
        put_figure(&lines, s.utilization_percent, "");
        kg_buffer_puts(&lines, "\n");
    }
    write_text(t, &lines);
    kg_buffer_free(&lines);
    pthread_mutex_unlock(&sampling);
}

/* The first sample is taken: what a new thread sets up is set up. */
static void begin(struct kg_telemetry *t) {
    pthread_mutex_lock(&t->lock);
    t->began = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static void *thread_main(void *arg) {
    struct kg_telemetry *t = arg;
    uint64_t next_ns = kg_clock_monotonic_ns();
    pthread_mutex_lock(&t->lock);
    while (!t->stopping) {
        pthread_mutex_unlock(&t->lock);
        sample_all(t);
        if (!t->began) begin(t);
        const uint64_t now_ns = kg_clock_monotonic_ns();
        next_ns += t->interval_ns;
        if (next_ns <= now_ns) next_ns = now_ns + t->interval_ns; /* a sample that was missed is not made up for */
        const struct timespec next = { (time_t)(next_ns / 1000000000u), (long)(next_ns % 1000000000u) };
        pthread_mutex_lock(&t->lock);
        while (!t->stopping && pthread_cond_timedwait(&t->wake, &t->lock, &next) == 0) {}
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static int start_thread(struct kg_telemetry *t) {
    pthread_condattr_t clock;
    sigset_t all, before;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, guard_forks);
    if (forks_unguarded) return forks_unguarded;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&t->thread, NULL, thread_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&t->lock);
    while (code == 0 && !t->began) pthread_cond_wait(&t->wake, &t->lock);
    pthread_mutex_unlock(&t->lock);
    return code;
}

static void release(struct kg_telemetry *t) {
    if (t->fd >= 0) close(t->fd);
    kg_nvml_close(t->nvml);
    free(t->path);
    free(t);
}

enum kg_status kg_telemetry_start(const char *path, uint32_t interval_ms, struct kg_telemetry **telemetry,
                                  struct kg_error *err) {
    struct kg_nvml *nvml;
    enum kg_status status = kg_nvml_open(&nvml, err);
    if (status != KG_OK) return status;
    struct kg_telemetry *t = kg_xcalloc(1, sizeof *t);
    t->nvml = nvml;
    t->fd = -1;
    t->path = kg_xstrdup(path);
    t->interval_ns = (uint64_t)interval_ms * 1000000u;
    if (kg_nvml_n_devices(nvml) == 0) {
        release(t);
        return kg_fail(err, KG_ERR_UNSUPPORTED, "NVML has no device");
    }
    t->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (t->fd < 0) {
        release(t);
        return kg_fail(err, KG_ERR_IO, "cannot create %s: %s", path, strerror(errno));
    }
    struct kg_buffer header = KG_BUFFER_INIT;
    kg_buffer_puts(&header, "utc_us,gpu,sm_mhz,memory_mhz,power_mw,power_limit_mw,temperature_c,throttle_reasons,"
                            "memory_used_bytes,utilization_percent\n");
    write_text(t, &header);
    kg_buffer_free(&header);
    const int code = start_thread(t);
    if (code != 0) {
        unlink(path);
        release(t);
        return kg_fail(err, KG_ERR_NO_MEMORY, "no thread for telemetry: %s", strerror(code));
    }
    *telemetry = t;
    return KG_OK;
}

enum kg_status kg_telemetry_stop(struct kg_telemetry *t, struct kg_error *err) {
    if (!t) return KG_OK;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    sample_all(t);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    enum kg_status status = t->status;
    if (status != KG_OK) status = kg_fail(err, status, "%s: %s", t->path, t->error.message);
    release(t);
    return status;
}
