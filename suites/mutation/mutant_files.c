#include "suites/mutation/mutant_files.h"
#include "base/buffer.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NIBBLE_BYTES = 16 }; /* of a block of 32 */

void kg_mutant_drop(struct kg_edited_tensor *t, const void *user) {
    (void)user;
    t->dropped = true;
}

void kg_mutant_zero(struct kg_edited_tensor *t, const void *user) {
    (void)user;
    memset(t->data, 0, t->size_bytes); /* zero in F32, F16, BF16 */
}

void kg_mutant_scale(struct kg_edited_tensor *t, const void *user) {
    const double factor = *(const double *)user;
    float *values = kg_edited_values(t);
    for (uint64_t i = 0; i < kg_edited_n_elems(t); i++) values[i] = (float)(values[i] * factor);
    kg_edited_set_values(t, t->dtype, values);
    free(values);
}

void kg_mutant_minus_one(struct kg_edited_tensor *t, const void *user) {
    (void)user;
    float *values = kg_edited_values(t);
    for (uint64_t i = 0; i < kg_edited_n_elems(t); i++) values[i] -= 1;
    kg_edited_set_values(t, t->dtype, values);
    free(values);
}

void kg_mutant_transpose(struct kg_edited_tensor *t, const void *user) {
    (void)user;
    const uint64_t n = t->dims[0];
    ck_assert(t->n_dims == 2 && t->dims[1] == n);
    float *values = kg_edited_values(t), *transposed = kg_xcalloc(n * n, sizeof *transposed);
    for (uint64_t r = 0; r < n; r++)
        for (uint64_t c = 0; c < n; c++) transposed[c * n + r] = values[r * n + c];
    kg_edited_set_values(t, t->dtype, transposed);
    free(transposed);
    free(values);
}

void kg_mutant_next_row(struct kg_edited_tensor *t, const void *user) {
    const uint64_t row = (uint64_t) * (const int32_t *)user, row_bytes = t->size_bytes / t->dims[1];
    ck_assert_uint_lt(row, t->dims[1]);
    memmove(t->data + row * row_bytes, t->data + (row + 1) % t->dims[1] * row_bytes, row_bytes);
}

void kg_mutant_swap_names(struct kg_edited_tensor *t, const void *user) {
    const char *const *parts = user;
    for (int i = 0; i < 2; i++) {
        char *at = strstr(t->name, parts[i]);
        if (!at) continue;
        char tail[sizeof t->name];
        snprintf(tail, sizeof tail, "%s", at + strlen(parts[i]));
        snprintf(at, (size_t)(t->name + sizeof t->name - at), "%s%s", parts[1 - i], tail);
        return;
    }
    ck_abort_msg("tensor %s has neither %s nor %s in its name", t->name, parts[0], parts[1]);
}

/* Calls f on the nibble bytes of every block. */
static void for_nibbles(struct kg_edited_tensor *t, void (*f)(uint8_t *nibbles)) {
    const struct kg_dtype_info *info = kg_dtype_info(t->dtype);
    ck_assert(t->dtype == KG_DTYPE_MXFP4 || t->dtype == KG_DTYPE_Q4_0);
    const uint32_t scale_bytes = info->block_bytes - NIBBLE_BYTES; /* they stand first in both */
    for (uint64_t at = 0; at < t->size_bytes; at += info->block_bytes) f(t->data + at + scale_bytes);
}

static void swap(uint8_t *nibbles) {
    for (int i = 0; i < NIBBLE_BYTES; i++) nibbles[i] = (uint8_t)(nibbles[i] << 4 | nibbles[i] >> 4);
}

void kg_mutant_swap_nibbles(struct kg_edited_tensor *t, const void *user) {
    (void)user;
    for_nibbles(t, swap);
}

/* Stores element 2j in the low and 2j + 1 in the high nibble of byte j, as a reader with that layout would expect. */
static void interleave(uint8_t *nibbles) {
    uint8_t elements[2 * NIBBLE_BYTES];
    for (int i = 0; i < NIBBLE_BYTES; i++) {
        elements[i] = nibbles[i] & 15;
        elements[NIBBLE_BYTES + i] = nibbles[i] >> 4;
    }
    for (int i = 0; i < NIBBLE_BYTES; i++) nibbles[i] = (uint8_t)(elements[2 * i] | elements[2 * i + 1] << 4);
}

void kg_mutant_interleave_nibbles(struct kg_edited_tensor *t, const void *user) {
    (void)user;
    for_nibbles(t, interleave);
}

void kg_mutant_no_minimum(struct kg_edited_tensor *t, const void *user) {
    (void)user;
    ck_assert(t->dtype == KG_DTYPE_Q4_K);
    const uint32_t block_bytes = kg_dtype_info(t->dtype)->block_bytes;
    for (uint64_t at = 0; at < t->size_bytes; at += block_bytes) memset(t->data + at + 2, 0, 2);
}

void kg_mutant_rows_in_halves(struct kg_edited_tensor *t, const void *user) {
    const uint64_t head = *(const uint32_t *)user, row_bytes = t->size_bytes / t->dims[1];
    uint8_t *rows = kg_xmalloc(t->size_bytes);
    for (uint64_t r = 0; r < t->dims[1]; r++) {
        const uint64_t i = r % head, half = i % 2 * (head / 2) + i / 2; /* neighbours 2i, 2i + 1 part */
        memcpy(rows + (r - i + half) * row_bytes, t->data + r * row_bytes, row_bytes);
    }
    free(t->data);
    t->data = rows;
}
