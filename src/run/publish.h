/* The end of a run: its bundle is sealed with the report, published, and entered in the index. */
#ifndef KIGO_RUN_PUBLISH_H
#define KIGO_RUN_PUBLISH_H

#include <kigo/bundle.h>

/* As kg_bundle_seal. The folder is the truth: a bundle that the index cannot take is published all the same, which
 * summary->note says, and `kigo reindex` enters it later. */
KG_WARN_UNUSED enum kg_status kg_run_seal(struct kg_bundle *bundle, struct kg_bundle_summary *summary,
                                          struct kg_error *err);

#endif
