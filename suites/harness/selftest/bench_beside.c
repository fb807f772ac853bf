/* A bench with known timings of an operation and of its peers, for suites/integration/test_bench; too deep for `kigo
 * bench` to find. */
#include "base/size.h"
#include "suites/harness/case.h"

struct known {
    uint64_t warm_ns, cold_ns; /* cold: 0 is not measured */
};

static void record(struct kg_record *rec, const void *arg) {
    enum { N_SAMPLES = 20 };
    const struct known *known = arg;
    uint64_t samples_ns[N_SAMPLES];
    for (size_t i = 0; i < N_SAMPLES; i++) samples_ns[i] = known->warm_ns;
    kg_record_timing(rec, "time", "graph", "warm", samples_ns, N_SAMPLES, 8, 8);
    for (size_t i = 0; i < N_SAMPLES; i++) samples_ns[i] = known->cold_ns;
    if (known->cold_ns > 0) kg_record_timing(rec, "time", "graph", "cold", samples_ns, N_SAMPLES, 8, 8);
}

#define CASE(op_, name_, shape_, ...)                                                                                  \
    {                                                                                                                  \
        .layer = "bench", .op = op_, .name = name_, .backend = "cpu", .dtype = "f32", .shape = shape_, .run = record,  \
        .arg = &(const struct known) {                                                                                 \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const struct kg_case CASES[] = {
    CASE("pull", "auto", "A", 4000, 5000),        CASE("pull", "plain", "A", 80000, 80000),
    CASE("pull", "auto", "B", 7000, 0),           CASE("pull", "auto", "C", 9000, 0),
    CASE("pull_peer", "other", "A", 10000, 6000), CASE("pull_peer", "third", "A", 2000, 0),
    CASE("pull_peer", "third", "B", 21000, 0),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
