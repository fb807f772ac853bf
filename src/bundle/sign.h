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

/* Appends the armored signature over a file. KG_ERR_USAGE with ssh-keygen's message if the key cannot sign. */
KG_WARN_UNUSED enum kg_status kg_sign_file(const char *key, const char *purpose, const char *path,
                                           struct kg_buffer *signature, struct kg_error *err);
/* Whether the key can sign at all, before anything depends on it. */
KG_WARN_UNUSED enum kg_status kg_sign_try(const char *key, struct kg_error *err);

/* Writes the signature of a bundle, which must verify: KG_ERR_INTEGRITY otherwise, KG_ERR_EXISTS if it is signed and
 * may not be again. The signature appears whole or not at all. */
KG_WARN_UNUSED enum kg_status kg_bundle_sign(const char *dir, const char *key, bool again, struct kg_error *err);
/* The same without looking at the bundle first, for the run that has just made it. */
KG_WARN_UNUSED enum kg_status kg_bundle_put_signature(const char *dir, const char *key, struct kg_error *err);

enum kg_signature_state {
    KG_SIGNATURE_NONE,      /* not signed */
    KG_SIGNATURE_INTACT,    /* by the key it names; nobody said whose keys count */
    KG_SIGNATURE_GOOD,      /* by an allowed signer */
    KG_SIGNATURE_UNTRUSTED, /* intact, but by no allowed signer */
    KG_SIGNATURE_UNCHECKED, /* there is no ssh-keygen here, and nobody said whose keys count */
    KG_SIGNATURE_BAD,       /* not over this tag manifest, not for this purpose, or no signature at all */
};
/* "unsigned", "intact", "good", "untrusted", "unchecked", "bad". */
const char *kg_signature_state_name(enum kg_signature_state state);

struct kg_signature {
    enum kg_signature_state state;
    char signer[256]; /* as the list of allowed signers names it; "" unless good */
    char key[128];    /* type and fingerprint; "" unless intact */
    char why[512];    /* ssh-keygen's message where the state is untrusted or bad */
};

/* Checks the signature of <dir>/tagmanifest-sha256.txt. allowed_signers NULL: nobody is trusted or distrusted. A key's
 * time limits hold for the moment of sealing. KG_ERR_NOT_FOUND without that file, or with it and without ssh-keygen. */
KG_WARN_UNUSED enum kg_status kg_signature_check(const char *dir, const char *allowed_signers,
                                                 struct kg_signature *signature, struct kg_error *err);
/* The same of <path> by <path>.sig, for another purpose; a key's time limits are judged at the present time. */
KG_WARN_UNUSED enum kg_status kg_signature_check_file(const char *path, const char *purpose,
                                                      const char *allowed_signers, struct kg_signature *signature,
                                                      struct kg_error *err);

#endif
