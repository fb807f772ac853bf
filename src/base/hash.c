#include "base/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* EVP fails here only if memory runs out, which aborts the process as in kg_xmalloc. */
static void must(int good) {
    if (good) return;
    fputs("kigo: out of memory in SHA-256\n", stderr);
    abort();
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

void kg_sha256_finish(struct kg_sha256 *h, char hex[KG_SHA256_HEX_SIZE]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    must(EVP_DigestFinal_ex((EVP_MD_CTX *)h, digest, &size));
    EVP_MD_CTX_free((EVP_MD_CTX *)h);
    for (unsigned int i = 0; i < size; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void kg_sha256_hex(const void *data, size_t size_bytes, char hex[KG_SHA256_HEX_SIZE]) {
    struct kg_sha256 *h = kg_sha256_new();
    kg_sha256_update(h, data, size_bytes);
    kg_sha256_finish(h, hex);
}

enum kg_status kg_sha256_file(const char *path, char hex[KG_SHA256_HEX_SIZE], struct kg_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kg_fail(err, errno == ENOENT ? KG_ERR_NOT_FOUND : KG_ERR_IO, "cannot open %s: %s", path,
                       strerror(errno));
    struct kg_sha256 *h = kg_sha256_new();
    char block[1 << 16];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) kg_sha256_update(h, block, (size_t)n);
    const int code = errno;
    close(fd);
    kg_sha256_finish(h, hex);
    return n < 0 ? kg_fail(err, KG_ERR_IO, "cannot read %s: %s", path, strerror(code)) : KG_OK;
}
