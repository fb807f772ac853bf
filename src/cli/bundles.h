/* What the verbs over bundles share: the root folder, naming a run, tables, and printing. */
#ifndef KIGO_CLI_BUNDLES_H
#define KIGO_CLI_BUNDLES_H

#include "base/buffer.h"
#include "base/options.h"
#include "cli/run_name.h"
#include <kigo/bundle.h>
#include <kigo/history.h>
#include <jansson.h>

#define KG_BUNDLES_OPTION(variable)                                                                                    \
    {                                                                                                                  \
        .name = "bundles", .kind = KG_OPTION_TEXT, .value = (variable), .metavar = "DIR",                              \
        .help = "folder of bundles ($KIGO_BUNDLES or proof-bundles)"                                                   \
    }

/* The folder given, or $KIGO_BUNDLES, or "proof-bundles". */
const char *kg_cli_bundles_root(const char *given);

/* What lies in the root, as kg_dir_list; one that is not there is KG_ERR_NOT_FOUND, and says how to name another. */
KG_WARN_UNUSED enum kg_status kg_cli_bundles_list(const char *root, struct kg_dir_list *list, struct kg_error *err);

/* The folder of a run, named as run_name.h has it or by the folder's path. *dir is malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_cli_bundle_find(const char *root, const char *run, char **dir, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cli_bundle_find_by(const char *root, const char *run, enum kg_run_names names,
                                                    char **dir, struct kg_error *err);

/* Opens the index; says on standard error which bundles it cannot hold, and whether a run that died waits for recover.
 */
KG_WARN_UNUSED enum kg_status kg_cli_history_open(const char *verb, const char *root, struct kg_history **history,
                                                  struct kg_error *err);

/* The exit code of a verb that ended with `code`. A verb over bundles that read past an error of input or output
 * (base/io_errors.h) says which, and gives no verdict: KG_EXIT_INCOMPLETE, but KG_EXIT_INTEGRITY stays unless memory
 * ran out. It is KG_EXIT_INTEGRITY in the place of KG_EXIT_OK, too, where an index that was opened lacks what could not
 * be read. */
int kg_cli_answer_exit_code(const char *verb, int code);

/* Verifies the heads of all runs (history/trust.h), and says on standard error which do not; after what was asked for
 * is printed, kg_cli_heads_conclude is KG_ERR_INTEGRITY if there were any. */
KG_WARN_UNUSED enum kg_status kg_cli_heads_check(const char *verb, struct kg_history *history, size_t *n_unsound,
                                                 struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cli_heads_conclude(size_t n_unsound, struct kg_error *err);

/* Closes it; says on standard error whose rows had to be made again (history/trust.h). */
void kg_cli_history_close(const char *verb, struct kg_history *history);

/* Writes the buffer to standard output and frees it; KG_ERR_IO if that fails. */
KG_WARN_UNUSED enum kg_status kg_cli_print(struct kg_buffer *out, struct kg_error *err);
/* The same with JSON and a newline; takes over the reference. */
KG_WARN_UNUSED enum kg_status kg_cli_print_json(json_t *json, struct kg_error *err);

/* {"what","path","detail"} each. */
json_t *kg_cli_findings_json(const struct kg_bundle_findings *findings);

/* A table of text: columns as wide as their widest cell, numbers to the right. Cells are escaped (KG_MEDIUM_TEXT). */
struct kg_table {
    size_t n_columns;
    char **cells; /* row after row, the heads first */
    size_t n_cells;
    bool coloured;           /* verdicts have their colours (base/tty.h): kg_cli_print prints the buffer */
    size_t most_width;       /* of a line: columns are left out, then lines cut; 0: any */
    const char *const *drop; /* heads of the columns that may be left out, first those before others; ended by NULL */
};
void kg_table_add(struct kg_table *table, const char *text);
void kg_table_addf(struct kg_table *table, const char *fmt, ...) KG_PRINTF(2, 3);
void kg_table_print(const struct kg_table *table, struct kg_buffer *out);
void kg_table_free(struct kg_table *table);

#endif
