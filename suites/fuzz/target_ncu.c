#include "suites/support/ncu_figures.h"
#include "suites/fuzz/readers.h"

KG_FUZZ_READER(ncu) {
    (void)target;
    struct kg_ncu_launches launches;
    struct kg_error err = { .status = KG_OK };
    struct kg_ncu_figure figures[KG_NCU_FIGURES];
    if (kg_ncu_parse((const char *)data, size, &launches, &err) != KG_OK) return kg_fuzz_expect_error(&err);
    const char *kernel = kg_ncu_main_kernel(&launches);
    if ((kernel != NULL) != (launches.n_items > 0))
        kg_fuzz_give_up("the main kernel of %zu launches is %s", launches.n_items, kernel ? kernel : "none");
    if (kernel) kg_ncu_figures(&launches, kernel, figures);
    kg_ncu_launches_free(&launches);
    return KG_OK;
}
