/* libedit, loaded when a person first types at a prompt (base/late_library.h). */
#ifndef KIGO_CLI_LIBEDIT_H
#define KIGO_CLI_LIBEDIT_H

#include <histedit.h>

#define KG_LIBEDIT_LIST(X)                                                                                             \
    X(el_end)                                                                                                          \
    X(el_get)                                                                                                          \
    X(el_gets)                                                                                                         \
    X(el_init)                                                                                                         \
    X(el_set)                                                                                                          \
    X(el_source)                                                                                                       \
    X(history)                                                                                                         \
    X(history_end)                                                                                                     \
    X(history_init)

struct kg_libedit {
#define KG_LIBEDIT_MEMBER(name) __typeof__(&(name)) name;
    KG_LIBEDIT_LIST(KG_LIBEDIT_MEMBER)
#undef KG_LIBEDIT_MEMBER
};

/* NULL if the machine does not have it. */
const struct kg_libedit *kg_libedit(void);

#endif
