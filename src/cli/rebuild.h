/* Building the commit that a run names, aside. */
#ifndef KIGO_CLI_REBUILD_H
#define KIGO_CLI_REBUILD_H

#include "base/buffer.h"
#include <jansson.h>

struct kg_rebuild {
    char *dir;     /* temporary; removed by kg_rebuild_free */
    char *program; /* the kigo that was built */
    /* Arguments of the run's configure call that were left out: a bundle may come from a stranger, and what it asks for
     * is run. Taken are --enable-*, --disable-*, --with-cuda, --with-libarchive (yes, no, auto), CC of gcc, clang and
     * ccache, CUDA_ARCHS, and CFLAGS of options that name no file. */
    struct kg_buffer left_out;
};

/* Clones the repository, checks the commit out, configures as the run's build.json says and makes all programs. Prints
 * nothing; what the tools printed is in the *.log files of its folder until it is freed. KG_ERR_NOT_FOUND if the commit
 * is not in the repository; KG_ERR_INCOMPLETE with the tool's message if it cannot be built. KG_ERR_CANCELLED if
 * SIGINT, SIGTERM or SIGHUP came. Free it in any case. */
KG_WARN_UNUSED enum kg_status kg_rebuild(const char *repository, const char *commit, const json_t *build,
                                         struct kg_rebuild *rebuild, struct kg_error *err);
void kg_rebuild_free(struct kg_rebuild *rebuild);

/* Splits a configure line as the shell would, single quotes only: arguments into *args (malloc'ed, ended by NULL, as is
 * each), those that are not taken into *left_out. */
char **kg_rebuild_args(const char *configure, struct kg_buffer *left_out);

#endif
