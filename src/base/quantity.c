#include "base/quantity.h"
#include "base/size.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scale {
    double from;
    const char *unit;
};

static const struct scale TIMES[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "µs" }, { 1, "ns" } };
static const struct scale WORK[] = { { 1e12, "TFLOP" }, { 1e9, "GFLOP" }, { 1e6, "MFLOP" }, { 1, "FLOP" } };
static const struct scale SIZES[] = {
    { 1099511627776.0, "TiB" }, { 1 << 30, "GiB" }, { 1 << 20, "MiB" }, { 1 << 10, "KiB" }, { 1, "B" }
};

static const struct scale COUNTS[] = { { 1e9, "B" }, { 1e6, "M" }, { 1, "" } };

/* Four digits, and all of the whole part. */
static void put_number(double value, struct kg_quantity *out) {
    const bool is_long = fabs(value) >= 9999.5 && fabs(value) < 1e15;
    if (isfinite(value)) snprintf(out->text, sizeof out->text, is_long ? "%.0f" : "%.4g", value);
}

static void put_unit(const char *unit, struct kg_quantity *out) {
    const size_t len = strlen(out->text);
    if (len > 0 && *unit) snprintf(out->text + len, sizeof out->text - len, " %.24s", unit);
}

/* The largest unit of which there is at least one; scales fall. */
static struct kg_quantity scaled(double value, const struct scale *scales, size_t n_scales) {
    struct kg_quantity out = { "" };
    size_t i = 0;
    while (i + 1 < n_scales && fabs(value) < scales[i].from) i++;
    put_number(value / scales[i].from, &out);
    put_unit(scales[i].unit, &out);
    return out;
}

struct kg_quantity kg_quantity_time(double ns) {
    return scaled(ns, TIMES, KG_COUNT_OF(TIMES));
}

struct kg_quantity kg_quantity_bytes(double n_bytes) {
    return scaled(n_bytes, SIZES, KG_COUNT_OF(SIZES));
}

struct kg_quantity kg_quantity_count(double n) {
    return scaled(n, COUNTS, KG_COUNT_OF(COUNTS));
}

static struct kg_quantity put_flops(double n_flops) {
    return scaled(n_flops, WORK, KG_COUNT_OF(WORK));
}

struct kg_quantity kg_quantity_percent(double share) {
    struct kg_quantity out = { "" };
    if (isfinite(share)) snprintf(out.text, sizeof out.text, "%+.2f%%", 100 * share);
    return out;
}

struct kg_quantity kg_quantity_number(double value) {
    struct kg_quantity out = { "" };
    put_number(value, &out);
    return out;
}

struct kg_quantity kg_quantity_general(double value) {
    struct kg_quantity out = { "" };
    if (isfinite(value)) snprintf(out.text, sizeof out.text, "%.4g", value);
    return out;
}

static const struct {
    const char *unit;
    struct kg_quantity (*put)(double value);
    double factor; /* to what `put` takes */
} SCALED[] = {
    { "ns", kg_quantity_time, 1 },  { "us", kg_quantity_time, 1e3 },   { "ms", kg_quantity_time, 1e6 },
    { "s", kg_quantity_time, 1e9 }, { "bytes", kg_quantity_bytes, 1 }, { "B", kg_quantity_bytes, 1 },
    { "FLOP", put_flops, 1 },
};

struct kg_quantity kg_quantity_of_unit(double value, const char *unit) {
    static const char *const BARE[] = { "count", "ratio", "abs", "limit" };
    for (size_t i = 0; i < KG_COUNT_OF(SCALED); i++)
        if (strcmp(unit, SCALED[i].unit) == 0) return SCALED[i].put(value * SCALED[i].factor);
    /* Errors and their limits span decades. */
    struct kg_quantity out = fabs(value) < 1e-3 ? kg_quantity_general(value) : kg_quantity_number(value);
    for (size_t i = 0; i < KG_COUNT_OF(BARE); i++)
        if (strcmp(unit, BARE[i]) == 0) return out;
    put_unit(unit, &out);
    return out;
}

struct kg_quantity kg_quantity_beside(double value, double other, const char *unit) {
    struct kg_quantity out = kg_quantity_of_unit(value, unit);
    if (value == other || !isfinite(value) || strcmp(out.text, kg_quantity_of_unit(other, unit).text) != 0) return out;
    for (int digits = 1; digits <= 17; digits++) { /* the fewest that read back as the same number */
        snprintf(out.text, sizeof out.text, "%.*g", digits, value);
        if (strtod(out.text, NULL) == value) break;
    }
    if (fabs(value) >= 1 && fabs(value) < 1e15 && value == trunc(value))
        snprintf(out.text, sizeof out.text, "%.0f", value);
    put_unit(unit, &out);
    return out;
}
