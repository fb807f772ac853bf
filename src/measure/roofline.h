/* The arithmetic of timings: rates, the share of what the machine could do, and speed-ups. Times in ns, 1 GB/s is 1e9
 * bytes a second, 1 TFLOP/s 1e12 operations (a multiply-add counts as two). Every function gives 0 where the figure has
 * no meaning (a time or a rate of 0 or less, not finite), never an infinity. */
#ifndef KIGO_MEASURE_ROOFLINE_H
#define KIGO_MEASURE_ROOFLINE_H

/* What the canaries of the same run reached. */
struct kg_roofline {
    double copy_gb_s; /* bytes read and bytes written */
    double read_gb_s;
    double tflop_s; /* of a large GEMM in the precision in question */
};

double kg_gb_per_s(double bytes, double ns);
double kg_tflop_per_s(double flops, double ns);

/* The least time in which the machine could do it: the longer of moving the bytes at the faster of the two memory rates
 * and doing the operations. */
double kg_roofline_ns(const struct kg_roofline *roofline, double bytes, double flops);

/* roofline_ns / ns: 1 is as fast as the machine, 0.5 takes twice as long. Above 1: faster than the canaries. */
double kg_roofline_share(const struct kg_roofline *roofline, double bytes, double flops, double ns);

/* How many times faster `ns` is than `base_ns`: base_ns / ns, above 1 if faster. */
double kg_speedup(double base_ns, double ns);

#endif
