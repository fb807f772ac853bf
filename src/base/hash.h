/* SHA-256 (FIPS 180-4) and other digests by OpenSSL. */
#ifndef KIGO_BASE_HASH_H
#define KIGO_BASE_HASH_H

#include <kigo/status.h>
#include <stddef.h>

enum { KG_SHA256_HEX_SIZE = 65, KG_DIGEST_HEX_SIZE = 129 }; /* in bytes, with the NUL; of any digest */

struct kg_sha256;

struct kg_sha256 *kg_sha256_new(void);
void kg_sha256_update(struct kg_sha256 *h, const void *data, size_t size_bytes);
/* Writes 64 lower-case hexadecimal digits and a NUL, and frees h. */
void kg_sha256_finish(struct kg_sha256 *h, char hex[KG_SHA256_HEX_SIZE]);

void kg_sha256_hex(const void *data, size_t size_bytes, char hex[KG_SHA256_HEX_SIZE]);
KG_WARN_UNUSED enum kg_status kg_sha256_file(const char *path, char hex[KG_SHA256_HEX_SIZE], struct kg_error *err);
/* From where the descriptor is to the file's end; `name` is for the message. */
KG_WARN_UNUSED enum kg_status kg_sha256_fd(int fd, const char *name, char hex[KG_SHA256_HEX_SIZE],
                                           struct kg_error *err);
/* The same by the digest that OpenSSL knows under that name ("md5", "sha512"); KG_ERR_UNSUPPORTED if it knows none. */
KG_WARN_UNUSED enum kg_status kg_digest_fd(int fd, const char *name, const char *algorithm,
                                           char hex[KG_DIGEST_HEX_SIZE], struct kg_error *err);

#endif
