#include "suites/fuzz/targets.h"
#include "base/utf8.h"
#include <kigo/bundle.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The runner keeps the last 1000 bytes that a program said: what was violated, before these, must not be pushed out by
 * them. */
enum { MAX_SHOWN_BYTES = 160 };

static struct {
    const char *target;
    char name[80];
    const uint8_t *data;
    size_t size;
} input;

void kg_fuzz_name_input(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(input.name, sizeof input.name, fmt, args);
    va_end(args);
}

void kg_fuzz_begin(const char *target, const uint8_t *data, size_t size) {
    input.target = target;
    input.data = data;
    input.size = size;
}

/* As a string of C: octal escapes where a byte is not plain. */
static void print_bytes(const uint8_t *data, size_t size) {
    fputc('"', stderr);
    for (size_t i = 0; i < size; i++) {
        const bool plain = data[i] >= ' ' && data[i] < 0x7f;
        if (data[i] == '"' || data[i] == '\\') fputc('\\', stderr);
        fprintf(stderr, plain ? "%c" : "\\%03o", data[i]);
    }
    fputc('"', stderr);
}

void kg_fuzz_give_up(const char *fmt, ...) {
    const size_t n_shown = input.size < MAX_SHOWN_BYTES ? input.size : MAX_SHOWN_BYTES;
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "kg_fuzz_%s: ", input.target);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, ": %s%s%zu bytes ", input.name, *input.name ? ", " : "", input.size);
    print_bytes(input.data, n_shown);
    fprintf(stderr, n_shown < input.size ? "...\n" : "\n");
    abort();
}

enum kg_status kg_fuzz_expect_error(const struct kg_error *err) {
    const size_t len = strlen(err->message);
    if (err->status == KG_OK) kg_fuzz_give_up("an error whose status is good (message \"%s\")", err->message);
    if (len == 0) kg_fuzz_give_up("an error of status %d without a message", (int)err->status);
    if (!kg_utf8_valid(err->message, len)) kg_fuzz_give_up("an error whose message is not UTF-8: \"%s\"", err->message);
    return err->status;
}

void kg_fuzz_expect_findings(const struct kg_bundle_findings *findings) {
    for (size_t i = 0; i < findings->n_items; i++) {
        const struct kg_bundle_finding *f = &findings->items[i];
        if (!kg_utf8_valid(f->detail, strlen(f->detail)) || !kg_utf8_valid(f->path, strlen(f->path)))
            kg_fuzz_give_up("finding %zu is not UTF-8", i);
    }
}
