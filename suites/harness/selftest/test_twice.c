/* A suite that registers a key twice; run by test_check_e2e. */
#include "base/size.h"
#include "suites/harness/case.h"

static void nothing(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
}

static const struct kg_case CASES[] = {
    { .layer = "unit", .op = "twice", .name = "same", .run = nothing },
    { .layer = "unit", .op = "twice", .name = "same", .run = nothing },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
