/* The bandwidth profile of a run: what its bench cases recorded, as a table. Rendered from records only.
 *
 * bandwidth.csv, a line a timing: key, op, name, backend, dtype, shape, kind, state, n, median_ns, mad_ns, ci_lo_ns,
 * ci_hi_ns, bytes, flops, gb_s, gb_s_lo, gb_s_hi, tflop_s, roofline_share, speedup_over_f32, speedup_lo, speedup_hi.
 * A figure that has no meaning for a row is empty. gb_s_lo comes from the upper end of the time's interval, and a
 * speed-up's interval from the far ends of both times'. */
#ifndef KIGO_REPORT_BANDWIDTH_H
#define KIGO_REPORT_BANDWIDTH_H

#include "base/buffer.h"
#include "bundle/records.h"
#include "measure/roofline.h"
#include "report/page.h"
#include <jansson.h>

struct kg_bandwidth_row {
    /* Of the records, which must outlive the rows; "" where the case has none. */
    const char *key, *op, *name, *backend, *dtype, *shape, *timing, *kind, *state;
    int64_t n;
    double median_ns, mad_ns, ci_lo_ns, ci_hi_ns;
    double bytes, flops;
    struct kg_roofline roofline; /* of the case's process */
    double gb_s, gb_s_lo, gb_s_hi, tflop_s, share;
    double speedup, speedup_lo, speedup_hi; /* over the f32 row of the same work and kind; 0 if there is none */
};

struct kg_bandwidth {
    struct kg_bandwidth_row *rows;
    size_t n_rows;
};

/* The timings called "time", of operations, and "token", of a whole model's decoding, of the cases of layer bench that
 * passed, in the plan's order; not those during which the GPU was slowed down. */
void kg_bandwidth_collect(const struct kg_records *records, struct kg_bandwidth *bandwidth);
/* The same of the timings of these names, NULL at the end of the list. */
void kg_bandwidth_collect_timings(const struct kg_records *records, const char *const *timings,
                                  struct kg_bandwidth *bandwidth);
void kg_bandwidth_free(struct kg_bandwidth *bandwidth);

void kg_bandwidth_csv(const struct kg_bandwidth *bandwidth, struct kg_buffer *out);

/* {"cases": [a row each], "speedups": [{"group", "kind", "state", "n", "least", "geometric_mean", "most"}]}: groups are
 * <op>/<first word of the name> and linear/ffn. */
json_t *kg_bandwidth_json(const struct kg_bandwidth *bandwidth);

/* Whether rows are of one back end and precision, which have one colour. */
bool kg_bandwidth_same_series(const struct kg_bandwidth_row *a, const struct kg_bandwidth_row *b);

/* Whether a row is a point of the plot: cold, so that what it reads came from memory; by one kind of timing. */
bool kg_bandwidth_plotted(const struct kg_bandwidth_row *row);

/* bandwidth_plot.c. A gnuplot script with its data: GB/s over bytes, both logarithmic, beside the rates of the
 * canaries; and, where there are both precisions, how many times faster f16 is. Colours are back end and precision,
 * shapes operations. False, nothing written, if no timing is cold and has bytes. terminal: "svg" or "png". output: the
 * file it makes. */
bool kg_bandwidth_plot(const struct kg_bandwidth *bandwidth, const char *terminal, const char *output,
                       struct kg_buffer *script);

/* bandwidth_pictures.c. The same as two pictures of a report's page, drawn from the sealed records wherever gnuplot is.
 * A picture without a point is left out. */
void kg_bandwidth_pictures(const struct kg_bandwidth *bandwidth, struct kg_page *page);

#endif
