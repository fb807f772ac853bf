/* A bench whose timings are drawn: 1% of noise from run to run, and a case that takes as long as the environment says.
 * With KIGO_PACE_DRIFT the machine is that much faster or slower in each run, which a canary shows. KIGO_PACE_RUNS is
 * a file of a byte a run: the n-th run draws the same in every test. For suites/integration/test_confirm; too deep for
 * `kigo bench` to find. */
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Which run this is, from 1; 0: the environment names no file that can be written. */
static uint64_t count_run(void) {
    const char *path = getenv("KIGO_PACE_RUNS");
    struct stat info = { .st_size = 0 };
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    const bool counted = fd >= 0 && write(fd, "+", 1) == 1 && fstat(fd, &info) == 0;
    if (fd >= 0) close(fd);
    return counted ? (uint64_t)info.st_size : 0;
}

static void draw(struct kg_record *rec, const void *arg) {
    enum { N_SAMPLES = 20 };
    const char *slow = getenv("KIGO_PACE_SLOW");
    const double usual_ns = *(const double *)arg;
    const double factor = usual_ns == 1000 && slow ? strtod(slow, NULL) : 1;
    const char *drift = getenv("KIGO_PACE_DRIFT");
    static uint64_t run = 0; /* these two are the same for all cases of a run */
    static double machine = 0;
    uint64_t samples_ns[N_SAMPLES];
    struct kg_rng rng;
    if (run == 0) run = count_run();
    if (run == 0) {
        kg_record_skip(rec, "KIGO_PACE_RUNS names no file to count runs in");
        return;
    }
    kg_rng_init(&rng, run, (uint64_t)usual_ns);
    if (drift && machine <= 0) machine = exp(strtod(drift, NULL) * kg_rng_normal(&rng));
    if (drift) kg_record_metric(rec, "roofline.copy", "GB/s", 1000 / machine);
    const double run_ns = 1e3 * usual_ns * factor * (drift ? machine : 1) * exp(0.01 * kg_rng_normal(&rng));
    for (size_t i = 0; i < N_SAMPLES; i++) samples_ns[i] = (uint64_t)(run_ns * (1 + 0.001 * kg_rng_normal(&rng)));
    kg_record_timing(rec, "time", "graph", "warm", samples_ns, N_SAMPLES, 0, 0);
}

static const double TIMES[] = { 1000, 2000, 3000, 4000, 5000, 6000 };

#define CASE(name_, i)                                                                                                 \
    { .layer = "bench", .op = "pace", .name = name_, .backend = "cpu", .dtype = "f32", .run = draw, .arg = &TIMES[i] }

static const struct kg_case CASES[] = {
    CASE("victim", 0), CASE("b", 1), CASE("c", 2), CASE("d", 3), CASE("e", 4), CASE("f", 5),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
