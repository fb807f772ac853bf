/* What `kigo inspect --plan` shows of a session: its plan's nodes, what they were lowered to, and which fusions were
 * not taken and why. */
#ifndef KIGO_CLI_INSPECT_PLAN_H
#define KIGO_CLI_INSPECT_PLAN_H

#include "base/buffer.h"
#include <stdbool.h>

struct kg_session;

/* Text: one of neighbouring layers that are alike, all of them if full. JSON: one object, always all. */
void kg_inspect_plan(struct kg_buffer *out, const struct kg_session *session, bool json, bool full);

#endif
