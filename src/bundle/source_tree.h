/* Where the running program's source tree and build folder are. They are found from the program's own place, so that a
 * copied tree is its own. */
#ifndef KIGO_BUNDLE_SOURCE_TREE_H
#define KIGO_BUNDLE_SOURCE_TREE_H

/* The running program's path, without links; malloc'ed. */
char *kg_own_path(void);

/* The nearest folder above the program that holds kigo's sources; else the one that it was configured from, if the
 * program still lies in the folder it was built in. NULL: none (an installed kigo). Valid as long as the process; not
 * for threads. */
const char *kg_source_tree(void);

/* The build folder of a suite program (<build>/suites/.../test_x) or of kigo (<build>/kigo). malloc'ed. */
char *kg_build_folder(void);

#endif
