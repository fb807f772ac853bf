/* utf8proc decomposes and composes. Canonical ordering is a stable counting sort here, because utf8proc's bubble sort
 * takes quadratic time on a long run of combining marks. */
#include "tokenizer/normalize.h"
#include "base/size.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

bool kg_nfc_may_change(const char *text, size_t len) {
    for (size_t at = 0; at < len; at++)
        if ((unsigned char)text[at] >= 0xcc) return true; /* U+0300 begins with 0xCC */
    return false;
}

/* Hugging Face tokenizers (0.23) normalise by the tables of Unicode 9: code points that got a combining class or a
 * decomposition later are not reordered and do not compose. The ids of published vocabularies depend on that, so it is
 * the same here for any version of utf8proc. The list comes from comparing the two over all code points. */
static const uint32_t INERT[][2] = {
    { 0x5c8, 0x5c9 },     { 0x7fd, 0x7fd },     { 0x897, 0x89f },     { 0x8ca, 0x8d3 },     { 0x9fe, 0x9fe },
    { 0xc3c, 0xc3c },     { 0xd3b, 0xd3c },     { 0xeba, 0xeba },     { 0x1715, 0x1715 },   { 0x1abf, 0x1af0 },
    { 0x1df6, 0x1dfa },   { 0xa82c, 0xa82c },   { 0x105c9, 0x105c9 }, { 0x105d2, 0x105d2 }, { 0x105da, 0x105da },
    { 0x105e4, 0x105e4 }, { 0x10d24, 0x10d27 }, { 0x10d69, 0x10d6d }, { 0x10eab, 0x10eac }, { 0x10ecb, 0x10ecf },
    { 0x10ef0, 0x10efb }, { 0x10efd, 0x10eff }, { 0x10f46, 0x10f50 }, { 0x10f82, 0x10f85 }, { 0x11070, 0x11070 },
    { 0x1133b, 0x1133b }, { 0x11383, 0x11383 }, { 0x11385, 0x11385 }, { 0x1138e, 0x1138e }, { 0x11391, 0x11391 },
    { 0x113b8, 0x113b8 }, { 0x113bb, 0x113bb }, { 0x113c2, 0x113c2 }, { 0x113c5, 0x113c5 }, { 0x113c7, 0x113c9 },
    { 0x113ce, 0x113d0 }, { 0x1145e, 0x1145e }, { 0x11839, 0x1183a }, { 0x11930, 0x11930 }, { 0x11938, 0x11938 },
    { 0x1193d, 0x1193e }, { 0x11943, 0x11943 }, { 0x119e0, 0x119e0 }, { 0x11a34, 0x11a34 }, { 0x11a47, 0x11a47 },
    { 0x11a99, 0x11a99 }, { 0x11d42, 0x11d42 }, { 0x11d44, 0x11d45 }, { 0x11d97, 0x11d97 }, { 0x11f41, 0x11f42 },
    { 0x1611e, 0x16129 }, { 0x1612f, 0x1612f }, { 0x16d67, 0x16d6a }, { 0x16ff0, 0x16ff1 }, { 0x1d127, 0x1d128 },
    { 0x1d250, 0x1d252 }, { 0x1d25b, 0x1d25c }, { 0x1d25f, 0x1d25f }, { 0x1d280, 0x1d281 }, { 0x1e08f, 0x1e08f },
    { 0x1e130, 0x1e136 }, { 0x1e2ae, 0x1e2ae }, { 0x1e2ec, 0x1e2ef }, { 0x1e4ec, 0x1e4ef }, { 0x1e5ee, 0x1e5ef },
    { 0x1e6e3, 0x1e6e3 }, { 0x1e6e6, 0x1e6e6 }, { 0x1e6ee, 0x1e6ef }, { 0x1e6f5, 0x1e6f5 },
};

static bool is_inert(uint32_t c) {
    if (c < INERT[0][0]) return false;
    size_t low = 0, high = KG_COUNT_OF(INERT);
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (c > INERT[mid][1]) low = mid + 1;
        else if (c < INERT[mid][0]) high = mid;
        else return true;
    }
    return false;
}

static unsigned combining_class(int32_t c) {
    return (unsigned)utf8proc_get_property(c)->combining_class;
}

