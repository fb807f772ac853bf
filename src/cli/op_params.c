/* A call's lengths and parameters: from the shapes of its tensors, from the file and from --param. */
#include "base/buffer.h"
#include "base/say.h"
#include "base/utf8.h"
#include "cli/op_call.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t kg_op_count_tensors(const struct kg_op_spec *spec) {
    size_t n = 0;
    while (n < KG_OP_MAX_TENSORS && spec->tensors[n].name) n++;
    return n;
}

/* Lengths. */

static size_t find_length(const struct kg_op_call *c, const char *name, size_t len) {
    size_t i = 0;
    while (i < c->n_lengths && (strlen(c->lengths[i].name) != len || memcmp(c->lengths[i].name, name, len) != 0)) i++;
    return i;
}

uint32_t kg_op_length(const struct kg_op_call *c, const char *name) {
    const size_t i = find_length(c, name, strlen(name));
    return i < c->n_lengths ? (uint32_t)c->lengths[i].value : 0;
}

void kg_op_set_length(struct kg_op_call *c, const char *name, uint64_t value) {
    const size_t i = find_length(c, name, strlen(name));
    if (i < c->n_lengths) c->lengths[i].value = value;
}

/* rank[0 .. n) = places of a shape's lengths, added to the call's where they are new. */
size_t kg_op_parse_shape(struct kg_op_call *c, const char *shape, size_t rank[KG_OP_MAX_RANK]) {
    size_t n = 0;
    while (*shape && n < KG_OP_MAX_RANK) {
        const size_t len = strcspn(shape, " ");
        rank[n] = find_length(c, shape, len);
        if (rank[n] == c->n_lengths && c->n_lengths < KG_OP_MAX_LENGTHS)
            snprintf(c->lengths[c->n_lengths++].name, sizeof c->lengths[0].name, "%.*s", (int)len, shape);
        n++;
        shape += len;
        shape += strspn(shape, " ");
    }
    return n;
}

static void print_dims(const struct kg_safetensors_tensor *t, char *to, size_t size) {
    size_t at = 0;
    to[0] = '\0';
    for (size_t d = 0; d < t->n_dims && at < size; d++)
        at += (size_t)snprintf(to + at, size - at, "%s%" PRIu64, d ? ", " : "", t->dims[d]);
}

static enum kg_status fail_shape(const struct kg_op_call *c, const struct kg_op_tensor *spec,
                                 const struct kg_safetensors_tensor *t, struct kg_error *err) {
    char dims[160];
    struct kg_buffer known = KG_BUFFER_INIT;
    print_dims(t, dims, sizeof dims);
    for (size_t i = 0; i < c->n_lengths; i++)
        if (c->lengths[i].value)
            kg_buffer_printf(&known, "%s%s %" PRIu64, known.len ? ", " : "; ", c->lengths[i].name, c->lengths[i].value);
    kg_fail(err, KG_ERR_USAGE, "tensor '%s' is (%s), (%s) is meant%s", t->name, dims, spec->shape,
            kg_buffer_text(&known));
    kg_buffer_free(&known);
    return KG_ERR_USAGE;
}

/* Takes a length for known, or checks it. */
static bool bind(struct kg_op_call *c, size_t length, uint64_t value) {
    if (value == 0 || value > UINT32_MAX) return false;
    if (c->lengths[length].value == 0) c->lengths[length].value = value;
    return c->lengths[length].value == value;
}

/* The last two lengths as one: what is not known follows from what is. */
static enum kg_status bind_flat(struct kg_op_call *c, const struct kg_op_tensor *spec, const size_t rank[3],
                                const struct kg_safetensors_tensor *t, struct kg_error *err) {
    const uint64_t together = t->dims[1];
    const uint64_t middle = c->lengths[rank[1]].value, last = c->lengths[rank[2]].value, known = middle ? middle : last;
    if (known == 0)
        return kg_fail(err, KG_ERR_USAGE, "tensor '%s' has rows of %" PRIu64 "; say --param %s=N or --param %s=N",
                       t->name, together, c->lengths[rank[1]].name, c->lengths[rank[2]].name);
    const bool good = together % known == 0 && bind(c, rank[0], t->dims[0]) &&
                      bind(c, rank[1], middle ? middle : together / known) &&
                      bind(c, rank[2], middle ? together / known : last);
    return good ? KG_OK : fail_shape(c, spec, t, err);
}

