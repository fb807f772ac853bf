#include "measure/roofline.h"
#include <math.h>

/* a / b where both are positive and finite, else 0. */
static double ratio(double a, double b) {
    return a > 0 && b > 0 && isfinite(a) && isfinite(b) ? a / b : 0;
}

double kg_gb_per_s(double bytes, double ns) {
    return ratio(bytes, ns); /* 1 byte/ns = 1e9 bytes/s */
}

double kg_tflop_per_s(double flops, double ns) {
    return ratio(flops, ns) / 1e3;
}

double kg_roofline_ns(const struct kg_roofline *roofline, double bytes, double flops) {
    const double moving_ns = ratio(bytes, fmax(roofline->copy_gb_s, roofline->read_gb_s));
    const double computing_ns = ratio(flops, roofline->tflop_s * 1e3);
    return fmax(moving_ns, computing_ns);
}

double kg_roofline_share(const struct kg_roofline *roofline, double bytes, double flops, double ns) {
    return ratio(kg_roofline_ns(roofline, bytes, flops), ns);
}

double kg_speedup(double base_ns, double ns) {
    return ratio(base_ns, ns);
}
