/* The FP16 report: what f16 gives and costs on whole models, rendered from the records of bench/model cases only.
 *
 * A line a figure: model, back end, precision, context, what, value, unit, interval (of the median, from its samples;
 * "exact" where nothing varies), the value in f32 and their ratio (fp16_figures.h), and the record's key. Ratios of
 * times and rates are speed-ups, above 1 if f16 is faster; ratios of memory are f16 / f32, below 1 if it is less. */
#ifndef KIGO_REPORT_FP16_REPORT_H
#define KIGO_REPORT_FP16_REPORT_H

#include "base/buffer.h"
#include "bundle/records.h"

struct kg_fp16_texts {
    struct kg_buffer
        markdown;         /* fp16.md: figures to reach (fp16_goals.h), all figures, what was not measured and why */
    struct kg_buffer csv; /* fp16.csv: all figures */
    struct kg_buffer goals_csv; /* fp16_goals.csv */
};

/* Appends to texts, which are empty buffers at first; the caller frees them. */
void kg_fp16_report(const struct kg_records *records, const char *run, struct kg_fp16_texts *texts);
void kg_fp16_texts_free(struct kg_fp16_texts *texts);

#endif
