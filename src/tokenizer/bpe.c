#include "tokenizer/bpe.h"
#include "base/buffer.h"
#include "base/utf8.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NO_MERGE UINT64_MAX

/* Pieces of up to this many bytes are merged by linear search, longer ones with a heap. */
enum { SHORT_PIECE_BYTES = 48 };

void kg_bpe_init(struct kg_bpe *bpe, size_t n_max) {
    size_t n_slots = 16;
    while (n_slots < n_max + n_max / 2) n_slots *= 2;
    bpe->mask = n_slots - 1;
    bpe->slots = kg_xmalloc(n_slots * sizeof *bpe->slots);
    memset(bpe->slots, 0xff, n_slots * sizeof *bpe->slots);
    for (size_t i = 0; i < 256; i++) bpe->byte_ids[i] = -1;
    for (uint32_t c = 0; c < 128; c++) bpe->ascii[c] = kg_bpe_character(c == ' ' ? KG_BPE_SPACE : c);
}

void kg_bpe_free(struct kg_bpe *bpe) {
    free(bpe->slots);
    bpe->slots = NULL;
}

static uint64_t pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static struct kg_bpe_slot *find_slot(const struct kg_bpe *bpe, uint64_t pair) {
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    for (size_t i = hash & bpe->mask;; i = (i + 1) & bpe->mask) {
        struct kg_bpe_slot *slot = &bpe->slots[i];
        if (slot->pair == pair || slot->pair == UINT64_MAX) return slot;
    }
}

void kg_bpe_add(struct kg_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t merged) {
    struct kg_bpe_slot *slot = find_slot(bpe, pair_key(left, right));
    slot->pair = pair_key(left, right);
    slot->result = (uint64_t)rank << 32 | (uint32_t)merged;
}

/* rank << 32 | merged id, or NO_MERGE. */
static uint64_t find_merge(const struct kg_bpe *bpe, int32_t left, int32_t right) {
    return find_slot(bpe, pair_key(left, right))->result; /* an empty slot holds all ones */
}

/* The left id of characters in the table of pairs; no pair has it. */
static uint64_t character_key(uint32_t c) {
    return (uint64_t)UINT32_MAX << 32 | c;
}

void kg_bpe_add_character(struct kg_bpe *bpe, uint32_t c, int32_t id) {
    struct kg_bpe_slot *slot = find_slot(bpe, character_key(c));
    slot->pair = character_key(c);
    slot->result = (uint32_t)id;
    if (c == KG_BPE_SPACE) bpe->ascii[' '] = id;
    else if (c < 128 && c != ' ') bpe->ascii[c] = id;
}

int32_t kg_bpe_find_character(const struct kg_bpe *bpe, uint32_t c) {
    if (c < 128) return bpe->ascii[c];
    const uint64_t result = find_slot(bpe, character_key(c))->result;
    return result == NO_MERGE ? kg_bpe_character(c) : (int32_t)(uint32_t)result;
}

/* The symbol at piece[*at]; -1 for a byte without a token. Moves *at past it. */
static int32_t next_symbol(const struct kg_bpe *bpe, const char *piece, size_t *at) {
    if (!bpe->by_characters) return bpe->byte_ids[(unsigned char)piece[(*at)++]];
    uint32_t c;
    *at += kg_utf8_get(piece + *at, &c);
    return kg_bpe_find_character(bpe, c);
}

static void push_symbol(const struct kg_bpe *bpe, int32_t symbol, struct kg_ids *ids) {
    if (symbol >= 0) {
        kg_ids_push(ids, symbol);
        return;
    }
    char bytes[KG_UTF8_MAX_BYTES];
    const size_t n = kg_utf8_put((uint32_t)(-2 - symbol), bytes);
    for (size_t i = 0; i < n; i++) kg_ids_push(ids, bpe->byte_ids[(unsigned char)bytes[i]]);
}

static enum kg_status missing_byte(unsigned char byte, struct kg_error *err) {
    return kg_fail(err, KG_ERR_FORMAT, "the vocabulary has no token for byte 0x%02x", byte);
}

