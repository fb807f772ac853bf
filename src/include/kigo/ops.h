/* What operations are parametrised by: precision, rotation, sampling. */
#ifndef KIGO_OPS_H
#define KIGO_OPS_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Precision of activations and of the KV cache. It is always chosen explicitly, printed and recorded. */
enum kg_precision { KG_PRECISION_F32, KG_PRECISION_F16, KG_PRECISION_F8, KG_PRECISION_I8 };
const char *kg_precision_name(enum kg_precision p); /* "f32" */
KG_WARN_UNUSED enum kg_status kg_precision_from_name(const char *name, enum kg_precision *p, struct kg_error *err);
/* Bytes of an element; p is a valid precision. */
uint64_t kg_precision_bytes(enum kg_precision p);
/* Whether elements mean something only with a scale: f8 (E4M3) and i8, which `kigo op sdpa` alone has. */
bool kg_precision_is_quantized(enum kg_precision p);

enum kg_rope_pairing {
    KG_ROPE_NONE,
    KG_ROPE_HALF,        /* (i, i + n_rot/2): all but llama and gpt2 */
    KG_ROPE_INTERLEAVED, /* (2i, 2i+1): llama */
};

/* Sampling applies, in this order: temperature, repetition penalty, top-k, top-p, min-p, draw. Temperature 0 is greedy:
 * the largest logit after the penalty, and the lowest id on a tie. */
struct kg_sampler_options {
    double temperature;     /* >= 0 */
    double repeat_penalty;  /* > 0; 1 is off. Divides positive logits of the last repeat_last_n ids, multiplies negative
                               ones */
    uint32_t repeat_last_n; /* 0 is off */
    uint32_t top_k;         /* 0 is off */
    double top_p;           /* in (0, 1]; 1 is off */
    double min_p;           /* in [0, 1]; 0 is off */
    uint64_t seed;
};
/* In the order of the members, since C++ before 2020 names none. */
#define KG_SAMPLER_DEFAULTS                                                                                            \
    { 0.7, 1.0, 64, 0, 1.0, 0.0, 0 }

#ifdef __cplusplus
}
#endif

#endif
