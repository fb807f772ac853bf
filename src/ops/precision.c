#include <kigo/ops.h>
#include <string.h>

static const char *const NAMES[] = {
    [KG_PRECISION_F32] = "f32", [KG_PRECISION_F16] = "f16", [KG_PRECISION_F8] = "f8", [KG_PRECISION_I8] = "i8"
};
enum { N_NAMES = sizeof NAMES / sizeof *NAMES };

uint64_t kg_precision_bytes(enum kg_precision p) {
    static const uint64_t BYTES[] = {
        [KG_PRECISION_F32] = 4, [KG_PRECISION_F16] = 2, [KG_PRECISION_F8] = 1, [KG_PRECISION_I8] = 1
    };
    return BYTES[p];
}

bool kg_precision_is_quantized(enum kg_precision p) {
    return p == KG_PRECISION_F8 || p == KG_PRECISION_I8;
}

const char *kg_precision_name(enum kg_precision p) {
    return (unsigned)p < N_NAMES ? NAMES[p] : "unknown";
}

enum kg_status kg_precision_from_name(const char *name, enum kg_precision *p, struct kg_error *err) {
    for (int i = 0; i < N_NAMES; i++) {
        if (strcmp(name, NAMES[i]) != 0) continue;
        *p = (enum kg_precision)i;
        return KG_OK;
    }
    return kg_fail(err, KG_ERR_USAGE, "there is no precision '%s'; f32, f16, f8 and i8 are", name);
}
