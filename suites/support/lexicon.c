/* Reading fixtures/lexicon/syllables.tsv: word TAB syllables TAB class, one row a word; looked up by bisection. */
#include "suites/support/poem.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/options.h"
#include <stdlib.h>
#include <string.h>

struct row {
    char *word, *class;
    int syllables;
};

struct kg_lexicon {
    char *text;                 /* the file; rows point into it */
    struct row *rows;           /* in the file's order */
    const struct row **by_word; /* sorted */
    size_t n_rows;
};

static int compare_rows(const void *a, const void *b) {
    const struct row *const *x = a, *const *y = b;
    return strcmp((*x)->word, (*y)->word);
}

static enum kg_status parse_row(char *line, size_t number, const char *path, struct row *row, struct kg_error *err) {
    char *const syllables = strchr(line, '\t'), *const class = syllables ? strchr(syllables + 1, '\t') : NULL;
    if (!class || class[1] == '\0')
        return kg_fail(err, KG_ERR_FORMAT, "%s: line %zu: '%s' has not three columns", path, number, line);
    *syllables = *class = '\0';
    int64_t count;
    const enum kg_status status = kg_parse_i64(syllables + 1, &count, err);
    if (status != KG_OK || count < 1 || count > 7 || line[0] == '\0')
        return kg_fail(err, KG_ERR_FORMAT, "%s: line %zu: '%s' has '%s' syllables", path, number, line, syllables + 1);
    *row = (struct row){ .word = line, .class = class + 1, .syllables = (int)count };
    return KG_OK;
}

static enum kg_status sort_rows(struct kg_lexicon *lexicon, const char *path, struct kg_error *err) {
    lexicon->by_word = kg_xcalloc(lexicon->n_rows, sizeof *lexicon->by_word);
    for (size_t i = 0; i < lexicon->n_rows; i++) lexicon->by_word[i] = &lexicon->rows[i];
    qsort(lexicon->by_word, lexicon->n_rows, sizeof *lexicon->by_word, compare_rows);
    for (size_t i = 1; i < lexicon->n_rows; i++)
        if (strcmp(lexicon->by_word[i - 1]->word, lexicon->by_word[i]->word) == 0)
            return kg_fail(err, KG_ERR_FORMAT, "%s: '%s' has two rows", path, lexicon->by_word[i]->word);
    return KG_OK;
}

enum kg_status kg_lexicon_open(const char *path, struct kg_lexicon **out, struct kg_error *err) {
    struct kg_lexicon *const lexicon = kg_xcalloc(1, sizeof *lexicon);
    size_t size = 0, capacity = 0, number = 0;
    enum kg_status status = kg_file_read(path, &lexicon->text, &size, err);
    if (status != KG_OK) goto fail;
    char *rest = NULL;
    for (char *line = strtok_r(lexicon->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (lexicon->n_rows == capacity) {
            capacity = capacity ? 2 * capacity : 512;
            lexicon->rows = kg_xrealloc(lexicon->rows, capacity * sizeof *lexicon->rows);
        }
        status = parse_row(line, ++number, path, &lexicon->rows[lexicon->n_rows], err);
        if (status != KG_OK) goto fail;
        lexicon->n_rows++;
    }
    if (lexicon->n_rows == 0) {
        status = kg_fail(err, KG_ERR_FORMAT, "%s: no words", path);
        goto fail;
    }
    status = sort_rows(lexicon, path, err);
    if (status != KG_OK) goto fail;
    *out = lexicon;
    return KG_OK;
fail:
    kg_lexicon_free(lexicon);
    return status;
}

void kg_lexicon_free(struct kg_lexicon *lexicon) {
    if (!lexicon) return;
    free(lexicon->by_word);
    free(lexicon->rows);
    free(lexicon->text);
    free(lexicon);
}

size_t kg_lexicon_n_words(const struct kg_lexicon *lexicon) {
    return lexicon->n_rows;
}

const char *kg_lexicon_class_at(const struct kg_lexicon *lexicon, size_t row) {
    return lexicon->rows[row].class;
}

const char *kg_lexicon_word_at(const struct kg_lexicon *lexicon, size_t row) {
    return lexicon->rows[row].word;
}

int kg_lexicon_syllables(const struct kg_lexicon *lexicon, const char *word, size_t len) {
    size_t low = 0, high = lexicon->n_rows;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const char *const found = lexicon->by_word[middle]->word;
        const int order = strncmp(found, word, len);
        if (order == 0 && found[len] == '\0') return lexicon->by_word[middle]->syllables;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return 0;
}
