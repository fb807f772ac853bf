/* Speeds of two models, the second on a machine that was slowed down, and of the first in a long context. For
 * suites/integration/test_bench_models; too deep for `kigo bench` to find. */
#include "base/size.h"
#include "suites/harness/case.h"

static void time_tokens(struct kg_record *rec, const void *arg) {
    static const uint64_t SAMPLES_NS[] = { 1000000, 1000000, 1000000, 1000000, 1000000 };
    kg_record_timing(rec, "token", "host", "warm", SAMPLES_NS, KG_COUNT_OF(SAMPLES_NS), 0, 0);
    if (arg) kg_record_timing_invalid(rec);
}

#define CASE(op_, shape_, arg_)                                                                                        \
    {                                                                                                                  \
        .layer = "bench", .op = op_, .name = "decode", .backend = "cpu", .dtype = "f32", .shape = shape_,              \
        .run = time_tokens, .arg = arg_                                                                                \
    }

static const struct kg_case CASES[] = {
    CASE("model", "model=0 cool.gguf prompt=16 tokens=32 ctx=48", NULL),
    CASE("model", "model=1 hot.gguf prompt=16 tokens=32 ctx=48", "throttled"),
    CASE("long_context", "model=0 cool.gguf prompt=32512 tokens=128 ctx=32768", NULL),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
