/* SHA-256 (FIPS 180-4) by OpenSSL. */
#ifndef KIGO_BASE_HASH_H
#define KIGO_BASE_HASH_H

#include <kigo/status.h>
#include <stddef.h>

enum { KG_SHA256_HEX_SIZE = 65 }; /* in bytes, with the NUL */

struct kg_sha256;

struct kg_sha256 *kg_sha256_new(void);
void kg_sha256_update(struct kg_sha256 *h, const void *data, size_t size_bytes);
/* Writes 64 lower-case hexadecimal digits and a NUL, and frees h. */
void kg_sha256_finish(struct kg_sha256 *h, char hex[KG_SHA256_HEX_SIZE]);

void kg_sha256_hex(const void *data, size_t size_bytes, char hex[KG_SHA256_HEX_SIZE]);
KG_WARN_UNUSED enum kg_status kg_sha256_file(const char *path, char hex[KG_SHA256_HEX_SIZE], struct kg_error *err);

#endif
