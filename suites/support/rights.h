/* What root may, taken away for a moment. */
#ifndef KIGO_SUITES_RIGHTS_H
#define KIGO_SUITES_RIGHTS_H

#include <stdbool.h>

/* Root may read what no one may: this process goes without that right, or takes it back. Others never have it. */
void kg_rights_read_all(bool may);

#endif
