#include "base/io_errors.h"
#include "base/utf8.h"
#include <kigo/status.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct status_row {
    const char *name;
    int exit_code;
    const char *text;
};

static const struct status_row STATUS_ROWS[] = {
#define STATUS_ROW(name, exit_code, text) { "KG_" #name, exit_code, text },
    KG_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

static const struct status_row *status_row(enum kg_status status) {
    static const struct status_row UNKNOWN = { "KG_ERR_?", KG_EXIT_INTERNAL, "unknown status" };
    const size_t n_rows = sizeof STATUS_ROWS / sizeof *STATUS_ROWS;
    return (size_t)status < n_rows ? &STATUS_ROWS[status] : &UNKNOWN;
}

const char *kg_status_text(enum kg_status status) {
    return status_row(status)->text;
}

const char *kg_status_name(enum kg_status status) {
    return status_row(status)->name;
}

int kg_status_exit_code(enum kg_status status) {
    return status_row(status)->exit_code;
}

/* A message that was too long may be cut inside a character: drops the incomplete character. */
static void trim_cut_character(struct kg_error *err) {
    const size_t len = strlen(err->message), good = kg_utf8_first_error(err->message, len);
    if (len + 1 == sizeof err->message && len - good < KG_UTF8_MAX_BYTES) err->message[good] = '\0';
}

void kg_error_set(struct kg_error *err, enum kg_status status, const char *fmt, ...) {
    struct kg_error own;
    const bool noted = status == KG_ERR_IO || status == KG_ERR_NO_MEMORY;
    if (!err && !noted) return;
    if (!err) err = &own;
    va_list args;
    va_start(args, fmt);
    err->status = status;
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    trim_cut_character(err);
    if (noted) kg_io_error_note(status, err->message);
}

void kg_error_prefix(struct kg_error *err, const char *fmt, ...) {
    if (!err) return;
    char inner[sizeof err->message];
    memcpy(inner, err->message, sizeof inner);
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    const size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", inner);
    trim_cut_character(err);
}
