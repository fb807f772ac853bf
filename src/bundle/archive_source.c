#include "bundle/archive_source.h"
#include "base/buffer.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

/* kigo writes windows of 8 MiB (level 19). */
enum { WINDOW_LOG_MAX = 25, BLOCK_BYTES = 1 << 16 };

struct kg_archive_source {
    int fd;
    ZSTD_DCtx *context; /* NULL: the bytes are no frame */
    bool begun, inside; /* a byte was read; a frame is under way */
    ZSTD_inBuffer in;
    char input[BLOCK_BYTES], output[BLOCK_BYTES];
};

enum kg_status kg_archive_source_open(const char *path, struct kg_archive_source **out, struct kg_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return kg_fail(err, KG_ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    struct kg_archive_source *source = kg_xcalloc(1, sizeof *source);
    source->fd = fd;
    source->in.src = source->input;
    *out = source;
    return KG_OK;
}

void kg_archive_source_close(struct kg_archive_source *source) {
    if (!source) return;
    ZSTD_freeDCtx(source->context);
    close(source->fd);
    free(source);
}

static la_ssize_t refill(struct archive *archive, struct kg_archive_source *s) {
    ssize_t n;
    do n = read(s->fd, s->input, sizeof s->input);
    while (n < 0 && errno == EINTR);
    if (n < 0) kg_libarchive()->set_error(archive, errno, "cannot read: %s", strerror(errno));
    s->in.size = n > 0 ? (size_t)n : 0;
    s->in.pos = 0;
    return n;
}

/* Frames begin with 0xFD2FB528, little-endian (RFC 8878, 3.1.1). */
static bool begin_frames(struct kg_archive_source *s) {
    static const unsigned char MAGIC[] = { 0x28, 0xB5, 0x2F, 0xFD };
    if (s->in.size < sizeof MAGIC || memcmp(s->input, MAGIC, sizeof MAGIC) != 0) return true;
    s->context = ZSTD_createDCtx();
    return s->context && !ZSTD_isError(ZSTD_DCtx_setParameter(s->context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX));
}

/* Whether a frame of RFC 8878 begins here, or one to skip, by its first byte: libzstd as distributions build it reads
 * formats of before version 0.8 as well, whose decoders know no limit of the window. */
static bool begins_frame(const struct kg_archive_source *s) {
    enum { FRAME = 0x28, SKIPPED = 0x50 };
    const unsigned char first = (unsigned char)s->input[s->in.pos];
    return first == FRAME || (first & 0xF0) == SKIPPED;
}

static la_ssize_t expand(struct archive *archive, struct kg_archive_source *s) {
    for (;;) {
        ZSTD_outBuffer out = { s->output, sizeof s->output, 0 };
        if (s->in.pos == s->in.size) {
            const la_ssize_t n = refill(archive, s);
            if (n < 0) return n;
            if (n == 0 && !s->inside) return 0;
            if (n == 0) {
                /* what the last input expands to may be waiting still */
                const size_t left = ZSTD_decompressStream(s->context, &out, &s->in);
                s->inside = ZSTD_isError(left) || left > 0;
                if (!ZSTD_isError(left) && out.pos > 0) return (la_ssize_t)out.pos;
                kg_libarchive()->set_error(archive, EILSEQ, "ends inside of a Zstandard frame");
                return -1;
            }
        }
        if (!s->inside && !begins_frame(s)) {
            kg_libarchive()->set_error(archive, EILSEQ, "what follows is no Zstandard frame");
            return -1;
        }
        const size_t left = ZSTD_decompressStream(s->context, &out, &s->in);
        if (ZSTD_isError(left)) {
            const bool lacks_memory = ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation;
            kg_libarchive()->set_error(archive, lacks_memory ? ENOMEM : EILSEQ, "Zstandard: %s",
                                       ZSTD_getErrorName(left));
            return -1;
        }
        s->inside = left > 0;
        if (out.pos > 0) return (la_ssize_t)out.pos;
    }
}

la_ssize_t kg_archive_source_read(struct archive *archive, void *source, const void **block) {
    struct kg_archive_source *s = source;
    if (!s->begun) {
        const la_ssize_t n = refill(archive, s);
        s->begun = true;
        if (n < 0) return n;
        if (!begin_frames(s)) {
            kg_libarchive()->set_error(archive, ENOMEM, "no memory to expand it");
            return -1;
        }
        if (!s->context) return *block = s->input, n;
    }
    *block = s->context ? s->output : s->input;
    return s->context ? expand(archive, s) : refill(archive, s);
}
