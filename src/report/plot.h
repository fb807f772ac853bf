/* Pictures by gnuplot, as SVG that stands in an HTML page. */
#ifndef KIGO_REPORT_PLOT_H
#define KIGO_REPORT_PLOT_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

/* Runs gnuplot over the script, which sets titles, axes and data, and appends the picture as one <svg> element: in the
 * colours of the page (currentColor for what gnuplot draws black), its ids unlike those of other pictures of the page
 * (number), `says` its text alternative. False, with *why, if there is no gnuplot or it makes no picture. */
enum { KG_PLOT_WHY_SIZE = 256 };
bool kg_plot_svg(const char *script, size_t number, const char *says, struct kg_buffer *svg,
                 char why[KG_PLOT_WHY_SIZE]);

/* Text of a record for a script, between single quotes: what could end a string or a block of data becomes '?', and it
 * is cut at 40 characters. */
void kg_plot_quote(struct kg_buffer *script, const char *text);

/* Colours that differ to every eye (Okabe and Ito 2008) and stand out on light and dark ground. */
enum { KG_PLOT_COLOURS = 6 };
extern const char *const KG_PLOT_COLOUR[KG_PLOT_COLOURS];

#endif
