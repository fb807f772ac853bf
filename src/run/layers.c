#include "run/layers.h"
#include "base/size.h"
#include <string.h>

const char *const KG_LAYERS[] = { "unit", "integration", "haiku", "tolerance", "mutation", "bench", "fuzz" };
const size_t KG_N_LAYERS = KG_COUNT_OF(KG_LAYERS);
const char KG_LAYER_NAMES[] = "unit, integration, haiku, tolerance, mutation, bench, fuzz, harness";

enum { MAX_LAYERS = 2 };
static const struct {
    const char *folder;
    const char *layers[MAX_LAYERS];
} FOLDERS[] = {
    { "bench", { "bench" } },       { "fuzz", { "unit", "fuzz" } },
    { "haiku", { "haiku" } },       { "integration", { "integration" } },
    { "mutation", { "mutation" } }, { "tolerance", { "tolerance", "mutation" } },
    { "unit", { "unit" } },
};

bool kg_layer_known(const char *layer) {
    for (size_t i = 0; i < KG_N_LAYERS; i++)
        if (strcmp(KG_LAYERS[i], layer) == 0) return true;
    return strcmp(layer, KG_HARNESS_LAYER) == 0;
}

bool kg_layer_fits(const char *layer, const char *program) {
    const size_t len = strcspn(program, "/");
    if (!program[len]) return true; /* in no folder */
    for (size_t i = 0; i < KG_COUNT_OF(FOLDERS); i++) {
        if (strlen(FOLDERS[i].folder) != len || memcmp(FOLDERS[i].folder, program, len) != 0) continue;
        for (size_t k = 0; k < MAX_LAYERS && FOLDERS[i].layers[k]; k++)
            if (strcmp(FOLDERS[i].layers[k], layer) == 0) return true;
        return false;
    }
    return true;
}
