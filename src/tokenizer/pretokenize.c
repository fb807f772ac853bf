#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pretokenize.h"
#include "base/buffer.h"
#include "tokenizer/char_class.h"
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Unicode's White_Space, the reference's meaning of \s. PCRE2's \s also matches U+180E. */
#define SPACE_SET "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

struct kg_pretokenizer {
    pcre2_code *code;
    bool jit;
};

struct kg_splitter {
    const struct kg_pretokenizer *pre;
    pcre2_match_data *match_data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    struct kg_buffer copy; /* the text with substituted characters (char_class.h), if it needs any */
    const char *text;      /* the text that pieces point into */
    const char *subject;   /* the text that is matched: text or copy */
    size_t len, at;
    size_t match_end; /* of a match after unmatched text; at <= match_begin */
    size_t match_begin;
};

/* The published pattern with \s and \S spelled out, in a class or outside of one. */
static char *spell_out_spaces(const char *pattern) {
    struct kg_buffer out = KG_BUFFER_INIT;
    bool in_class = false;
    for (const char *p = pattern; *p; p++) {
        if (*p == '[') in_class = true;
        if (*p == ']') in_class = false;
        if (*p != '\\') {
            kg_buffer_append(&out, p, 1);
            continue;
        }
        p++;
        if (*p == 's') kg_buffer_puts(&out, in_class ? SPACE_SET : "[" SPACE_SET "]");
        else if (*p == 'S' && !in_class) kg_buffer_puts(&out, "[^" SPACE_SET "]");
        else kg_buffer_append(&out, p - 1, 2);
    }
    return out.data;
}

enum kg_status kg_pretokenizer_create(const struct kg_pre_kind *kind, struct kg_pretokenizer **pre,
                                      struct kg_error *err) {
    char *pattern = spell_out_spaces(kind->published);
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    if (!compiled) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(code, text, sizeof text);
        kg_fail(err, KG_ERR_INTERNAL, "pre-tokenizer pattern '%s' at %zu: %s", pattern, (size_t)offset, (char *)text);
        free(pattern);
        return KG_ERR_INTERNAL;
    }
    free(pattern);
    struct kg_pretokenizer *p = kg_xcalloc(1, sizeof *p);
    p->code = compiled;
    p->jit = pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0;
    *pre = p;
    return KG_OK;
}

void kg_pretokenizer_free(struct kg_pretokenizer *pre) {
    if (!pre) return;
    pcre2_code_free(pre->code);
    free(pre);
}

struct kg_splitter *kg_splitter_new(const struct kg_pretokenizer *pre) {
    enum { STACK_START_BYTES = 32 << 10, STACK_MAX_BYTES = 16 << 20 };
    struct kg_splitter *s = kg_xcalloc(1, sizeof *s);
    s->pre = pre;
    s->match_data = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (!s->match_data || !s->context) kg_memory_exhausted(0);
    /* A piece may be as long as the text, so the interpreter's step limit must not stop it. */
    pcre2_set_match_limit(s->context, UINT32_MAX);
    pcre2_set_depth_limit(s->context, UINT32_MAX);
    if (pre->jit) {
        s->stack = pcre2_jit_stack_create(STACK_START_BYTES, STACK_MAX_BYTES, NULL);
        if (s->stack) pcre2_jit_stack_assign(s->context, NULL, s->stack);
    }
    return s;
}

void kg_splitter_free(struct kg_splitter *s) {
    if (!s) return;
    if (s->stack) pcre2_jit_stack_free(s->stack);
    pcre2_match_context_free(s->context);
    pcre2_match_data_free(s->match_data);
    kg_buffer_free(&s->copy);
    free(s);
}

void kg_splitter_start(struct kg_splitter *s, const char *text, size_t len) {
    s->text = text;
    s->len = len;
    s->subject = kg_char_class_stand_in(text, len, &s->copy) ? s->copy.data : text;
    s->at = s->match_begin = s->match_end = 0;
}

/* Finds the next match at or after s->at; without one, the match is empty and at the end. */
static enum kg_status find_match(struct kg_splitter *s, struct kg_error *err) {
    const PCRE2_SPTR subject = (PCRE2_SPTR)s->subject;
    const int rc =
        s->pre->jit ? pcre2_jit_match(s->pre->code, subject, s->len, s->at, 0, s->match_data, s->context)
                    : pcre2_match(s->pre->code, subject, s->len, s->at, PCRE2_NO_UTF_CHECK, s->match_data, s->context);
    if (rc == PCRE2_ERROR_NOMATCH) {
        s->match_begin = s->match_end = s->len;
        return KG_OK;
    }
    if (rc < 0) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(rc, text, sizeof text);
        return kg_fail(err, KG_ERR_INTERNAL, "pre-tokenizer pattern failed at byte %zu of a text of %zu: %s", s->at,
                       s->len, (char *)text);
    }
    const PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(s->match_data);
    s->match_begin = ovector[0];
    s->match_end = ovector[1];
    return KG_OK;
}

enum kg_status kg_splitter_next(struct kg_splitter *s, const char **piece, size_t *len, struct kg_error *err) {
    *len = 0;
    if (s->at == s->len) return KG_OK;
    if (s->at >= s->match_end) {
        const enum kg_status status = find_match(s, err);
        if (status != KG_OK) return status;
    }
    const size_t end = s->at < s->match_begin ? s->match_begin : s->match_end;
    *piece = s->text + s->at;
    *len = end - s->at;
    s->at = end;
    return KG_OK;
}
