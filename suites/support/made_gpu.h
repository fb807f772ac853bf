/* A sealed run that says it had a GPU, or had none, wherever it was made. */
#ifndef KIGO_SUITES_MADE_GPU_H
#define KIGO_SUITES_MADE_GPU_H

/* name: NULL for none. The bag is made sound again. */
void kg_made_gpu(const char *dir, const char *name);

#endif
