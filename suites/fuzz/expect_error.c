#include "suites/fuzz/targets.h"
#include "base/utf8.h"
#include <kigo/status.h>
#include <stdlib.h>
#include <string.h>

void kg_fuzz_expect_error(const struct kg_error *err) {
    const size_t len = strlen(err->message);
    if (err->status == KG_OK || len == 0 || !kg_utf8_valid(err->message, len)) abort();
}
