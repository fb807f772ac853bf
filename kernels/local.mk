# CUDA sources are compiled by nvcc and linked as objects into libkigo.a; without CUDA a file of src/ says why not.
cuda_sources = \
	kernels/as_float16.cu kernels/backend_cuda.cu kernels/gpu.cu kernels/mailbox.cu kernels/pinned.cu \
	kernels/preload.cu kernels/staging.cu kernels/timing.cu kernels/weights_room.cu \
	kernels/attention/attention.cu kernels/attention/decode.cu kernels/attention/few_keys.cu \
	kernels/attention/prefill.cu kernels/attention/weights.cu kernels/attention/weights_few_queries.cu \
	kernels/attention/weights_held.cu \
	kernels/attention/sdpa/cluster.cu kernels/attention/sdpa/dispatch.cu kernels/attention/sdpa/call.cu \
	kernels/attention/sdpa/mma.cu kernels/attention/sdpa/quantize.cu kernels/attention/sdpa/scalar.cu \
	kernels/attention/sdpa/split.cu kernels/attention/sdpa/wgmma.cu kernels/attention/sdpa/wgmma_64.cu \
	kernels/decode/decode_step.cu kernels/decode/fused_ops.cu kernels/decode/fusions.cu kernels/decode/heads.cu \
	kernels/decode/lower.cu kernels/decode/norm_add.cu \
	kernels/decode/matrix.cu kernels/decode/blocks.cu kernels/decode/repacked.cu kernels/decode/router.cu \
	kernels/decode/persistent/program.cu kernels/decode/persistent/step.cu \
	kernels/gemm/blocks.cu kernels/gemm/few_outputs.cu kernels/gemm/few_rows.cu kernels/gemm/few_rows_f32.cu \
	kernels/gemm/gated.cu kernels/gemm/gemm.cu \
	kernels/gemv/gemv.cu \
	kernels/mxfp4/experts.cu kernels/mxfp4/gemm.cu kernels/mxfp4/gemv.cu \
	kernels/mxfp4/repack.cu \
	kernels/ops/add.cu kernels/ops/canary.cu kernels/ops/embedding.cu kernels/ops/experts_combine.cu \
	kernels/ops/experts_linear.cu kernels/ops/gelu.cu kernels/ops/kv_write.cu kernels/ops/layernorm.cu \
	kernels/ops/linear.cu kernels/ops/rmsnorm.cu kernels/ops/rope.cu kernels/ops/router.cu kernels/ops/sample.cu \
	kernels/ops/softmax.cu kernels/ops/swiglu.cu \
	kernels/prefill/fusions.cu kernels/prefill/heads.cu \
	kernels/ptx/tensor_map.cu
cuda_headers = \
	kernels/as_float16.h kernels/cuda_backend.h kernels/pinned.h kernels/preload.h kernels/staging.h \
	kernels/weights_room.h \
	kernels/attention/attention.cuh kernels/attention/weights.cuh \
	kernels/attention/sdpa/narrow.cuh kernels/attention/sdpa/fragment.cuh kernels/attention/sdpa/call.h \
	kernels/attention/sdpa/operands.cuh kernels/attention/sdpa/partial.cuh kernels/attention/sdpa/sdpa.h \
	kernels/attention/sdpa/split.cuh kernels/attention/sdpa/tile.cuh \
	kernels/block/bfloat16.cuh kernels/block/dequant.cuh kernels/block/elementwise.cuh \
	kernels/block/precision.cuh kernels/block/reduce.cuh kernels/block/rmsnorm.cuh kernels/block/rotation.cuh \
	kernels/block/router.cuh kernels/block/softmax_state.cuh kernels/block/swiglu.cuh \
	kernels/decode/block_codes.cuh kernels/decode/digits.cuh kernels/decode/matrix.cuh \
	kernels/decode/operand.cuh kernels/decode/row_map.cuh kernels/decode/fusions.h \
	kernels/decode/launches.h kernels/decode/lower.h \
	kernels/decode/persistent/attention.cuh kernels/decode/persistent/block.cuh \
	kernels/decode/persistent/exchange.cuh kernels/decode/persistent/matrix.cuh kernels/decode/persistent/program.h \
	kernels/decode/persistent/ring.cuh kernels/decode/persistent/step.h \
	kernels/gemm/block_operand.cuh kernels/gemm/blocks.cuh kernels/gemm/blocks.h kernels/gemm/few_outputs.h \
	kernels/gemm/few_rows.h kernels/gemm/few_rows_f32.h kernels/gemm/gated.h \
	kernels/gemm/gemm.h kernels/gemv/gemv.cuh kernels/gemv/gemv.h kernels/gemv/stream.cuh \
	kernels/mxfp4/experts.cuh kernels/mxfp4/experts_plan.cuh \
	kernels/mxfp4/gemm.cuh kernels/mxfp4/gemm_tma.cuh kernels/mxfp4/gemv.cuh kernels/mxfp4/gemv_row.cuh \
	kernels/mxfp4/mxfp4.h kernels/mxfp4/layout.cuh \
	kernels/ops/linear.h kernels/prefill/heads.h \
	kernels/ptx/async_copy.cuh kernels/ptx/cluster.cuh kernels/ptx/compiler.cuh kernels/ptx/dependent.cuh \
	kernels/ptx/math.cuh kernels/ptx/mbarrier.cuh kernels/ptx/memory.cuh kernels/ptx/mma.cuh \
	kernels/ptx/tensor_map.h kernels/ptx/tma.cuh kernels/ptx/wgmma.cuh
EXTRA_DIST += $(cuda_sources) $(cuda_headers) suites/harness/selftest/out_of_bounds.cu
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
		-MD -MP -MF $@.d -c -o $@ $<
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =
