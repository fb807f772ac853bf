/* What the verbs share by which somebody answers for something: signatures, and names. */
#ifndef KIGO_CLI_TRUST_H
#define KIGO_CLI_TRUST_H

#include "base/buffer.h"
#include "base/options.h"
#include "bundle/policy.h"
#include <jansson.h>

#define KG_ALLOWED_SIGNERS_OPTION(variable)                                                                            \
    {                                                                                                                  \
        .name = "allowed-signers", .kind = KG_OPTION_TEXT, .value = (variable), .metavar = "FILE",                     \
        .help = "whose signatures count ($KIGO_ALLOWED_SIGNERS or allowed_signers in the folder of bundles)"           \
    }

#define KG_SIGN_OPTION(variable)                                                                                       \
    {                                                                                                                  \
        .name = "sign", .kind = KG_OPTION_TEXT, .value = (variable), .metavar = "FILE",                                \
        .help = "sign the bundle with this SSH key"                                                                    \
    }

#define KG_AUTHOR_OPTION(variable)                                                                                     \
    {                                                                                                                  \
        .name = "author", .kind = KG_OPTION_TEXT, .value = (variable), .metavar = "NAME",                              \
        .help = "who says so ($KIGO_AUTHOR or the user's name)"                                                        \
    }

/* The name given, or $KIGO_AUTHOR, or the user's, or "unknown". */
const char *kg_cli_author(const char *given);

/* The absolute path of a key that can sign, NULL for none given; malloc'ed. KG_ERR_USAGE saying why it cannot. */
KG_WARN_UNUSED enum kg_status kg_cli_sign_key(const char *given, char **key, struct kg_error *err);

/* {"state", "signer", "key", "why"}, members that say nothing left out. */
json_t *kg_cli_signature_json(const struct kg_signature *signature);
/* The same for people: "signed by ci@example.org (ED25519 key SHA256:...)". */
void kg_cli_signature_text(const struct kg_signature *signature, struct kg_buffer *out);

#endif