/* Stable sort of marks[0..n) by combining class; scratch has n elements. */
static void order_marks(int32_t *marks, size_t n, int32_t *scratch) {
    size_t start[257] = { 0 };
    for (size_t i = 0; i < n; i++) start[combining_class(marks[i]) + 1]++;
    for (size_t k = 1; k < 257; k++) start[k] += start[k - 1];
    for (size_t i = 0; i < n; i++) scratch[start[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, scratch, n * sizeof *marks);
}

struct nfc_run {
    int32_t *points, *scratch; /* decomposed code points; room for capacity each */
    size_t n, capacity;
};

static void run_append(struct nfc_run *run, const int32_t *points, size_t n) {
    if (n == 0) return;
    if (run->n + n > run->capacity) {
        run->capacity = 2 * run->capacity + n + 64;
        run->points = kg_xrealloc(run->points, run->capacity * sizeof *run->points);
        run->scratch = kg_xrealloc(run->scratch, run->capacity * sizeof *run->scratch);
    }
    for (size_t i = 0; i < n; i++) run->points[run->n++] = points[i];
}

/* Orders, composes and appends the collected code points. */
static enum kg_status run_flush(struct nfc_run *run, struct kg_buffer *out, struct kg_error *err) {
    if (run->n == 0) return KG_OK;
    for (size_t i = 0; i < run->n;) {
        if (combining_class(run->points[i]) == 0) {
            i++;
            continue;
        }
        const size_t first = i;
        bool sorted = true;
        for (i++; i < run->n && combining_class(run->points[i]) != 0; i++)
            if (combining_class(run->points[i]) < combining_class(run->points[i - 1])) sorted = false;
        if (!sorted) order_marks(run->points + first, i - first, run->scratch);
    }
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(run->points, (utf8proc_ssize_t)run->n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (n < 0) return kg_fail(err, KG_ERR_INTERNAL, "utf8proc cannot compose text: %s", utf8proc_errmsg(n));
    char bytes[KG_UTF8_MAX_BYTES];
    for (utf8proc_ssize_t i = 0; i < n; i++) kg_buffer_append(out, bytes, kg_utf8_put((uint32_t)run->points[i], bytes));
    run->n = 0;
    return KG_OK;
}

/* Appends the canonical decomposition of one character. */
static enum kg_status run_decompose(struct nfc_run *run, uint32_t c, struct kg_error *err) {
    enum { MAX_PARTS = 32 }; /* the longest canonical decomposition has four */
    int32_t parts[MAX_PARTS];
    int boundary = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)c, parts, MAX_PARTS, UTF8PROC_DECOMPOSE, &boundary);
    if (n < 0 || n > MAX_PARTS) return kg_fail(err, KG_ERR_INTERNAL, "utf8proc cannot decompose U+%04X", (unsigned)c);
    run_append(run, parts, (size_t)n);
    return KG_OK;
}

/* Bytes of ASCII at the start of text[0..len). */
static size_t ascii_span(const char *text, size_t len) {
    size_t n = 0;
    while (n < len && (unsigned char)text[n] < 0x80) n++;
    return n;
}

enum kg_status kg_nfc_append(const char *text, size_t len, struct kg_buffer *out, struct kg_error *err) {
    struct nfc_run run = { 0 };
    enum kg_status status = KG_OK;
    for (size_t at = 0; at < len && status == KG_OK;) {
        const size_t n_ascii = ascii_span(text + at, len - at);
        if (n_ascii > 0) {
            /* ASCII never composes with what precedes it; only the last character may compose with marks that
             * follow. */
            status = run_flush(&run, out, err);
            kg_buffer_append(out, text + at, n_ascii - 1);
            at += n_ascii;
            run_append(&run, &(int32_t){ text[at - 1] }, 1);
            continue;
        }
        uint32_t c;
        const size_t n = kg_utf8_get(text + at, &c);
        if (is_inert(c)) {
            status = run_flush(&run, out, err);
            kg_buffer_append(out, text + at, n);
        } else {
            status = run_decompose(&run, c, err);
        }
        at += n;
    }
    if (status == KG_OK) status = run_flush(&run, out, err);
    free(run.scratch);
    free(run.points);
    return status;
}
