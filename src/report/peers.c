#include "report/peers.h"
#include "base/escape.h"
#include "bundle/export.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const KG_PEER_TIMINGS[] = { "time", "token", "prefill", "wall", NULL };

static bool is_model(const struct kg_bandwidth_row *row) {
    return strcmp(row->op, "model") == 0;
}

static bool is_peer_of(const struct kg_bandwidth_row *peer, const struct kg_bandwidth_row *kigo) {
    const size_t len = strlen(kigo->op);
    return strncmp(peer->op, kigo->op, len) == 0 && strcmp(peer->op + len, "_peer") == 0 &&
           strcmp(peer->backend, kigo->backend) == 0 && strcmp(peer->timing, kigo->timing) == 0 &&
           strcmp(peer->shape, kigo->shape) == 0 && strcmp(peer->kind, kigo->kind) == 0 &&
           (is_model(kigo) || (strcmp(peer->dtype, kigo->dtype) == 0 && strcmp(peer->state, kigo->state) == 0));
}

void kg_peers_collect(const struct kg_bandwidth *timings, struct kg_peers *peers) {
    *peers = (struct kg_peers){ 0 };
    for (size_t i = 0; i < timings->n_rows; i++) {
        const struct kg_bandwidth_row *kigo = &timings->rows[i];
        if (!is_model(kigo) && strcmp(kigo->name, "auto") != 0) continue;
        for (size_t k = 0; k < timings->n_rows; k++) {
            const struct kg_bandwidth_row *peer = &timings->rows[k];
            if (!is_peer_of(peer, kigo)) continue;
            peers->rows = kg_xrealloc(peers->rows, (peers->n_rows + 1) * sizeof *peers->rows);
            peers->rows[peers->n_rows++] =
                (struct kg_peer_row){ kigo, peer, kg_speedup(peer->median_ns, kigo->median_ns),
                                      kg_speedup(peer->ci_lo_ns, kigo->ci_hi_ns),
                                      kg_speedup(peer->ci_hi_ns, kigo->ci_lo_ns) };
        }
    }
}

bool kg_peer_is_of_model(const struct kg_peer_row *row) {
    return is_model(row->kigo);
}

void kg_peers_free(struct kg_peers *peers) {
    free(peers->rows);
    *peers = (struct kg_peers){ 0 };
}

void kg_peers_csv(const struct kg_peers *peers, struct kg_buffer *out) {
    kg_buffer_puts(out, "op,backend,dtype,shape,kind,state,kigo_ns,peer,peer_ns,speedup,speedup_lo,speedup_hi\r\n");
    for (size_t i = 0; i < peers->n_rows; i++) {
        const struct kg_peer_row *row = &peers->rows[i];
        const char *const texts[] = { row->kigo->op,    row->kigo->backend, row->kigo->dtype,
                                      row->kigo->shape, row->kigo->kind,    row->kigo->state };
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) kg_csv_put(out, texts[t], strlen(texts[t]), ",");
        kg_buffer_printf(out, "%.6g,", row->kigo->median_ns);
        kg_csv_put(out, row->peer->name, strlen(row->peer->name), ",");
        kg_buffer_printf(out, "%.6g,%.6g,%.6g,%.6g\r\n", row->peer->median_ns, row->speedup, row->speedup_lo,
                         row->speedup_hi);
    }
}
