/* When a signature was made, by a clock that is not its maker's: an RFC 3161 time stamp over
 * tagmanifest-sha256.txt.sig, in tagmanifest-sha256.txt.sig.tsr (a TimeStampResp in DER). `openssl ts` makes the
 * request and checks the answer; curl carries them. */
#ifndef KIGO_BUNDLE_TIMESTAMP_H
#define KIGO_BUNDLE_TIMESTAMP_H

#include "bundle/sign.h"

#define KG_TIMESTAMP_FILE "tagmanifest-sha256.txt.sig.tsr"

/* Asks the time-stamping authority at `url` (NULL or "": nothing is done) about the bundle's signature, and keeps its
 * answer. KG_ERR_NOT_FOUND without openssl or curl; KG_ERR_IO with their message. */
KG_WARN_UNUSED enum kg_status kg_timestamp_put(const char *dir, const char *url, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_timestamp_remove(const char *dir, struct kg_error *err);

/* Sets signature->stamped_us if there is a time stamp and `ca` (certificates in PEM; NULL: none are trusted) vouches
 * for it. One that is over something else or leads to no such certificate makes the signature bad. */
KG_WARN_UNUSED enum kg_status kg_timestamp_check(const char *dir, const char *ca, struct kg_signature *signature,
                                                 struct kg_error *err);

#endif
