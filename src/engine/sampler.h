/* What generation needs of the sampler beyond <kigo/engine.h>. */
#ifndef KIGO_ENGINE_SAMPLER_H
#define KIGO_ENGINE_SAMPLER_H

#include <kigo/engine.h>

/* KG_ERR_USAGE naming the option that is out of range, and its value. */
KG_WARN_UNUSED enum kg_status kg_sampler_check(const struct kg_sampler_options *options, struct kg_error *err);

#endif
