/* Which bytes of back-end memory some work writes: memory that a kernel leaves alone is memory that it does without. */
#ifndef KIGO_SUITES_TOUCHED_H
#define KIGO_SUITES_TOUCHED_H

#include "backend/backend.h"

enum { KG_TOUCHED_LINE_BYTES = 256 };

/* Every byte of the block becomes 0xff, of which F32, F16 and E4M3 make NaN. Fails the case if it cannot. */
void kg_touched_reset(struct kg_backend *backend, const struct kg_block *block);

/* Bytes of the block's lines of KG_TOUCHED_LINE_BYTES that have another byte since; the last line may be shorter. A
 * line over which 0xff was written is not counted. Waits for the back end. */
uint64_t kg_touched_bytes(struct kg_backend *backend, const struct kg_block *block);

#endif
