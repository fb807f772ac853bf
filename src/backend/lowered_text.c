#include "backend/plan.h"
#include "base/buffer.h"
#include <inttypes.h>
#include <string.h>

void kg_lowered_put_refusals(const struct kg_lowered *lowered, struct kg_buffer *out) {
    for (uint32_t i = 0; i < lowered->n_refusals; i++) {
        const struct kg_lowered_refusal *r = &lowered->refusals[i];
        uint32_t n = 0;
        bool seen = false;
        for (uint32_t j = 0; j < lowered->n_refusals; j++) {
            const struct kg_lowered_refusal *other = &lowered->refusals[j];
            if (strcmp(other->fusion, r->fusion) != 0 || strcmp(other->why, r->why) != 0) continue;
            seen = seen || j < i;
            n++;
        }
        if (seen) continue;
        kg_buffer_printf(out, "not taken: %s (node %" PRIu32, r->fusion, r->first);
        if (n > 1) kg_buffer_printf(out, " and %" PRIu32 " more", n - 1);
        kg_buffer_printf(out, "): %s\n", r->why);
    }
}
