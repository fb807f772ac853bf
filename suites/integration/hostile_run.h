/* A run whose every text is hostile to a page of HTML. */
#ifndef KIGO_SUITES_HOSTILE_RUN_H
#define KIGO_SUITES_HOSTILE_RUN_H

#include <stddef.h>

/* Names as an attacker would choose them: elements, attributes, ends of what stands around them, scripts; control
 * characters; a right-to-left override that shows "exe.png.". */
enum { KG_HOSTILE_NAMES = 14 };
extern const char *const KG_HOSTILE_NAME_OF[KG_HOSTILE_NAMES];

/* A sealed run: case i has text i as its key and in all its members, the last one n_letters letters without a place to
 * break; it fails if i is odd. */
void kg_hostile_run_seal(const char *root, size_t n_letters);

#endif
