/* A run as Markdown, for a README, an issue or a chat: every figure from its records. */
#ifndef KIGO_CLI_SHOW_MARKDOWN_H
#define KIGO_CLI_SHOW_MARKDOWN_H

#include "bundle/export.h"
#include "report/verdict.h"

/* What the first screen says (verdict), facts, counts by layer and status, the cases given with their reasons, what
 * FP16 is to reach where models were measured in it, and what cases of layer bench measured: each timing as median with
 * its bootstrap 95% interval, each metric as it is. */
void kg_show_markdown(const struct kg_export *run, const struct kg_verdict *verdict,
                      const struct kg_case_records *const *shown, size_t n_shown, struct kg_buffer *out);

#endif
