#include "base/hash.h"
#include "base/buffer.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* EVP fails here only if memory runs out. */
static void must(int good) {
    if (!good) kg_memory_exhausted(0);
}

struct kg_sha256 *kg_sha256_new(void) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(ctx != NULL);
    must(EVP_DigestInit_ex(ctx, EVP_sha256(), NULL));
    return (struct kg_sha256 *)ctx;
}

void kg_sha256_update(struct kg_sha256 *h, const void *data, size_t size_bytes) {
    must(EVP_DigestUpdate((EVP_MD_CTX *)h, data, size_bytes));
}

/* The digest as text; frees ctx. */
static void finish(EVP_MD_CTX *ctx, char *hex) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    must(EVP_DigestFinal_ex(ctx, digest, &size));
    EVP_MD_CTX_free(ctx);
    for (unsigned int i = 0; i < size; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void kg_sha256_finish(struct kg_sha256 *h, char hex[KG_SHA256_HEX_SIZE]) {
    finish((EVP_MD_CTX *)h, hex);
}

void kg_sha256_hex(const void *data, size_t size_bytes, char hex[KG_SHA256_HEX_SIZE]) {
    struct kg_sha256 *h = kg_sha256_new();
    kg_sha256_update(h, data, size_bytes);
    kg_sha256_finish(h, hex);
}

enum kg_status kg_digest_fd(int fd, const char *name, const char *algorithm, char hex[KG_DIGEST_HEX_SIZE],
                            struct kg_error *err) {
    /* Finding one by its name allocates, and NULL is no memory as well as no such digest. */
    const EVP_MD *md = strcmp(algorithm, "SHA256") == 0 ? EVP_sha256() : EVP_get_digestbyname(algorithm);
    if (!md) return kg_fail(err, KG_ERR_UNSUPPORTED, "there is no digest '%.40s'", algorithm);
    kg_memory_note_file(name);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(ctx != NULL);
    must(EVP_DigestInit_ex(ctx, md, NULL));
    char block[1 << 16];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) must(EVP_DigestUpdate(ctx, block, (size_t)n));
    const int code = errno;
    finish(ctx, hex);
    return n < 0 ? kg_fail(err, KG_ERR_IO, "cannot read %s: %s", name, strerror(code)) : KG_OK;
}

enum kg_status kg_sha256_fd(int fd, const char *name, char hex[KG_SHA256_HEX_SIZE], struct kg_error *err) {
    char digest[KG_DIGEST_HEX_SIZE] = "";
    const enum kg_status status = kg_digest_fd(fd, name, "SHA256", digest, err);
    memcpy(hex, digest, KG_SHA256_HEX_SIZE);
    hex[KG_SHA256_HEX_SIZE - 1] = '\0';
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
