/* Who vouches for a bundle: an SSH signature (the file format of ssh-keygen -Y, armored) over tagmanifest-sha256.txt,
 * which covers every other file. Signing and checking are ssh-keygen's, as git does it; keys and lists of allowed
 * signers are in its formats (ssh-keygen(1), ALLOWED SIGNERS). */
#ifndef KIGO_BUNDLE_SIGN_H
#define KIGO_BUNDLE_SIGN_H

#include "base/buffer.h"
#include <kigo/bundle.h>
#include <stdbool.h>
#include <stdint.h>

/* What a signature is for enters what is signed: one made for another purpose does not count. */
#define KG_SIGN_BUNDLE "kigo-bundle"
#define KG_SIGN_SIGNOFF "kigo-signoff"
#define KG_SIGN_LEFT_OUT "kigo-left-out"
#define KG_SIGN_TOMBSTONE "kigo-tombstone"
#define KG_SIGN_ANNOTATION "kigo-annotation"
#define KG_SIGN_CHECKPOINT "kigo-checkpoint"

/* Label of bag-info.txt: "required" of a run that was to be signed, so that one without its signature shows. */
#define KG_SIGNATURE_LABEL "Kigo-Signature"

/* Files that say whose keys count; each may be NULL. */
struct kg_trust {
    const char *allowed_signers; /* NULL: nobody is trusted or distrusted */
    const char *revoked_keys;    /* a KRL or a list of public keys (ssh-keygen -k): of no use without allowed_signers */
    const char *timestamp_ca;    /* certificates that a time stamp must lead to (timestamp.h) */
};

/* Appends the armored signature over a file. KG_ERR_USAGE with ssh-keygen's message if the key cannot sign. */
KG_WARN_UNUSED enum kg_status kg_sign_file(const char *key, const char *purpose, const char *path,
                                           struct kg_buffer *signature, struct kg_error *err);
/* Whether the key can sign at all, before anything depends on it. */
KG_WARN_UNUSED enum kg_status kg_sign_try(const char *key, struct kg_error *err);
/* Writes <path>.sig, the signature over the file. */
KG_WARN_UNUSED enum kg_status kg_sign_beside(const char *key, const char *purpose, const char *path,
                                             struct kg_error *err);

/* Writes the signature of a bundle, which must verify: KG_ERR_INTEGRITY otherwise, KG_ERR_EXISTS if it is signed and
 * may not be again. The signature appears whole or not at all. */
KG_WARN_UNUSED enum kg_status kg_bundle_sign(const char *dir, const char *key, bool again, struct kg_error *err);
/* The same without looking at the bundle first, for the run that has just made it. */
KG_WARN_UNUSED enum kg_status kg_bundle_put_signature(const char *dir, const char *key, struct kg_error *err);

enum kg_signature_state {
    KG_SIGNATURE_NONE,      /* not signed */
    KG_SIGNATURE_INTACT,    /* by the key it names; nobody said whose keys count */
    KG_SIGNATURE_GOOD,      /* by an allowed signer */
    KG_SIGNATURE_UNPROVEN,  /* by an allowed signer whose key has run out; that it was made before is not proven */
    KG_SIGNATURE_UNTRUSTED, /* intact, but by no allowed signer, or by a revoked key */
    KG_SIGNATURE_UNCHECKED, /* there is no ssh-keygen here, and nobody said whose keys count */
    KG_SIGNATURE_BAD,       /* not over this tag manifest, not for this purpose, or no signature at all */
};
/* "unsigned", "intact", "good", "unproven", "untrusted", "unchecked", "bad". */
const char *kg_signature_state_name(enum kg_signature_state state);

struct kg_signature {
    enum kg_signature_state state;
    char signer[256];   /* as the list of allowed signers names it; "" unless good or unproven */
    int64_t stamped_us; /* the second that a time stamp proves; 0: the time is not proven */
    char key[128];      /* type and fingerprint; "" unless intact */
    char why[512];      /* ssh-keygen's message where the state is unproven, untrusted or bad */
};

/* Whether the bundle says that it was to be signed (KG_SIGNATURE_LABEL). */
bool kg_signature_was_required(const char *dir);
/* Whether a signature speaks against what it is over: bad, or untrusted. */
bool kg_signature_is_wrong(const struct kg_signature *signature);

/* Checks the signature of <dir>/tagmanifest-sha256.txt; trust NULL: no files. A key's time limits are judged at the
 * second of its time stamp. Without one, the key must be good at the bundle's own time of sealing, which its maker
 * wrote, and at the present time; a key that has run out between them is `unproven`. KG_ERR_NOT_FOUND without a file
 * that is named, or with allowed_signers and without ssh-keygen. */
KG_WARN_UNUSED enum kg_status kg_signature_check(const char *dir, const struct kg_trust *trust,
                                                 struct kg_signature *signature, struct kg_error *err);
/* The same of <path> by <path>.sig, for another purpose; a key's time limits are judged at the present time. */
KG_WARN_UNUSED enum kg_status kg_signature_check_file(const char *path, const char *purpose,
                                                      const struct kg_trust *trust, struct kg_signature *signature,
                                                      struct kg_error *err);

#endif
