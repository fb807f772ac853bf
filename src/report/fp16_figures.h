/* The figures of the FP16 report, read off the records of bench/model cases, and what f16 is held against.
 *
 * The f32 beside a figure is that of the same work on the model with the same number of parameters whose weights take
 * the most bytes: with an F32 and an F16 file of one model given, f16 on the one is held against f32 on the other. */
#ifndef KIGO_REPORT_FP16_FIGURES_H
#define KIGO_REPORT_FP16_FIGURES_H

#include "bundle/records.h"

/* How a figure is read off a record, and how it is held against f32. */
enum kg_fp16_source {
    KG_FP16_TIMING,       /* the median */
    KG_FP16_TIMING_RATE,  /* 1 / median */
    KG_FP16_TIMING_GB_S,  /* bytes / median */
    KG_FP16_TIMING_SHARE, /* of the roofline measured in the same process */
    KG_FP16_METRIC,
};
enum kg_fp16_against { KG_FP16_SPEEDUP_OF_TIME, KG_FP16_SPEEDUP_OF_RATE, KG_FP16_SHARE, KG_FP16_ALONE };

struct kg_fp16_figure {
    const char *case_name; /* of op model */
    const char *field;     /* of the timing or metric */
    enum kg_fp16_source source;
    enum kg_fp16_against against;
    const char *what, *unit;
    double scale; /* from the record's unit */
};
extern const struct kg_fp16_figure KG_FP16_FIGURES[];
extern const size_t KG_FP16_N_FIGURES;

/* By what it says; NULL if there is none. */
const struct kg_fp16_figure *kg_fp16_figure_find(const char *what);

struct kg_fp16_value {
    bool known; /* false also where the GPU was slowed down in every try */
    bool exact; /* no interval: nothing varies */
    double value, lo, hi;
};

/* Whether the record has the figure: of that case, passed. */
bool kg_fp16_has(const struct kg_fp16_figure *f, const struct kg_case_records *c);
struct kg_fp16_value kg_fp16_read(const struct kg_fp16_figure *f, const struct kg_case_records *c);
/* The f32 case that an f16 one is held against; NULL if there is none, or the figure stands alone. */
const struct kg_case_records *kg_fp16_base(const struct kg_records *records, const struct kg_fp16_figure *f,
                                           const struct kg_case_records *c);
/* Of times and rates the speed-up, above 1 if `value` is faster; of anything else value / base. The interval takes the
 * far ends of both. */
struct kg_fp16_value kg_fp16_ratio(const struct kg_fp16_figure *f, const struct kg_fp16_value *value,
                                   const struct kg_fp16_value *base);

/* A metric of the case's record, 0 if it has none; a text of its plan line, "" if it has none. */
double kg_fp16_metric(const struct kg_case_records *c, const char *name);
const char *kg_fp16_plan_text(const struct kg_case_records *c, const char *name);

#endif
