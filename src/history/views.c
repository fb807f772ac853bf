#include "history/views.h"
#include "base/size.h"

#define OF_CASE(view)                                                                                                  \
    { view, "run", "", "id of the run's bundle" },                                                                     \
        { view, "result_no", "", "number of the case\'s result: one a run and case, whatever is asked" },              \
        { view, "case_key", "", "the case: layer/op/name[backend,dtype,shape]" },                                      \
        { view, "layer", "", "of the suites: unit, integration, tolerance, bench, ..." },                              \
        { view, "op", "", "operation, or what else is tested" }, { view, "case_name", "", "name in the key" },         \
        { view, "backend", "", "cpu or cuda; - if the case has none" },                                                \
        { view, "dtype", "", "precision; - if the case has none" },                                                    \
        { view, "shape", "", "shape or workload; - if the case has none" }, {                                          \
        view, "spec", "", "tag of the requirement that the case proves; - if it has none"                              \
    }

const struct kg_view_column KG_VIEW_COLUMNS[] = {
    { "run", "run", "", "id of the run's bundle" },
    { "run", "verdict", "", "pass, fail, or incomplete" },
    { "run", "state", "", "complete, or partial: the run died and was recovered" },
    { "run", "exit_code", "", "of the run: 0 pass, 1 fail, 5 incomplete" },
    { "run", "started_utc", "UTC", "when it started, YYYY-MM-DD HH:MM:SS" },
    { "run", "run_seconds", "s", "from its start until it was sealed" },
    { "run", "overhead_share", "1", "share of the time that no case ran in; NULL if it is not known" },
    { "run", "n_planned", "cases", "planned before the first ran" },
    { "run", "n_pass", "cases", "passed" },
    { "run", "n_fail", "cases", "failed" },
    { "run", "n_skip", "cases", "skipped with a reason" },
    { "run", "n_crash", "cases", "ended by a signal, or without a result" },
    { "run", "n_timeout", "cases", "ended at their time limit" },
    { "run", "n_norun", "cases", "planned that never ran" },
    { "run", "run_seed", "", "seed that the cases' seeds follow from (decimal text: 64 bits)" },
    { "run", "git_commit", "", "commit of the sources; NULL without git" },
    { "run", "git_branch", "", "branch it was on; NULL without one" },
    { "run", "git_dirty", "0 or 1", "1 if the work tree differed from the commit; NULL without git" },
    { "run", "gpu_name", "", "first GPU; NULL without one" },
    { "run", "gpu_power_limit_w", "W", "its power limit; NULL if NVML does not say" },
    { "run", "gpu_driver", "", "CUDA version of its driver: 1000 major + 10 minor" },
    { "run", "cuda_runtime", "", "version of the CUDA runtime, likewise" },
    { "run", "cpu_model", "", "processor" },
    { "run", "n_cpus", "processors", "that the run was allowed to use" },
    { "run", "host_memory_bytes", "bytes", "memory of the host" },
    { "run", "os", "", "operating system" },
    { "run", "kernel", "", "release of its kernel" },
    { "run", "compiler", "", "that built kigo" },
    { "run", "cflags", "", "its flags" },
    { "run", "sanitizers", "", "that were built in" },
    { "run", "cuda_compiler", "", "nvcc's version; NULL or empty in a build without CUDA" },
    { "run", "has_signature", "0 or 1", "1 if it is signed; by whom, and whether rightly, kigo verify says" },
    { "run", "comparison_key", "", "machine, build and request as JSON: runs compare where it is equal" },

    OF_CASE("figure"),
    { "figure", "status", "", "of the case: pass, fail, skip, crash, timeout or norun" },
    { "figure", "figure", "", "name: y.max_abs, y.margin, decode.graph.warm, kv.peak, ..." },
    { "figure", "unit", "", "of value, value_limit, mad, ci_low and ci_high: ns, bytes, abs, ratio, ..." },
    { "figure", "value", "unit", "the figure; of a timing the median of its samples; NULL if it is no finite number" },
    { "figure", "value_limit", "unit", "what an error must not exceed; NULL where the figure has no limit" },
    { "figure", "n_values", "values", "samples of a timing, or values that were compared; NULL of other figures" },
    { "figure", "mad", "unit", "of a timing: median absolute deviation of its samples; NULL of other figures" },
    { "figure", "ci_low", "unit", "of a timing: lower end of its median's 95% interval; NULL of other figures" },
    { "figure", "ci_high", "unit", "of a timing: upper end of its median's 95% interval; NULL of other figures" },
    { "figure", "valid", "0 or 1", "0 if the figure counts for nothing: not finite, or samples were throttled" },

    OF_CASE("failure"),
    { "failure", "status", "", "of the case: fail, crash, timeout or norun" },
    { "failure", "reason", "", "what went wrong; empty if nothing was said" },
    { "failure", "case_seed", "", "seed of the case (decimal text: 64 bits); NULL if it never ran" },
    { "failure", "case_seconds", "s", "time it took; NULL if it never ended" },
};
const size_t KG_N_VIEW_COLUMNS = KG_COUNT_OF(KG_VIEW_COLUMNS);