enum kg_status kg_op_bind_shape(struct kg_op_call *c, const struct kg_op_tensor *spec,
                                const struct kg_safetensors_tensor *t, struct kg_error *err) {
    size_t rank[KG_OP_MAX_RANK];
    const size_t n = kg_op_parse_shape(c, spec->shape, rank);
    const bool flat = n == 3 && t->n_dims == 2;
    if (spec->role == KG_OP_ACTIVATIONS && spec == c->spec->tensors) c->flat = flat;
    if (flat) return bind_flat(c, spec, rank, t, err);
    if (t->n_dims != n) return fail_shape(c, spec, t, err);
    for (size_t d = 0; d < n; d++)
        if (!bind(c, rank[d], t->dims[d])) return fail_shape(c, spec, t, err);
    return KG_OK;
}

/* Parameters. */

static size_t find_param(const struct kg_op_spec *spec, const char *name) {
    size_t i = 0;
    while (i < KG_OP_MAX_PARAMS && (!spec->params[i].name || strcmp(spec->params[i].name, name) != 0)) i++;
    return i;
}

double kg_op_param(const struct kg_op_call *c, const char *name) {
    const size_t i = find_param(c->spec, name);
    return i < KG_OP_MAX_PARAMS ? c->params[i] : NAN;
}

static enum kg_status check_param(const struct kg_op_param *p, const char *text, double value, struct kg_error *err) {
    const bool whole = value >= 0 && value <= (double)UINT32_MAX && value == floor(value);
    if (!isfinite(value) || (p->kind != KG_OP_NUMBER && !whole) || (p->kind == KG_OP_FLAG && value > 1))
        return kg_fail(err, KG_ERR_USAGE, "parameter %s is '%s'; it takes %s", p->name, text,
                       p->kind == KG_OP_NUMBER ? "a finite number"
                       : p->kind == KG_OP_FLAG ? "0 or 1"
                                               : "a whole number");
    return KG_OK;
}

static enum kg_status parse_value(const char *key, const char *text, double *value, struct kg_error *err) {
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end) return kg_fail(err, KG_ERR_USAGE, "parameter %s is '%s', no number", key, text);
    return KG_OK;
}

static enum kg_status set_variant(double *param, const char *key, const char *text, struct kg_error *err) {
    enum kg_sdpa_variant variant;
    const enum kg_status status = kg_sdpa_variant_from_name(text, &variant, err);
    if (status != KG_OK) return kg_error_context(err, status, "parameter %s", key);
    *param = (double)variant;
    return KG_OK;
}

static enum kg_status set_param(struct kg_op_call *c, const char *key, const char *text, struct kg_error *err) {
    double value;
    const size_t param = find_param(c->spec, key), length = find_length(c, key, strlen(key));
    if (param == KG_OP_MAX_PARAMS && length == c->n_lengths) {
        struct kg_buffer known = KG_BUFFER_INIT;
        for (size_t i = 0; i < KG_OP_MAX_PARAMS && c->spec->params[i].name; i++)
            kg_buffer_printf(&known, "%s, ", c->spec->params[i].name);
        for (size_t i = 0; i < c->n_lengths; i++) kg_buffer_printf(&known, "%s%s", i ? ", " : "", c->lengths[i].name);
        kg_fail(err, KG_ERR_USAGE, "%s has no parameter '%s' (%s)", c->spec->name, key, kg_buffer_text(&known));
        kg_buffer_free(&known);
        return KG_ERR_USAGE;
    }
    const enum kg_op_param_kind kind = param < KG_OP_MAX_PARAMS ? c->spec->params[param].kind : KG_OP_COUNT;
    enum kg_dtype dtype;
    if (kind == KG_OP_DTYPE && kg_dtype_from_name(text, &dtype, NULL) == KG_OK) {
        c->params[param] = kg_dtype_info(dtype)->gguf_id;
        return KG_OK;
    }
    if (kind == KG_OP_VARIANT) return set_variant(&c->params[param], key, text, err);
    enum kg_status status = parse_value(key, text, &value, err);
    if (status != KG_OK) return status;
    const struct kg_op_param as_length = { .name = key, .kind = KG_OP_COUNT };
    status = check_param(param < KG_OP_MAX_PARAMS ? &c->spec->params[param] : &as_length, text, value, err);
    if (status != KG_OK) return status;
    if (param < KG_OP_MAX_PARAMS) {
        c->params[param] = value;
    } else {
        if (value == 0) return kg_fail(err, KG_ERR_USAGE, "parameter %s is 0", key);
        c->lengths[length].value = (uint64_t)value;
    }
    return KG_OK;
}

