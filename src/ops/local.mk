libkigo_a_SOURCES += \
	src/ops/add.h \
	src/ops/attention.h \
	src/ops/embedding.h \
	src/ops/kv_write.h \
	src/ops/linear.h \
	src/ops/ops.h \
	src/ops/rmsnorm.h \
	src/ops/rope.h \
	src/ops/swiglu.h \
	src/ops/weight.h
