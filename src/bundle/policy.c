#include "bundle/policy.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/records.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *member, *usual;
} ROLES[] = {
#define KG_ROLE_ROW(constant, member, usual, about) { member, usual },
    KG_ROLE_LIST(KG_ROLE_ROW)
#undef KG_ROLE_ROW
};

static const struct {
    const char *member, *variable, *beside;
} FILES[] = {
    { "allowed_signers", "KIGO_ALLOWED_SIGNERS", "allowed_signers" },
    { "revoked_keys", "KIGO_REVOKED_KEYS", "revoked_keys" },
    { "timestamp_ca", "KIGO_TIMESTAMP_CA", "timestamp_ca.pem" },
};

static bool is_member(const char *name, size_t *role) {
    for (*role = 0; *role < KG_ROLE_COUNT; ++*role)
        if (strcmp(ROLES[*role].member, name) == 0) return true;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++)
        if (strcmp(FILES[i].member, name) == 0) return true;
    return false;
}

static bool is_who(const json_t *item) {
    const char *who = json_string_value(item);
    if (!who || !*who) return false;
    return *who != '@' || strcmp(who, "@here") == 0 || strcmp(who, "@signed") == 0 || strcmp(who, "@anyone") == 0;
}

static enum kg_status check(const char *path, const json_t *json, struct kg_error *err) {
    const char *name;
    const json_t *value, *item;
    size_t i, role;
    json_object_foreach((json_t *)(uintptr_t)json, name, value) {
        if (!is_member(name, &role))
            return kg_fail(err, KG_ERR_SCHEMA, "%s: '%s' is no member of a policy", path, name);
        if (role == KG_ROLE_COUNT && !json_is_string(value))
            return kg_fail(err, KG_ERR_SCHEMA, "%s: %s names no file", path, name);
        if (role == KG_ROLE_COUNT) continue;
        if (!json_is_array(value)) return kg_fail(err, KG_ERR_SCHEMA, "%s: %s is no list", path, name);
        json_array_foreach(value, i, item) if (!is_who(item)) return kg_fail(
            err, KG_ERR_SCHEMA, "%s: %s[%zu] is not \"@here\", \"@signed\", \"@anyone\" or a signer", path, name, i);
    }
    return KG_OK;
}

/* The file's object; NULL without one. */
static enum kg_status read_file(const char *root, struct kg_policy *policy, struct kg_error *err) {
    const char *given = getenv("KIGO_POLICY");
    const bool is_given = given && *given;
    char *path = is_given ? kg_xstrdup(given) : kg_path_join(root, KG_POLICY_FILE);
    policy->path = path;
    enum kg_status status = is_given ? kg_json_read_named(path, &policy->json, err)
                                     : kg_bundle_read_json(root, KG_POLICY_FILE, &policy->json, err);
    if (status != KG_OK) policy->json = NULL;
    if (status == KG_ERR_NOT_FOUND && !is_given) {
        free(path);
        policy->path = NULL;
        return KG_OK;
    }
    if (status != KG_OK && status != KG_ERR_NOT_FOUND) status = kg_error_context(err, KG_ERR_SCHEMA, "%s", path);
    return status == KG_OK ? check(path, policy->json, err) : status;
}

/* A file's path: as given, from the environment, of the policy, beside the bundles; NULL where there is none. */
static char *find_file(const char *root, const struct kg_policy *policy, size_t i, const char *given) {
    const char *variable = getenv(FILES[i].variable), *named = kg_json_text(policy->json, FILES[i].member);
    if (given) return kg_xstrdup(given);
    if (variable && *variable) return kg_xstrdup(variable);
    if (named && *named == '/') return kg_xstrdup(named);
    if (named && policy->path) {
        const char *slash = strrchr(policy->path, '/');
        return kg_xasprintf("%.*s%s", slash ? (int)(slash - policy->path + 1) : 0, policy->path, named);
    }
    char *beside = kg_path_join(root, FILES[i].beside);
    if (kg_path_exists(beside)) return beside;
    free(beside);
    return NULL;
}

enum kg_status kg_policy_load(const char *root, const char *allowed_signers, struct kg_policy *policy,
                              struct kg_error *err) {
    *policy = (struct kg_policy){ 0 };
    const enum kg_status status = read_file(root, policy, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++)
        policy->owned[i] = find_file(root, policy, i, i == 0 ? allowed_signers : NULL);
    policy->trust = (struct kg_trust){ policy->owned[0], policy->owned[1], policy->owned[2] };
    return KG_OK;
}

void kg_policy_free(struct kg_policy *policy) {
    for (size_t i = 0; i < KG_COUNT_OF(policy->owned); i++) free(policy->owned[i]);
    free(policy->path);
    json_decref(policy->json);
    *policy = (struct kg_policy){ 0 };
}

bool kg_policy_names(const struct kg_policy *policy, enum kg_role role) {
    return json_object_get(policy->json, ROLES[role].member) != NULL;
}

/* The list; one of the default's words. The caller's reference. */
static json_t *who_counts(const struct kg_policy *policy, enum kg_role role) {
    json_t *named = json_object_get(policy->json, ROLES[role].member), *list;
    if (named) return json_incref(named);
    char *words = kg_xstrdup(ROLES[role].usual), *rest = words;
    list = json_array();
    for (char *word; (word = strsep(&rest, " "));) json_array_append_new(list, json_string(word));
    free(words);
    return list;
}

static bool takes(const char *who, bool here, const struct kg_signature *signature) {
    const bool good = signature && signature->state == KG_SIGNATURE_GOOD;
    if (strcmp(who, "@anyone") == 0) return !signature || !kg_signature_is_wrong(signature);
    if (strcmp(who, "@here") == 0) return here && !(signature && kg_signature_is_wrong(signature));
    if (strcmp(who, "@signed") == 0) return good;
    return good && fnmatch(who, signature->signer, 0) == 0;
}

bool kg_policy_takes(const struct kg_policy *policy, enum kg_role role, bool here,
                     const struct kg_signature *signature) {
    json_t *list = who_counts(policy, role), *item;
    bool taken = false;
    size_t i;
    json_array_foreach(list, i, item) taken = taken || takes(json_string_value(item), here, signature);
    json_decref(list);
    return taken;
}

bool kg_policy_asks_signature(const struct kg_policy *policy, enum kg_role role) {
    return !kg_policy_takes(policy, role, true, NULL);
}

char *kg_policy_text(const struct kg_policy *policy, enum kg_role role) {
    json_t *list = who_counts(policy, role), *item;
    struct kg_buffer text = KG_BUFFER_INIT;
    size_t i;
    json_array_foreach(list, i, item) kg_buffer_printf(&text, "%s%s", i ? ", " : "", json_string_value(item));
    char *copy = kg_xstrdup(kg_buffer_text(&text));
    kg_buffer_free(&text);
    json_decref(list);
    return copy;
}