/* tokens[0..n) become the piece's tokens; returns how many. */
static size_t merge_short(const struct kg_bpe *bpe, int32_t *tokens, size_t n) {
    uint64_t merges[SHORT_PIECE_BYTES];
    for (size_t i = 0; i + 1 < n; i++) merges[i] = find_merge(bpe, tokens[i], tokens[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (merges[i] >> 32 < merges[best] >> 32)
                best = i; /* compares ranks only, so that the leftmost wins a tie */
        if (merges[best] == NO_MERGE) break;
        tokens[best] = (int32_t)(uint32_t)merges[best];
        n--;
        memmove(tokens + best + 1, tokens + best + 2, (n - best - 1) * sizeof *tokens);
        memmove(merges + best, merges + best + 1, (n - best) * sizeof *merges);
        if (best > 0) merges[best - 1] = find_merge(bpe, tokens[best - 1], tokens[best]);
        if (best + 1 < n) merges[best] = find_merge(bpe, tokens[best], tokens[best + 1]);
    }
    return n;
}

/* A long piece is a linked list of symbols; the heap holds (rank, position of the left symbol). A popped entry is
 * stale, and skipped, if the pair at its position has another rank by then. */
struct symbol {
    int32_t id;
    uint32_t previous, next; /* NONE at the ends */
    uint32_t rank, merged;   /* of the pair with the next symbol; NONE if it has no merge */
};
#define NONE UINT32_MAX

struct cache_entry {
    uint8_t len, n;
    char piece[22];
    int32_t ids[10];
};
_Static_assert(sizeof(struct cache_entry) == 64, "an entry fills a cache line");
enum { CACHE_ENTRIES = 1 << 14 };

struct kg_bpe_work {
    struct cache_entry *cache; /* direct-mapped, CACHE_ENTRIES of them; NULL: none */
    struct symbol *symbols;    /* room for capacity */
    uint64_t *heap;            /* rank << 32 | position; room for 3 * capacity, which is never exceeded */
    size_t capacity, n_heap;
};

struct kg_bpe_work *kg_bpe_work_new(size_t text_len) {
    enum { CACHE_PAYS_FROM_BYTES = 16 << 10 };
    struct kg_bpe_work *work = kg_xcalloc(1, sizeof *work);
    if (text_len >= CACHE_PAYS_FROM_BYTES) work->cache = kg_xcalloc(CACHE_ENTRIES, sizeof *work->cache);
    return work;
}

void kg_bpe_work_free(struct kg_bpe_work *work) {
    if (!work) return;
    free(work->heap);
    free(work->symbols);
    free(work->cache);
    free(work);
}

static void sift_down(uint64_t *heap, size_t n, size_t at) {
    const uint64_t moving = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= moving) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void heap_push(struct kg_bpe_work *work, uint64_t entry) {
    size_t at = work->n_heap++;
    while (at > 0 && work->heap[(at - 1) / 2] > entry) {
        work->heap[at] = work->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    work->heap[at] = entry;
}

static uint64_t heap_pop(struct kg_bpe_work *work) {
    const uint64_t top = work->heap[0];
    work->heap[0] = work->heap[--work->n_heap];
    if (work->n_heap > 0) sift_down(work->heap, work->n_heap, 0);
    return top;
}

static bool look_up_pair(const struct kg_bpe *bpe, struct symbol *symbols, uint32_t at) {
    struct symbol *s = &symbols[at];
    const uint64_t merge = s->next == NONE ? NO_MERGE : find_merge(bpe, s->id, symbols[s->next].id);
    s->rank = (uint32_t)(merge >> 32);
    s->merged = (uint32_t)merge;
    return s->rank != NONE;
}

static void merge_pair(const struct kg_bpe *bpe, struct kg_bpe_work *work, uint32_t at) {
    struct symbol *symbols = work->symbols, *left = &symbols[at], *right = &symbols[left->next];
    left->id = (int32_t)left->merged;
    left->next = right->next;
    right->rank = NONE;
    if (left->next != NONE) symbols[left->next].previous = at;
    if (look_up_pair(bpe, symbols, at)) heap_push(work, (uint64_t)left->rank << 32 | at);
    if (left->previous != NONE && look_up_pair(bpe, symbols, left->previous))
        heap_push(work, (uint64_t)symbols[left->previous].rank << 32 | left->previous);
}

static enum kg_status encode_long(const struct kg_bpe *bpe, struct kg_bpe_work *work, const char *piece, size_t len,
                                  struct kg_ids *ids, struct kg_error *err) {
    if (len >= NONE) return kg_fail(err, KG_ERR_RANGE, "a piece of %zu bytes without a cut is too long", len);
    if (len > work->capacity) {
        work->capacity = len;
        work->symbols = kg_xrealloc(work->symbols, len * sizeof *work->symbols);
        /* One entry per pair at the start, and two more for each of fewer than len merges. */
        work->heap = kg_xrealloc(work->heap, 3 * len * sizeof *work->heap);
    }
    uint32_t n = 0;
    for (size_t at = 0; at < len; n++) {
        const char *text = piece + at;
        const int32_t id = next_symbol(bpe, piece, &at);
        if (id == -1) return missing_byte((unsigned char)*text, err);
        work->symbols[n] = (struct symbol){ .id = id, .previous = n ? n - 1 : NONE, .next = n + 1 };
    }
    work->symbols[n - 1].next = NONE;
    work->n_heap = 0;
    for (uint32_t i = 0; i < n; i++)
        if (look_up_pair(bpe, work->symbols, i)) work->heap[work->n_heap++] = (uint64_t)work->symbols[i].rank << 32 | i;
    for (size_t i = work->n_heap / 2; i-- > 0;) sift_down(work->heap, work->n_heap, i);
    while (work->n_heap > 0) {
        const uint64_t entry = heap_pop(work);
        const uint32_t at = (uint32_t)entry;
        if (work->symbols[at].rank == entry >> 32) merge_pair(bpe, work, at);
    }
    for (uint32_t at = 0; at != NONE; at = work->symbols[at].next) push_symbol(bpe, work->symbols[at].id, ids);
    return KG_OK;
}

static struct cache_entry *cache_slot(const struct kg_bpe_work *work, const char *piece, size_t len) {
    if (!work->cache || len > sizeof work->cache->piece) return NULL;
    uint64_t hash = 0xcbf29ce484222325u + len;
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = 0;
        memcpy(&word, piece + at, len - at < 8 ? len - at : 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return &work->cache[(hash ^ hash >> 32) % CACHE_ENTRIES];
}

enum kg_status kg_bpe_encode(const struct kg_bpe *bpe, struct kg_bpe_work *work, const char *piece, size_t len,
                             struct kg_ids *ids, struct kg_error *err) {
    if (len > SHORT_PIECE_BYTES) return encode_long(bpe, work, piece, len, ids, err);
    struct cache_entry *entry = cache_slot(work, piece, len);
    if (entry && entry->len == len && memcmp(entry->piece, piece, len) == 0) {
        for (size_t i = 0; i < entry->n; i++) kg_ids_push(ids, entry->ids[i]);
        return KG_OK;
    }
    int32_t symbols[SHORT_PIECE_BYTES];
    size_t n = 0;
    for (size_t at = 0; at < len; n++) {
        const char *text = piece + at;
        symbols[n] = next_symbol(bpe, piece, &at);
        if (symbols[n] == -1) return missing_byte((unsigned char)*text, err);
    }
    n = merge_short(bpe, symbols, n);
    const size_t first = ids->n;
    for (size_t i = 0; i < n; i++) push_symbol(bpe, symbols[i], ids);
    n = ids->n - first;
    if (entry && n <= sizeof entry->ids / sizeof *entry->ids) {
        entry->len = (uint8_t)len;
        entry->n = (uint8_t)n;
        memcpy(entry->piece, piece, len);
        memcpy(entry->ids, ids->ids + first, n * sizeof *ids->ids);
    }
    return KG_OK;
}
