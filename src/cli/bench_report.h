/* What `kigo bench` adds to its bundle, made from the records before it is sealed. */
#ifndef KIGO_CLI_BENCH_REPORT_H
#define KIGO_CLI_BENCH_REPORT_H

#include "base/buffer.h"
#include <kigo/bundle.h>

/* bandwidth.csv, bandwidth.json and, where gnuplot is installed, bandwidth.svg and bandwidth.png; bandwidth.json says
 * as "plot" which there are or why there is none. Nothing if no bench of an operation passed. */
KG_WARN_UNUSED enum kg_status kg_bench_report_bandwidth(struct kg_bundle *bundle, struct kg_error *err);

/* peers.csv (report/peers.h), and to `table` the same for people: kigo's time, the peer's and how many times as fast.
 */
KG_WARN_UNUSED enum kg_status kg_bench_report_peers(struct kg_bundle *bundle, struct kg_buffer *table,
                                                    struct kg_error *err);

/* Appends the table of whole models (bench_models.h) to `table`. */
KG_WARN_UNUSED enum kg_status kg_bench_report_models(struct kg_bundle *bundle, struct kg_buffer *table,
                                                     struct kg_error *err);

#endif
