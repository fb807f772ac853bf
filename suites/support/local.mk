# What several layers of suites use: models and files to make, references to compare with, programs to run.
libkigosuite_a_SOURCES += \
	suites/support/as_llama.c suites/support/as_llama.h \
	suites/support/asked_history.c suites/support/asked_history.h \
	suites/support/attention_step.c suites/support/attention_step.h \
	suites/support/fused_chain.c suites/support/fused_chain.h \
	suites/support/fused_op.c suites/support/fused_op.h \
	suites/support/bundle_maker.c suites/support/bundle_reseal.c suites/support/bundle_maker.h \
	suites/support/chi_square.c suites/support/chi_square.h \
	suites/support/counters.c suites/support/counters.h \
	suites/support/edit_model.c suites/support/edit_model.h \
	suites/support/engine_poet.c \
	suites/support/float64_loops.c suites/support/float64_loops.h \
	suites/support/float64_normal.c \
	suites/support/gguf_edit.c suites/support/gguf_edit.h \
	suites/support/gguf_image.c suites/support/gguf_image.h \
	suites/support/golden.c suites/support/golden.h \
	suites/support/haiku_bench.c \
	suites/support/haiku_evidence.c suites/support/haiku_evidence.h \
	suites/support/haiku_request.c \
	suites/support/haiku_stage.c suites/support/haiku_stage.h \
	suites/support/haiku_transcript.c \
	suites/support/hf_maker.c suites/support/hf_maker.h \
	suites/support/history_lab.c suites/support/history_lab.h \
	suites/support/history_maker.c suites/support/history_maker.h \
	suites/support/html_tags.c suites/support/html_tags.h \
	suites/support/host_draws.c suites/support/host_draws.h \
	suites/support/rig.c suites/support/rig.h \
	suites/support/rights.c suites/support/rights.h \
	suites/support/layer_compare.c suites/support/layer_compare.h \
	suites/support/layer_models.c suites/support/layer_models.h \
	suites/support/lexicon.c \
	suites/support/machine.c suites/support/machine.h \
	suites/support/machine_time.c \
	suites/support/made_gpu.c suites/support/made_gpu.h \
	suites/support/minute_words.c suites/support/minute_words.h \
	suites/support/mutant_ops.c suites/support/mutant_ops.h \
	suites/support/mxfp4_draws.c suites/support/mxfp4_draws.h \
	suites/support/mxfp4_float64.c suites/support/mxfp4_float64.h \
	suites/support/mxfp4_forms.c suites/support/mxfp4_forms.h \
	suites/support/mxfp4_judge.c \
	suites/support/mxfp4_values.c suites/support/mxfp4_values.h \
	suites/support/ncu_figures.c suites/support/ncu_figures.h \
	suites/support/ncu_output.c suites/support/ncu_output.h \
	suites/support/ncu_run.c suites/support/ncu_run.h \
	suites/support/op_activations.c \
	suites/support/op_attention.c \
	suites/support/op_cases.c suites/support/op_cases.h \
	suites/support/op_device.c suites/support/op_device.h \
	suites/support/op_experts.c \
	suites/support/op_swiglu.c \
	suites/support/paste_poet.c \
	suites/support/plain_f16.c suites/support/plain_f16.h suites/support/plain_f16_steps.c \
	suites/support/plain_f16_steps.h \
	suites/support/plain_f16_experts.c \
	suites/support/plain_f16_style.h \
	suites/support/poem.c suites/support/poem.h \
	suites/support/poet.h \
	suites/support/publishers.c suites/support/publishers.h \
	suites/support/routes.c suites/support/routes.h suites/support/run_kigo.c suites/support/run_kigo.h \
	suites/support/sample_cases.c suites/support/sample_cases.h \
	suites/support/sdpa_place.c \
	suites/support/sdpa_problem.c suites/support/sdpa_problem.h \
	suites/support/sdpa_untaken.c \
	suites/support/launch_compare.c suites/support/launch_compare.h \
	suites/support/tar_image.c suites/support/tar_image.h \
	suites/support/terminal.c suites/support/terminal.h \
	suites/support/tiny_model.c suites/support/tiny_model.h \
	suites/support/touched.c suites/support/touched.h \
	suites/support/vocabulary.c suites/support/vocabulary.h

# Headers of kernels that run on the host, compiled as C++; nothing of them needs CUDA or the C++ library.
libkigosuite_a_SOURCES += suites/support/block_codes_problem.c suites/support/block_codes_problem.h \
	suites/support/block_codes_warp.h suites/support/row_map_host.h
EXTRA_DIST += suites/support/block_codes_warp.cu suites/support/row_map_host.cu suites/support/host_warp.cuh
if WITH_CXX
host_warp_objects = suites/support/block_codes_warp.o suites/support/row_map_host.o
libkigosuite_a_LIBADD = $(host_warp_objects)
libkigosuite_a_DEPENDENCIES = $(host_warp_objects)
CLEANFILES += $(host_warp_objects) $(host_warp_objects:=.d)
$(host_warp_objects): %.o: %.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) -x c++ -std=c++17 \
		$(CXX_WARNING_FLAGS) -Wno-unknown-pragmas $(SANITIZER_FLAGS) $(CXXFLAGS) -ffp-contract=off -fno-strict-aliasing \
		-fno-exceptions -fno-rtti -MD -MP -MF $@.d -c -o $@ $<
AM_V_CXX = $(am__v_CXX_@AM_V@)
am__v_CXX_ = $(am__v_CXX_@AM_DEFAULT_V@)
am__v_CXX_0 = @echo "  CXX     " $@;
am__v_CXX_1 =
-include $(host_warp_objects:=.d)
else
libkigosuite_a_SOURCES += suites/support/block_codes_none.c suites/support/row_map_none.c
endif

# A libnvidia-ml that the cases load instead of the driver's.
check_DATA += suites/support/fake_nvml.so
EXTRA_DIST += suites/support/fake_nvml.c suites/support/fake_nvml.h
CLEANFILES += suites/support/fake_nvml.so
suites/support/fake_nvml.so: suites/support/fake_nvml.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(WARNING_FLAGS) -std=gnu11 -O1 -fPIC -shared -o $@ \
		$(srcdir)/suites/support/fake_nvml.c
# Preloaded into kigo, to make a call of it fail.
check_DATA += suites/support/fault_injector.so
EXTRA_DIST += suites/support/fault_injector.c suites/support/fault_report.h
CLEANFILES += suites/support/fault_injector.so
suites/support/fault_injector.so: suites/support/fault_injector.c suites/support/fault_report.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(WARNING_FLAGS) -std=gnu11 -O1 -fPIC -shared -I$(top_srcdir) -o $@ \
		$(srcdir)/suites/support/fault_injector.c -ldl
