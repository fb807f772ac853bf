/* E4M3 (OCP 8-bit Floating Point Specification): sign, 4 bits of exponent with bias 7, 3 bits of mantissa. Exponent 0
 * encodes zero and the subnormals m 2^-9. Exponent 15 encodes normal numbers up to 448, except mantissa 7, which is
 * NaN. There are no infinities. */
#include "format/dtype.h"
#include "format/dtype_rows.h"

enum { SIGN = 0x80, LARGEST = 0x7E, NOT_A_NUMBER = 0x7F };

/* The magnitude bits, shifted into binary32's exponent and mantissa, are the number times 2^(7 - 127). Multiplying by
 * 2^(127 - 7) undoes that exactly, for subnormals too. */
float kg_e4m3_to_f32(uint8_t b) {
    const uint32_t sign = (uint32_t)(b & SIGN) << 24, magnitude = b & 0x7FU;
    if (magnitude == NOT_A_NUMBER) return kg_float_from_bits(sign | 0x7FC00000);
    return kg_float_from_bits(sign | kg_float_to_bits(kg_float_from_bits(magnitude << 20) * 0x1p120f));
}

uint8_t kg_f32_to_e4m3(float f) {
    const uint32_t bits = kg_float_to_bits(f), magnitude = bits & 0x7FFFFFFF;
    const uint8_t sign = (uint8_t)(bits >> 24 & SIGN);
    const uint32_t infinity = 0x7F800000, largest = 0x43E00000 /* 448 */, least_normal = 0x3C800000 /* 2^-6 */;
    if (magnitude > infinity) return sign | NOT_A_NUMBER;
    if (magnitude >= largest) return sign | LARGEST;
    if (magnitude < least_normal) {
        /* An ulp of 2^14 is 2^-9, the spacing of E4M3's subnormals: adding 2^14 rounds to it. */
        const float shifted = kg_float_from_bits(magnitude) + 0x1p14f;
        return (uint8_t)(sign | (kg_float_to_bits(shifted) - kg_float_to_bits(0x1p14f)));
    }
    const uint32_t odd = magnitude >> 20 & 1, bias_difference = (uint32_t)(127 - 7) << 23;
    return (uint8_t)(sign | (magnitude - bias_difference + 0x7FFFF + odd) >> 20);
}
