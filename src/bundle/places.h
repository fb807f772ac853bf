/* Where kigo's parts are: in a build folder, or installed. They are found from the running program's own place, so that
 * a copied build or a moved installation is its own. */
#ifndef KIGO_BUNDLE_PLACES_H
#define KIGO_BUNDLE_PLACES_H

#include <stdbool.h>

struct kg_places {
    bool installed;
    char *suites; /* the folder of the suite programs */
    char *kigo;   /* the program */
    char *made;   /* the folder whose fixtures/ make filled: the build folder, or share/kigo */
};

/* The running program's path, without links; malloc'ed. */
char *kg_own_path(void);

/* Of the running program, kigo or a suite program. Valid as long as the process; not for threads. */
const struct kg_places *kg_places(void);

/* The same for any program's path, which need not exist; free it by kg_places_free. */
struct kg_places kg_places_of(const char *path);
void kg_places_free(struct kg_places *places);

#endif
