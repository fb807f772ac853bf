#include "cli/trust.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/say.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *kg_cli_author(const char *given) {
    static const char *const NAMES[] = { "KIGO_AUTHOR", "USER", "LOGNAME" };
    if (given) return given;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const char *name = getenv(NAMES[i]);
        if (name && *name) return name;
    }
    return "unknown";
}

enum kg_status kg_cli_sign_key(const char *given, char **key, struct kg_error *err) {
    *key = NULL;
    if (!given) return KG_OK;
    char *path = realpath(given, NULL);
    if (!path) return kg_fail(err, KG_ERR_USAGE, "key %s: %s", given, strerror(errno));
    const enum kg_status status = kg_sign_try(path, err);
    if (status == KG_OK) *key = path;
    else free(path);
    return status;
}

json_t *kg_cli_signature_json(const struct kg_signature *signature) {
    const struct {
        const char *name, *text;
    } rows[] = { { "signer", signature->signer }, { "key", signature->key }, { "why", signature->why } };
    json_t *object = json_pack("{s:s}", "state", kg_signature_state_name(signature->state));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].text[0]) json_object_set_new(object, rows[i].name, kg_json_utf8(rows[i].text));
    if (signature->stamped_us) {
        char utc[KG_UTC_TEXT_SIZE];
        kg_clock_utc_text(signature->stamped_us, utc);
        json_object_set_new(object, "stamped_utc", json_string(utc));
    }
    if (signature->state != KG_SIGNATURE_NONE)
        json_object_set_new(object, "time_proven", json_boolean(signature->stamped_us != 0));
    return object;
}

/* When it was made, if anyone but its maker says so. */
static void put_time(const struct kg_signature *signature, struct kg_buffer *out) {
    char utc[KG_UTC_TEXT_SIZE];
    kg_clock_utc_text(signature->stamped_us, utc);
    if (signature->stamped_us) kg_text_printf(out, ", time-stamped %.19sZ", utc);
    else kg_buffer_puts(out, ", time not proven");
}

void kg_cli_signature_text(const struct kg_signature *signature, struct kg_buffer *out) {
    switch (signature->state) {
    case KG_SIGNATURE_NONE: kg_buffer_puts(out, "not signed"); return;
    case KG_SIGNATURE_GOOD:
        kg_text_printf(out, "signed by %s (%s)", signature->signer, signature->key);
        put_time(signature, out);
        return;
    case KG_SIGNATURE_UNPROVEN:
        kg_text_printf(out, "signed by %s (%s), whose key has run out; that it was signed before is not proven",
                       signature->signer, signature->key);
        return;
    case KG_SIGNATURE_INTACT:
        kg_text_printf(out, "signed with %s; no list of allowed signers says whose that is", signature->key);
        return;
    case KG_SIGNATURE_UNTRUSTED:
        kg_text_printf(out, "signed with %s, which no allowed signer has: %s", signature->key, signature->why);
        return;
    case KG_SIGNATURE_UNCHECKED: kg_text_printf(out, "signed, not checked: %s", signature->why); return;
    case KG_SIGNATURE_BAD: kg_text_printf(out, "the signature is bad: %s", signature->why); return;
    }
}
