/* Which cases `kigo check` was asked for, beyond what its options say as they stand. */
#ifndef KIGO_CLI_CHECK_CHOICE_H
#define KIGO_CLI_CHECK_CHOICE_H

#include "base/options.h"
#include <stdint.h>

/* Texts that are owned, unlike those of an option. */
struct kg_chosen {
    char **items; /* malloc'ed, as each of them is */
    size_t n_items;
};
void kg_chosen_free(struct kg_chosen *chosen);

/* The layers of --layer, each given alone or in a list with commas. KG_ERR_USAGE naming what is none, and `bench`,
 * which another verb runs. */
KG_WARN_UNUSED enum kg_status kg_check_layers(const struct kg_option_list *given, struct kg_chosen *layers,
                                              struct kg_error *err);

/* Keys of the cases that did not pass in the newest run of `kigo check` in the folder of bundles that counts as the
 * latest: fail, crash and timeout, not what was skipped or did not run. *run_id (malloc'ed) and *seed are the run's.
 * *run_id is NULL, and there are no keys, if there is no such run. */
KG_WARN_UNUSED enum kg_status kg_check_failed(const char *root, struct kg_chosen *keys, char **run_id, uint64_t *seed,
                                              struct kg_error *err);

#endif
