#include "bundle/built_from.h"

const char *kg_built_from(void) {
    return
#include "src/bundle/built_from.inc" /* build-aux/built-from writes it */
        ;
}
