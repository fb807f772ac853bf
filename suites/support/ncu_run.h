/* One case of a suite program under Nsight Compute: the program `ncu`, or the one that KIGO_NCU names. */
#ifndef KIGO_SUITES_NCU_RUN_H
#define KIGO_SUITES_NCU_RUN_H

#include "suites/support/ncu_output.h"

/* Runs `program --case key`, with KIGO_BENCH_COUNTED set, under ncu and reads what ncu wrote; dir is a folder for its
 * file. KG_ERR_IO if it did not end well, with its message; KG_ERR_FORMAT as kg_ncu_parse. */
KG_WARN_UNUSED enum kg_status kg_ncu_run(const char *program, const char *key, const char *dir,
                                         struct kg_ncu_launches *launches, struct kg_error *err);

#endif
