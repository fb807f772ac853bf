/* SHA-256 by OpenSSL's low-level functions, which newer headers call deprecated: the first digest by EVP finds its
 * provider and reads the machine's openssl.cnf, 1.7 ms of every start of kigo, and each one allocates. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/hash.h"
#include "base/buffer.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kg_sha256 {
    SHA256_CTX ctx;
};

/* EVP fails here only if memory runs out, SHA256_ never. */
static void must(int good) {
    if (!good) kg_memory_exhausted(0);
}

static void put_hex(const unsigned char *digest, size_t size_bytes, char *hex) {
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < size_bytes; i++) {
        *hex++ = DIGITS[digest[i] >> 4];
        *hex++ = DIGITS[digest[i] & 15];
    }
    *hex = '\0';
}

static void update(void *h, const void *data, size_t size_bytes) {
    must(SHA256_Update(h, data, size_bytes));
}

static void update_evp(void *h, const void *data, size_t size_bytes) {
    must(EVP_DigestUpdate(h, data, size_bytes));
}

static void finish(SHA256_CTX *ctx, char hex[KG_SHA256_HEX_SIZE]) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    must(SHA256_Final(digest, ctx));
    put_hex(digest, sizeof digest, hex);
}

struct kg_sha256 *kg_sha256_new(void) {
    struct kg_sha256 *h = kg_xmalloc(sizeof *h);
    must(SHA256_Init(&h->ctx));
    return h;
}

void kg_sha256_update(struct kg_sha256 *h, const void *data, size_t size_bytes) {
    update(&h->ctx, data, size_bytes);
}

void kg_sha256_finish(struct kg_sha256 *h, char hex[KG_SHA256_HEX_SIZE]) {
    finish(&h->ctx, hex);
    free(h);
}

void kg_sha256_hex(const void *data, size_t size_bytes, char hex[KG_SHA256_HEX_SIZE]) {
    SHA256_CTX ctx;
    must(SHA256_Init(&ctx));
    update(&ctx, data, size_bytes);
    finish(&ctx, hex);
}

/* All that is left of the file, in blocks. */
static enum kg_status read_into(int fd, const char *name, void (*take)(void *h, const void *data, size_t size_bytes),
                                void *h, struct kg_error *err) {
    char block[1 << 16];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) take(h, block, (size_t)n);
    return n < 0 ? kg_fail(err, KG_ERR_IO, "cannot read %s: %s", name, strerror(errno)) : KG_OK;
}

enum kg_status kg_digest_fd(int fd, const char *name, const char *algorithm, char hex[KG_DIGEST_HEX_SIZE],
                            struct kg_error *err) {
    const EVP_MD *md = EVP_get_digestbyname(algorithm);
    if (!md) return kg_fail(err, KG_ERR_UNSUPPORTED, "there is no digest '%.40s'", algorithm);
    kg_memory_note_file(name);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(ctx != NULL);
    must(EVP_DigestInit_ex(ctx, md, NULL));
    const enum kg_status status = read_into(fd, name, update_evp, ctx, err);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    must(EVP_DigestFinal_ex(ctx, digest, &size));
    EVP_MD_CTX_free(ctx);
    put_hex(digest, size, hex);
    return status;
}

enum kg_status kg_sha256_fd(int fd, const char *name, char hex[KG_SHA256_HEX_SIZE], struct kg_error *err) {
    SHA256_CTX ctx;
    kg_memory_note_file(name);
    must(SHA256_Init(&ctx));
    const enum kg_status status = read_into(fd, name, update, &ctx, err);
    finish(&ctx, hex);
    return status;
}

enum kg_status kg_sha256_file(const char *path, char hex[KG_SHA256_HEX_SIZE], struct kg_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kg_fail(err, errno == ENOENT ? KG_ERR_NOT_FOUND : KG_ERR_IO, "cannot open %s: %s", path,
                       strerror(errno));
    const enum kg_status status = kg_sha256_fd(fd, path, hex, err);
    close(fd);
    return status;
}
