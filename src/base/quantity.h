/* Numbers as people read them, in the unit that a person would choose: the largest of which there is at least one. All
 * text of kigo writes times and sizes through here; JSON and CSV keep the recorded unit. */
#ifndef KIGO_BASE_QUANTITY_H
#define KIGO_BASE_QUANTITY_H

/* A short text by value; "" for what is not finite. */
struct kg_quantity {
    char text[48];
};

struct kg_quantity kg_quantity_time(double ns);       /* "1.234 ms"; ns, µs, ms, s */
struct kg_quantity kg_quantity_bytes(double n_bytes); /* "1.5 MiB"; B to TiB */
struct kg_quantity kg_quantity_percent(double share); /* "+1.25%" */
struct kg_quantity kg_quantity_number(double value);  /* four digits; all of a whole part up to 10^15 */
struct kg_quantity kg_quantity_count(double n);       /* "3.526 M", "20.91 B" (billions) */
struct kg_quantity kg_quantity_general(double value); /* four digits, as 1.2e-07 where it is small or large: errors */

/* A figure by the unit that its record states. Times (ns, us, ms, s) and sizes (bytes, B) are as above,
 * and FLOP has its prefix; a count and a
 * ratio are bare numbers, which they are; any other unit follows the number. */
struct kg_quantity kg_quantity_of_unit(double value, const char *unit);

/* The same of a value that stands beside another: where they differ and would look alike, it has its recorded unit and
 * all its digits. */
struct kg_quantity kg_quantity_beside(double value, double other, const char *unit);

#endif
