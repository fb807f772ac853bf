/* The FP16 report: what f16 gives and costs on whole models, rendered from the records of bench/model cases only.
 *
 * A line a figure: model, back end, precision, context, what, value, unit, interval (of the median, from its samples; "exact"
 * where nothing varies), the value in f32 and their ratio, and the record's key. The f32 beside a figure is that of the same
 * work on the model with the same number of parameters whose weights take the most bytes: with an F32 and an F16 file of one
 * model given, f16 on the one is held against f32 on the other. Ratios of times and rates are speed-ups, above 1 if f16 is
 * faster; ratios of memory are f16 / f32, below 1 if it is less. */
#ifndef KIGO_MEASURE_FP16_REPORT_H
#define KIGO_MEASURE_FP16_REPORT_H

#include "base/buffer.h"
#include "bundle/records.h"

void kg_fp16_report(const struct kg_records *records, const char *run, struct kg_buffer *markdown,
                    struct kg_buffer *csv);

#endif