bool kg_op_is_bytes_of(const struct kg_op_tensor *spec, const char *name) {
    const size_t len = strlen(spec->name);
    return spec->role == KG_OP_WEIGHT && strncmp(name, spec->name, len) == 0 && strcmp(name + len, "_bytes") == 0;
}

static bool takes_tensor(const struct kg_op_spec *spec, const char *name) {
    for (size_t i = 0; i < kg_op_count_tensors(spec); i++) {
        if (strcmp(spec->tensors[i].name, name) == 0) return true;
        if (kg_op_is_bytes_of(&spec->tensors[i], name)) return true;
    }
    return strcmp(name, "out") == 0; /* a reference that goes along */
}

/* Parameters that came as tensors of one element; any other tensor must be one the operation takes. */
static enum kg_status take_file_params(struct kg_op_call *c, const struct kg_safetensors *st, struct kg_error *err) {
    for (size_t i = 0; i < kg_safetensors_n_tensors(st); i++) {
        const struct kg_safetensors_tensor *t = kg_safetensors_tensor_at(st, i);
        double value;
        char text[32];
        if (takes_tensor(c->spec, t->name)) continue;
        if (find_param(c->spec, t->name) == KG_OP_MAX_PARAMS &&
            find_length(c, t->name, strlen(t->name)) == c->n_lengths)
            return kg_fail(err, KG_ERR_USAGE, "%s takes no tensor '%s' (kigo op %s --help)", c->spec->name,
                           kg_quote(t->name, strlen(t->name)).text, c->spec->name);
        if (t->n_elems != 1)
            return kg_fail(err, KG_ERR_USAGE, "tensor '%s' is a parameter and has %" PRIu64 " elements", t->name,
                           t->n_elems);
        enum kg_status status = kg_safetensors_to_f64(t, &value, err);
        snprintf(text, sizeof text, "%.17g", value);
        if (status == KG_OK) status = set_param(c, t->name, text, err);
        if (status != KG_OK) return status;
    }
    return KG_OK;
}

enum kg_status kg_op_take_params(struct kg_op_call *c, const struct kg_safetensors *st,
                                 const struct kg_op_request *request, struct kg_error *err) {
    size_t rank[KG_OP_MAX_RANK];
    for (size_t i = 0; i < kg_op_count_tensors(c->spec); i++)
        (void)kg_op_parse_shape(c, c->spec->tensors[i].shape, rank);
    for (size_t i = 0; i < KG_OP_MAX_PARAMS; i++) c->params[i] = c->spec->params[i].fallback;
    enum kg_status status = take_file_params(c, st, err);
    for (size_t i = 0; i < request->n_params && status == KG_OK; i++) {
        const char *text = request->params[i], *equals = strchr(text, '=');
        if (!equals) return kg_fail(err, KG_ERR_USAGE, "--param '%s' is not key=value", text);
        char *key = kg_xstrndup(text, (size_t)(equals - text));
        status = set_param(c, key, equals + 1, err);
        free(key);
    }
    return status;
}
