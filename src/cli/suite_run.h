/* What the verbs that run suites share (check, bench). */
#ifndef KIGO_CLI_SUITE_RUN_H
#define KIGO_CLI_SUITE_RUN_H

#include "base/options.h"
#include <jansson.h>

/* The program's own path. malloc'ed. */
char *kg_cli_own_path(void);

/* suites/ beside the program. malloc'ed. */
char *kg_cli_suites_beside(const char *program);

/* Where suite programs are: the folder given, or $KIGO_SUITES, or suites/ beside the program. malloc'ed. */
char *kg_cli_suites_dir(const char *given, const char *program);

/* Absolute paths of the models, separated by newlines (malloc'ed), NULL if there are none. KG_ERR_NOT_FOUND naming the
 * file that is not there. */
KG_WARN_UNUSED enum kg_status kg_cli_model_paths(const struct kg_option_list *models, char **paths,
                                                 struct kg_error *err);

json_t *kg_cli_texts_json(const struct kg_option_list *list);

#endif
