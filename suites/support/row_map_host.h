/* kernels/decode/row_map.cuh on the host (host_warp.cuh). */
#ifndef KIGO_SUITES_ROW_MAP_HOST_H
#define KIGO_SUITES_ROW_MAP_HOST_H

#include <stdint.h>

enum kg_rows_form { KG_ROWS_NEIGHBOURS, KG_ROWS_OF_TWO, KG_ROWS_OF_HEADS };

/* The matrices of a product, by addresses that nobody reads. */
struct kg_rows_problem {
    enum kg_rows_form form;
    uint32_t n_pairs;
    uint32_t n_heads, n_kv_heads, head_dim, n_apart; /* of heads */
    uint64_t weights[3];
    uint32_t row_bytes[3];
};

/* Of row `which` of a pair. */
struct kg_row_place {
    uint64_t at;
    uint32_t source; /* the matrix, of those of heads */
};
struct kg_row_place kg_row_map_place(const struct kg_rows_problem *problem, uint32_t pair, uint32_t which);

/* Why this build does not have it, NULL if it has. */
extern const char *const kg_row_map_missing;

#endif
