# CUDA sources are compiled by nvcc and linked as objects into libkigo.a; without CUDA a file of src/ says why not.
cuda_sources = kernels/gpu.cu
cuda_sources += kernels/backend_cuda.cu kernels/decode_step.cu kernels/step_walk.cu kernels/step_attention.cu \
	kernels/step_matrix.cu kernels/step_router.cu kernels/gemm.cu kernels/linear.cu
cuda_sources += kernels/persistent/step.cu kernels/persistent/program.cu
cuda_sources += kernels/canary.cu kernels/timing.cu
cuda_sources += kernels/add.cu kernels/attention.cu kernels/attention_decode.cu kernels/attention_prefill.cu \
	kernels/embedding.cu kernels/experts_combine.cu kernels/experts_linear.cu kernels/gelu.cu kernels/kv_write.cu \
	kernels/layernorm.cu kernels/rmsnorm.cu kernels/rope.cu kernels/router.cu kernels/softmax.cu kernels/swiglu.cu
cuda_sources += kernels/mailbox.cu kernels/sample.cu kernels/sample_draw.cu
cuda_sources += kernels/mxfp4/arrange.cu kernels/mxfp4/gemm.cu kernels/mxfp4/gemm_tensor.cu kernels/mxfp4/gemv.cu \
	kernels/mxfp4/multiply.cu
cuda_sources += kernels/sdpa/cluster.cu kernels/sdpa/dispatch.cu kernels/sdpa/hopper_call.cu kernels/sdpa/mma.cu \
	kernels/sdpa/quantize.cu kernels/sdpa/scalar.cu kernels/sdpa/split.cu kernels/sdpa/tensor_map.cu \
	kernels/sdpa/wgmma.cu kernels/sdpa/wgmma_64.cu
EXTRA_DIST += $(cuda_sources) suites/harness/selftest/out_of_bounds.cu
EXTRA_DIST += kernels/cuda_backend.h kernels/decode_step.h kernels/gemm.h kernels/measure.h kernels/sample.h kernels/step_parts.h \
	kernels/step_walk.h
EXTRA_DIST += kernels/attention.cuh kernels/dependent.cuh kernels/dequant.cuh kernels/elementwise.cuh kernels/gemv.cuh \
	kernels/gemv_stream.cuh kernels/mma.cuh kernels/precision.cuh kernels/reduce.cuh kernels/rope_turn.cuh kernels/router.cuh \
	kernels/softmax_state.cuh kernels/sample.cuh \
	kernels/swiglu.cuh
EXTRA_DIST += kernels/persistent/step.h kernels/persistent/program.h kernels/persistent/block.cuh kernels/persistent/ring.cuh \
	kernels/persistent/exchange.cuh kernels/persistent/matrix.cuh kernels/persistent/attention.cuh
EXTRA_DIST += kernels/mxfp4/mxfp4.h kernels/mxfp4/gemm.cuh kernels/mxfp4/gemm_tensor.cuh kernels/mxfp4/gemv.cuh kernels/mxfp4/tiles.cuh
EXTRA_DIST += kernels/mxfp4/mxfp4.h kernels/mxfp4/gemm.cuh kernels/mxfp4/gemv.cuh kernels/mxfp4/gemv_row.cuh kernels/mxfp4/tiles.cuh
EXTRA_DIST += kernels/sdpa/sdpa.h kernels/sdpa/hopper_call.h kernels/sdpa/tensor_map.h kernels/sdpa/e4m3.cuh \
	kernels/sdpa/fragment.cuh kernels/sdpa/hopper.cuh kernels/sdpa/operands.cuh kernels/sdpa/partial.cuh \
	kernels/sdpa/peer.cuh kernels/sdpa/products.cuh
if WITH_CUDA
cuda_objects = $(cuda_sources:.cu=.cu.o)
libkigo_a_LIBADD += $(cuda_objects)
libkigo_a_DEPENDENCIES = $(cuda_objects)
kigo_cuda_libs = $(CUDA_LIBS)
CLEANFILES += $(cuda_objects) $(cuda_objects:=.d) $(cuda_objects:=.usage)
sanitizer_planted = ./suites/harness/selftest/out_of_bounds
CLEANFILES += $(sanitizer_planted)
$(sanitizer_planted): suites/harness/selftest/out_of_bounds.cu
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && $(NVCC) $(NVCCFLAGS) -o $@ $(srcdir)/suites/harness/selftest/out_of_bounds.cu
else
libkigo_a_SOURCES += src/backend/cuda_none.c src/backend/gpu_none.c
kigo_cuda_libs =
sanitizer_planted =
endif

-include $(cuda_objects:=.d)

# What ptxas says of each kernel, for build.json. Not named .h: it is no source, wherever it is built.
EXTRA_DIST += build-aux/kernel-resources build-aux/nvcc-usage
CLEANFILES += kernels/resources.inc
src/bundle/build.$(OBJEXT): kernels/resources.inc
kernels/resources.inc: $(cuda_objects)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SHELL) $(top_srcdir)/build-aux/kernel-resources $(cuda_objects:=.usage) >$@

NVCCFLAGS = -O3 -std=c++17 -lineinfo $(NVCC_ARCH_FLAGS)
SUFFIXES = .cu .cu.o
.cu.cu.o:
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && $(SHELL) $(top_srcdir)/build-aux/nvcc-usage $@.usage \
		$(NVCC) $(NVCCFLAGS) -I$(top_srcdir) -I$(top_srcdir)/src -I$(top_srcdir)/src/include \
		-MD -MF $@.d -c -o $@ $<
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =
