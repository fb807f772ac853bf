#include "bundle/source_commit.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/git.h"
#include "bundle/source_content.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_LISTING_BYTES = 16 << 20, MAX_SOURCE_BYTES = 1 << 30 };

struct blob {
    const char *path; /* from the tree's top; in the listing's text */
    char id[KG_SHA256_HEX_SIZE];
};

struct sources {
    struct kg_buffer listing; /* git ls-tree -r -z: "<mode> <type> <id>\t<path>\0" */
    struct blob *blobs;
    size_t n_blobs;
};

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct blob *)a)->path, ((const struct blob *)b)->path);
}

/* Regular files that count; a link or a submodule is none, in the folder's hash as well. */
static enum kg_status list_blobs(const char *repository, const char *commit, struct sources *s, struct kg_error *err) {
    const char *const args[] = { "ls-tree", "-r", "-z", commit, "--", "kernels", "src", "suites", NULL };
    bool cut = false;
    struct kg_error why;
    if (kg_git(repository, args, MAX_LISTING_BYTES, &s->listing, &cut, &why) != KG_OK)
        return kg_fail(err, KG_ERR_NOT_FOUND, "commit %s is not in the repository %s (%s)", commit, repository,
                       why.message);
    for (size_t at = 0; at < s->listing.len && !cut;) {
        const char *line = s->listing.data + at, *tab = strchr(line, '\t');
        at += strlen(line) + 1;
        const char *inside = tab ? strchr(tab + 1, '/') : NULL;
        struct blob blob = { .path = tab ? tab + 1 : "" };
        if (strncmp(line, "100", 3) != 0 || !inside || !kg_source_counts(inside + 1)) continue;
        if (sscanf(line, "%*s blob %64[0-9a-f]", blob.id) != 1) continue;
        s->blobs = kg_xrealloc(s->blobs, (s->n_blobs + 1) * sizeof *s->blobs);
        s->blobs[s->n_blobs++] = blob;
    }
    if (cut || s->n_blobs == 0)
        return kg_fail(err, KG_ERR_FORMAT, "commit %s in %s has no sources that can be listed", commit, repository);
    qsort(s->blobs, s->n_blobs, sizeof *s->blobs, by_path);
    return KG_OK;
}

/* The contents one after another, "<id> blob <size>\n<bytes>\n" each. */
static enum kg_status read_blobs(const char *repository, const struct sources *s, struct kg_buffer *contents,
                                 struct kg_error *err) {
    const char *const args[] = { "cat-file", "--batch", NULL };
    struct kg_buffer ids = KG_BUFFER_INIT;
    bool cut = false;
    for (size_t i = 0; i < s->n_blobs; i++) kg_buffer_printf(&ids, "%s\n", s->blobs[i].id);
    const int fd = memfd_create("ids", MFD_CLOEXEC);
    enum kg_status status = fd >= 0 ? kg_fd_write(fd, ids.data, ids.len, err)
                                    : kg_fail(err, KG_ERR_IO, "no memory for a list of files: %s", strerror(errno));
    if (status == KG_OK) {
        char *path = kg_xasprintf("/proc/self/fd/%d", fd); /* opened anew, from its beginning */
        status = kg_git_input(repository, args, path, MAX_SOURCE_BYTES, contents, &cut, err);
        free(path);
    }
    if (status == KG_OK && cut) status = kg_fail(err, KG_ERR_FORMAT, "the sources are larger than 1 GiB");
    if (fd >= 0) close(fd);
    kg_buffer_free(&ids);
    return status;
}

static enum kg_status hash_blobs(const struct sources *s, const struct kg_buffer *contents,
                                 char sha256[KG_SHA256_HEX_SIZE], struct kg_error *err) {
    struct kg_buffer lines = KG_BUFFER_INIT;
    size_t at = 0;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < s->n_blobs && status == KG_OK; i++) {
        unsigned long long size = 0;
        const char *head = kg_buffer_text(contents) + at, *newline = memchr(head, '\n', contents->len - at);
        const bool good = newline && sscanf(head, "%*64[0-9a-f] blob %llu\n", &size) == 1 &&
                          size < contents->len - (size_t)(newline + 1 - kg_buffer_text(contents));
        if (!good) {
            status = kg_fail(err, KG_ERR_FORMAT, "git cat-file does not give %s", s->blobs[i].path);
            break;
        }
        char hex[KG_SHA256_HEX_SIZE];
        kg_sha256_hex(newline + 1, size, hex);
        kg_buffer_printf(&lines, "%s  %s\n", hex, s->blobs[i].path);
        at = (size_t)(newline + 1 - contents->data) + size + 1;
    }
    if (status == KG_OK) kg_sha256_hex(kg_buffer_text(&lines), lines.len, sha256);
    kg_buffer_free(&lines);
    return status;
}

enum kg_status kg_source_of_commit(const char *repository, const char *commit, char sha256[KG_SHA256_HEX_SIZE],
                                   struct kg_error *err) {
    struct sources s = { 0 };
    struct kg_buffer contents = KG_BUFFER_INIT;
    enum kg_status status = KG_OK;
    if (strspn(commit, "0123456789abcdef") != strlen(commit) || strlen(commit) < 40) /* no option, no revision syntax */
        status = kg_fail(err, KG_ERR_FORMAT, "'%.80s' is no commit's id", commit);
    if (status == KG_OK) status = list_blobs(repository, commit, &s, err);
    if (status == KG_OK) status = read_blobs(repository, &s, &contents, err);
    if (status == KG_OK) status = hash_blobs(&s, &contents, sha256, err);
    kg_buffer_free(&contents);
    kg_buffer_free(&s.listing);
    free(s.blobs);
    return status;
}
