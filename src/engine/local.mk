libkigo_a_SOURCES += \
	src/include/kigo/engine.h \
	src/engine/conversation.c src/engine/conversation.h \
	src/engine/forward.c \
	src/engine/generate.c \
	src/engine/kv_cache.c src/engine/kv_cache.h \
	src/engine/op_workspace.c src/engine/op_workspace.h \
	src/engine/pipeline.c src/engine/pipeline.h \
	src/engine/plan.c src/engine/plan.h \
	src/engine/prompt.c src/engine/prompt.h \
	src/engine/prompt_cache.c src/engine/prompt_cache.h \
	src/engine/sampler.c src/engine/sampler.h \
	src/engine/session.c src/engine/session.h
