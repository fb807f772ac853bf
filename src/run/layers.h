/* The layers of cases, and the folders of suites/ whose programs hold them.
 *
 * A program in a folder named in the table lists cases of the folder's layers only; listing another one is an error of
 * the program. So a run that asks for one layer need not start the programs of the others. Programs of any other folder
 * (and those in none) may list every layer. */
#ifndef KIGO_RUN_LAYERS_H
#define KIGO_RUN_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

/* True for a layer kigo knows. */
bool kg_layer_known(const char *layer);
/* Of the runner's own cases about a program as a whole (plan.h); no program lists it. */
#define KG_HARNESS_LAYER "harness"
extern const char KG_LAYER_NAMES[]; /* "unit, integration, ..." for messages */

/* program: its name, "unit/test_gguf". */
bool kg_layer_fits(const char *layer, const char *program);

extern const char *const KG_LAYERS[];
extern const size_t KG_N_LAYERS;

#endif
