/* Writing a file atomically: it appears at its path only when complete. Until then it has no name (O_TMPFILE), so a
 * killed process leaves nothing behind. File systems without O_TMPFILE get a temporary name in the same folder. */
#ifndef KIGO_BASE_DRAFT_H
#define KIGO_BASE_DRAFT_H

#include <kigo/status.h>

struct kg_draft {
    int fd;          /* open for kg_fd_write; -1 when closed */
    int folder_fd;   /* the folder that it appears in; -1 when closed */
    char *temporary; /* name in the folder while it is written; NULL: none (O_TMPFILE) */
    char *path;      /* final path; its last part is the name in the folder */
};

/* Opens a draft for path. KG_ERR_USAGE if path is a folder, a link, a device or a pipe. */
KG_WARN_UNUSED enum kg_status kg_draft_open(const char *path, struct kg_draft *draft, struct kg_error *err);
/* The same in the folder of the descriptor, which is taken over in any case; path names the file to people. */
KG_WARN_UNUSED enum kg_status kg_draft_open_at(int folder_fd, const char *path, struct kg_draft *draft,
                                               struct kg_error *err);
/* Flushes the draft to disk and renames it to path, replacing an existing file. Closes the draft in any case; removes
 * it on failure. */
KG_WARN_UNUSED enum kg_status kg_draft_publish(struct kg_draft *draft, struct kg_error *err);
/* Closes and removes the draft; does nothing after kg_draft_publish. */
void kg_draft_discard(struct kg_draft *draft);

#endif
