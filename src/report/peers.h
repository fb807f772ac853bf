/* kigo beside others: the bench cases of an operation OP and of OP_peer (same back end, precision and shape), whose
 * name is the peer's. Of OP the case called "auto"; of whole models (OP "model") those that have a timing of the peer's
 * name, in every precision: a peer has one that it chooses. Rendered from records only.
 *
 * peers.csv, a line a timing of both: op, backend, dtype, shape, kind, state, kigo_ns, peer, peer_ns, speedup,
 * speedup_lo, speedup_hi; times are medians, a speed-up is the peer's time over kigo's (above 1: kigo is faster), its
 * interval from the far ends of both times'. */
#ifndef KIGO_REPORT_PEERS_H
#define KIGO_REPORT_PEERS_H

#include "report/bandwidth.h"

struct kg_peer_row {
    const struct kg_bandwidth_row *kigo, *peer; /* of the timings they were made from */
    double speedup, speedup_lo, speedup_hi;
};

struct kg_peers {
    struct kg_peer_row *rows;
    size_t n_rows;
};

/* What peers are found in: timings of operations, of a token, of a prompt, and of a fresh process to its first token.
 */
extern const char *const KG_PEER_TIMINGS[];

/* In the order of kigo's timings, then of the peers'. */
void kg_peers_collect(const struct kg_bandwidth *timings, struct kg_peers *peers);
/* Whether the row is of a whole model, not of an operation. */
bool kg_peer_is_of_model(const struct kg_peer_row *row);
void kg_peers_free(struct kg_peers *peers);

void kg_peers_csv(const struct kg_peers *peers, struct kg_buffer *out);

#endif
