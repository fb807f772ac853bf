/* libpq, loaded when a fleet is first asked for. Linked, it and the 20 libraries that it brings (GSSAPI, LDAP, ...)
 * would double the time in which every verb starts: 16 ms instead of 8. */
#ifndef KIGO_FLEET_LIBPQ_H
#define KIGO_FLEET_LIBPQ_H

#include <kigo/status.h>
#include <libpq-fe.h>

#define KG_LIBPQ_LIST(X)                                                                                               \
    X(cancel)                                                                                                          \
    X(clear)                                                                                                           \
    X(cmdTuples)                                                                                                       \
    X(conninfoFree)                                                                                                    \
    X(conninfoParse)                                                                                                   \
    X(connectdbParams)                                                                                                 \
    X(consumeInput)                                                                                                    \
    X(errorMessage)                                                                                                    \
    X(exec)                                                                                                            \
    X(execParams)                                                                                                      \
    X(finish)                                                                                                          \
    X(fname)                                                                                                           \
    X(freeCancel)                                                                                                      \
    X(freemem)                                                                                                         \
    X(ftype)                                                                                                           \
    X(getCancel)                                                                                                       \
    X(getResult)                                                                                                       \
    X(getisnull)                                                                                                       \
    X(getlength)                                                                                                       \
    X(getvalue)                                                                                                        \
    X(isBusy)                                                                                                          \
    X(nfields)                                                                                                         \
    X(ntuples)                                                                                                         \
    X(resultErrorField)                                                                                                \
    X(resultStatus)                                                                                                    \
    X(sendQueryParams)                                                                                                 \
    X(setNoticeProcessor)                                                                                              \
    X(setSingleRowMode)                                                                                                \
    X(socket)                                                                                                          \
    X(status)

/* pq->exec is PQexec, and so on. */
struct kg_libpq {
#define KG_LIBPQ_MEMBER(name) __typeof__(&PQ##name) name;
    KG_LIBPQ_LIST(KG_LIBPQ_MEMBER)
#undef KG_LIBPQ_MEMBER
};

/* NULL if the machine has no libpq: kg_fleet_missing says so. */
const struct kg_libpq *kg_libpq(void);

#endif
