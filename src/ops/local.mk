libkigo_a_SOURCES += \
	src/include/kigo/ops.h \
	src/ops/add.c src/ops/add.h \
	src/ops/attention.c src/ops/attention.h \
	src/ops/attention_weights.c src/ops/attention_weights.h \
	src/ops/canary.c src/ops/canary.h \
	src/ops/check.c src/ops/check.h \
	src/ops/dot.h \
	src/ops/dot_rows.c src/ops/dot_rows.h \
	src/ops/embedding.c src/ops/embedding.h \
	src/ops/experts_combine.c src/ops/experts_combine.h \
	src/ops/experts_linear.c src/ops/experts_linear.h \
	src/ops/gelu.c src/ops/gelu.h \
	src/ops/kv_write.c src/ops/kv_write.h \
	src/ops/layernorm.c src/ops/layernorm.h \
	src/ops/linear.c src/ops/linear.h \
	src/ops/linear_add.c src/ops/linear_add.h \
	src/ops/norm_qkv.c src/ops/norm_qkv.h \
	src/ops/norm_swiglu.c src/ops/norm_swiglu.h \
	src/ops/normed.c src/ops/normed.h \
	src/ops/online_softmax.c src/ops/online_softmax.h \
	src/ops/ops.h \
	src/ops/precision.c \
	src/ops/rmsnorm.c src/ops/rmsnorm.h \
	src/ops/rope.c src/ops/rope.h \
	src/ops/router.c src/ops/router.h \
	src/ops/sample.c src/ops/sample.h \
	src/ops/sample_weight.h \
	src/ops/scratch.h \
	src/ops/sdpa.c src/ops/sdpa.h \
	src/ops/softmax.c src/ops/softmax.h \
	src/ops/swiglu.c src/ops/swiglu.h \
	src/ops/weight.h
