#include "base/nearest.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LEN = 63 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Row i of the table holds the distances of a's first i letters from each beginning of b; three rows are needed. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b) {
    size_t rows[3][MAX_LEN + 1];
    for (size_t j = 0; j <= n_b; j++) rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        const size_t *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

void kg_nearest_try(struct kg_nearest *nearest, const char *name) {
    const size_t len = strlen(name);
    if (nearest->len == 0 || nearest->len > MAX_LEN || len > MAX_LEN) return;
    const bool begins = nearest->len > 1 && strncmp(name, nearest->word, nearest->len) == 0;
    const size_t d = begins ? 1 : distance(nearest->word, nearest->len, name, len);
    if (3 * d > (nearest->len > len ? nearest->len : len) && !begins) return;
    if (nearest->name && d >= nearest->distance) return;
    nearest->name = name;
    nearest->distance = d;
}

void kg_nearest_text(const struct kg_nearest *nearest, const char *before, char text[KG_NEAREST_TEXT_SIZE]) {
    text[0] = '\0';
    if (nearest->name) snprintf(text, KG_NEAREST_TEXT_SIZE, ", did you mean '%s%s'?", before, nearest->name);
}
