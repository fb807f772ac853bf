/* A file in the making, which takes its place only when complete. Until then it has no name, so that a process that is
 * killed leaves nothing; on file systems without such files (O_TMPFILE), a temporary name beside its place. */
#ifndef KIGO_BASE_DRAFT_H
#define KIGO_BASE_DRAFT_H

#include <kigo/status.h>

struct kg_draft {
    int fd;          /* to write to, by kg_fd_write; -1 when closed */
    char *temporary; /* path while it is written; NULL: it has none */
    char *path;      /* path it is for */
};

/* KG_ERR_USAGE where path is a folder, a device or a pipe. */
KG_WARN_UNUSED enum kg_status kg_draft_open(const char *path, struct kg_draft *draft, struct kg_error *err);
/* Flushes to disk and renames to path, replacing what is there; the draft is closed either way, and removed on failure.
 */
KG_WARN_UNUSED enum kg_status kg_draft_publish(struct kg_draft *draft, struct kg_error *err);
/* Removes it; does nothing after kg_draft_publish. */
void kg_draft_discard(struct kg_draft *draft);

#endif
