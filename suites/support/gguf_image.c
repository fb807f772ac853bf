#include "suites/support/gguf_image.h"
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_number(struct kg_buffer *image, const char *item) {
    char *dot;
    errno = 0;
    const uint64_t value = item[0] == '-' ? (uint64_t)strtoll(item, &dot, 0) : strtoull(item, &dot, 0);
    if (errno || *dot != '.') ck_abort_msg("'%s' is no item of an image", item);
    const int n_bytes = atoi(dot + 1);
    ck_assert_msg(n_bytes >= 1 && n_bytes <= 8, "'%s': a number has 1 to 8 bytes", item);
    kg_buffer_append(image, &value, (size_t)n_bytes);
}

static void put_item(struct kg_buffer *image, const char *item) {
    const char *rest = item + 1;
    const uint64_t len = strlen(rest);
    switch (item[0]) {
    case '~': kg_buffer_append(image, &len, sizeof len); __attribute__((fallthrough));
    case '=': kg_buffer_append(image, rest, len); break;
    case '@':
        while (image->len % strtoul(rest, NULL, 10) != 0) kg_buffer_append(image, "", 1);
        break;
    case '*':
        for (unsigned long i = 1; i <= strtoul(rest, NULL, 10); i++)
            kg_buffer_append(image, &(uint8_t){ (uint8_t)i }, 1);
        break;
    default: put_number(image, item); break;
    }
}

void kg_image_build(struct kg_buffer *image, const char *script) {
    char *items = kg_xstrdup(script), *rest = NULL;
    for (char *item = strtok_r(items, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) put_item(image, item);
    free(items);
}

void kg_image_build_sample(struct kg_buffer *image, unsigned version) {
    char *header = kg_xasprintf("=GGUF %u.4 3.8 14.8", version);
    kg_image_build(image, header);
    free(header);
    kg_image_build(image, "~k.u8 0.4 200.1 ~k.i8 1.4 -100.1 ~k.u16 2.4 60000.2 ~k.i16 3.4 -30000.2 "
                          "~k.u32 4.4 4000000000.4 ~k.i32 5.4 -2000000000.4 ~k.f32 6.4 0x3f000000.4 ~k.bool 7.4 1.1 "
                          "~k.str 8.4 ~text ~k.u64 10.4 0xffffffffffffffff.8 ~k.i64 11.4 -9000000000.8 "
                          "~k.f64 12.4 0xc004000000000000.8 ~k.ints 9.4 5.4 2.8 -1.4 7.4 "
                          "~k.strs 9.4 8.4 3.8 ~a ~ ~ccc");
    kg_image_build(image, "~a.f32 2.4 3.8 2.8 0.4 0.8 ~b.f16 1.4 5.8 1.4 96.8 ~c.q8 1.4 32.8 8.4 32.8 @32 "
                          "*24 @32 *34 @32 *10");
}
