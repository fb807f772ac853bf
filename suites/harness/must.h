/* Calls that a case needs and does not test. */
#ifndef KIGO_SUITES_MUST_H
#define KIGO_SUITES_MUST_H

#include <kigo/status.h>

/* Fails the case with the error's message unless status is good. */
void kg_must(enum kg_status status, const struct kg_error *err);

/* Fails the case unless status is `want` and the message holds every one of the texts; NULL ends them. */
void kg_must_fail_naming(enum kg_status status, enum kg_status want, const struct kg_error *err,
                         const char *const *texts);
#define kg_must_fail(status, want, err, ...)                                                                           \
    kg_must_fail_naming((status), (want), (err), (const char *const[]){ __VA_ARGS__ })

#endif
