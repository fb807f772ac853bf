/* Statuses and errors: how every function of kigo reports that it failed, and why.
 *
 * A function that can fail returns enum kg_status (0 is success) and takes a `struct kg_error *err` last, which may be
 * NULL. The function that detects an error fills *err; callers pass it on. Outputs are written only on success. */
#ifndef KIGO_STATUS_H
#define KIGO_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, exit code of a program that ends with this status, text) */
#define KG_STATUS_LIST(X)                                                                                              \
    X(OK, 0, "ok")                                                                                                     \
    X(ERR_USAGE, 2, "invalid argument")                                                                                \
    X(ERR_NOT_FOUND, 2, "not found")                                                                                   \
    X(ERR_EXISTS, 2, "already exists")                                                                                 \
    X(ERR_UNSUPPORTED, 2, "unsupported")                                                                               \
    X(ERR_RANGE, 2, "out of range")                                                                                    \
    X(ERR_FORMAT, 4, "malformed data")                                                                                 \
    X(ERR_INTEGRITY, 4, "integrity check failed")                                                                      \
    X(ERR_SCHEMA, 4, "schema not understood")                                                                          \
    X(ERR_INCOMPLETE, 5, "incomplete")                                                                                 \
    X(ERR_IO, 5, "input/output error")                                                                                 \
    X(ERR_BUSY, 5, "in use")                                                                                           \
    X(ERR_UNWRITABLE, 5, "cannot be written")                                                                          \
    X(ERR_NO_MEMORY, 5, "out of memory")                                                                               \
    X(ERR_NUMERIC, 1, "not a finite number")                                                                           \
    X(ERR_CANCELLED, 5, "cancelled")                                                                                   \
    X(ERR_INTERNAL, 99, "internal error")

enum kg_status {
#define KG_STATUS_ENUM(name, exit_code, text) KG_##name,
    KG_STATUS_LIST(KG_STATUS_ENUM)
#undef KG_STATUS_ENUM
};

/* Exit codes of every program of kigo. */
enum kg_exit {
    KG_EXIT_OK = 0,
    KG_EXIT_FAILED = 1, /* a test failed, a regression was found */
    KG_EXIT_USAGE = 2,
    KG_EXIT_INCONCLUSIVE = 3,
    KG_EXIT_INTEGRITY = 4,  /* integrity, signature or schema */
    KG_EXIT_INCOMPLETE = 5, /* a planned case has no result, nothing ran, or a required GPU is absent */
    KG_EXIT_NOTHING_TO_DO = 77,
    KG_EXIT_INTERNAL = 99,
};

struct kg_error {
    enum kg_status status;
    char message[1024]; /* what failed, where, and the offending value; UTF-8, no trailing newline */
};

#define KG_WARN_UNUSED __attribute__((warn_unused_result))
#define KG_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))

/* Short text of a status ("not found"), never NULL. */
const char *kg_status_text(enum kg_status status);

/* Name of a status as in the source ("KG_ERR_NOT_FOUND"), never NULL. */
const char *kg_status_name(enum kg_status status);

/* The exit code (enum kg_exit) of a program that ends with this status. */
int kg_status_exit_code(enum kg_status status);

/* Fills *err (if not NULL) with status and message. */
void kg_error_set(struct kg_error *err, enum kg_status status, const char *fmt, ...) KG_PRINTF(3, 4);

/* Puts "context: " in front of the message of *err (if not NULL). */
void kg_error_prefix(struct kg_error *err, const char *fmt, ...) KG_PRINTF(2, 3);

static inline enum kg_status kg_status_pass(enum kg_status status) {
    return status;
}

/* `return kg_fail(err, KG_ERR_..., "...")` sets the error and evaluates to the status. It is a macro so that analyzers
 * see that the code after it is not reached. Evaluates `status` twice. */
#define kg_fail(err, status, ...) (kg_error_set((err), (status), __VA_ARGS__), kg_status_pass(status))

/* `return kg_error_context(err, status, "file %s", path)` prefixes the message of an error and evaluates to its
 * status. */
#define kg_error_context(err, status, ...) (kg_error_prefix((err), __VA_ARGS__), kg_status_pass(status))

#ifdef __cplusplus
}
#endif

#endif
