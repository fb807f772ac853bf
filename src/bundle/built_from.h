/* Which sources this program was linked from. kigo and every suite program carry it, so that yesterday's program cannot
 * pass for today's tree. */
#ifndef KIGO_BUNDLE_BUILT_FROM_H
#define KIGO_BUNDLE_BUILT_FROM_H

/* kg_source_content (source_content.h) of the tree when it was built, in lower-case hexadecimal digits. */
const char *kg_built_from(void);

#endif
