/* What generation needs of the sampler beyond <kigo/engine.h>. */
#ifndef KIGO_ENGINE_SAMPLER_H
#define KIGO_ENGINE_SAMPLER_H

#include <kigo/engine.h>

/* KG_ERR_USAGE naming the option that is out of range, and its value. */
KG_WARN_UNUSED enum kg_status kg_sampler_check(const struct kg_sampler_options *options, struct kg_error *err);

/* Of draw n_draw of a seed, counted from 1: uniform in [0, 1), with 53 bits. */
double kg_sampler_uniform(uint64_t seed, uint64_t n_draw);

#endif
