/* Where the running program's source tree is. It is found from the program's own place (places.h), so that a copied
 * tree is its own. */
#ifndef KIGO_BUNDLE_SOURCE_TREE_H
#define KIGO_BUNDLE_SOURCE_TREE_H

/* The nearest folder above the program that holds kigo's sources; else the one that it was configured from, if the
 * program still lies in the folder it was built in. NULL: none; an installed kigo has none, whatever lies around it.
 * Valid as long as the process; not for threads. */
const char *kg_source_tree(void);

/* What holds fixtures/, suites/sprints and the like: the source tree, or share/kigo of an installed kigo, where they
 * have the same paths. NULL: neither. */
const char *kg_tree_or_share(void);

/* Where an installed kigo keeps what it was built from (source_record.h); NULL if it is not installed. */
const char *kg_source_record(void);

#endif
