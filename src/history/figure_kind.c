#include "history/figure_kind.h"
#include "base/size.h"
#include <fnmatch.h>
#include <string.h>

/* The first row that fits decides. Events resolve half a microsecond, the monotonic clock and its call about 0.1. A
 * graph of many launches is divided by their number, so that its clock does not matter. */
static const struct {
    const char *name, *unit; /* patterns */
    struct kg_figure_kind kind;
} KINDS[] = {
    { "ncu.spilled_bytes", "*", { KG_FIGURE_EXACT, +1, 0, "memory" } },
    { "ncu.*", "*", { KG_FIGURE_REPORTED, 0, 0, "count" } }, /* read on a kernel that runs alone, its caches flushed */
    { "roofline.*", "*", { KG_FIGURE_CANARY, -1, 0, "speed" } },
    { "*.gb_per_s", "GB/s", { KG_FIGURE_DERIVED, -1, 0, "speed" } },
    { "*.tflop_per_s", "TFLOP/s", { KG_FIGURE_DERIVED, -1, 0, "speed" } },
    { "*.roofline_share", "ratio", { KG_FIGURE_DERIVED, -1, 0, "speed" } },
    { "*.kernel.*", "ns", { KG_FIGURE_NOISY, +1, 500, "time" } },
    { "*.host.*", "ns", { KG_FIGURE_NOISY, +1, 100, "time" } },
    { "*", "ns", { KG_FIGURE_NOISY, +1, 0, "time" } },
    { "*", "tokens/s", { KG_FIGURE_NOISY, -1, 0, "speed" } },
    { "*", "GB/s", { KG_FIGURE_NOISY, -1, 0, "speed" } },
    { "*", "TFLOP/s", { KG_FIGURE_NOISY, -1, 0, "speed" } },
    { "*.margin", "ratio", { KG_FIGURE_EXACT, +1, 0, "error" } },
    { "*", "limit", { KG_FIGURE_LIMIT, +1, 0, "tolerance" } },
    { "*", "abs", { KG_FIGURE_EXACT, +1, 0, "error" } },
    { "*", "bytes", { KG_FIGURE_EXACT, +1, 0, "memory" } },
    { "token_mismatch*", "ratio", { KG_FIGURE_EXACT, +1, 0, "error" } },
    { "*valid*haiku*", "count", { KG_FIGURE_EXACT, -1, 0, "count" } },
    { "haiku_valid", "count", { KG_FIGURE_EXACT, -1, 0, "count" } },
    { "*", "*", { KG_FIGURE_REPORTED, 0, 0, "count" } },
};

struct kg_figure_kind kg_figure_kind_of(const char *name, const char *unit) {
    size_t i = 0;
    while (i + 1 < KG_COUNT_OF(KINDS) && (fnmatch(KINDS[i].name, name, 0) != 0 || fnmatch(KINDS[i].unit, unit, 0) != 0))
        i++;
    return KINDS[i].kind;
}
