libkigo_a_SOURCES += \
	src/convert/config.c \
	src/convert/file_type.c src/convert/file_type.h \
	src/convert/hf_config.c src/convert/hf_config.h \
	src/convert/hf_config_private.h \
	src/convert/hf_folder.c src/convert/hf_folder.h \
	src/convert/hf_rope.c \
	src/convert/model.c src/convert/model.h \
	src/convert/plan.c src/convert/plan.h \
	src/convert/quantize.c src/convert/quantize.h \
	src/convert/rounding.c src/convert/rounding.h \
	src/convert/rules.c src/convert/rules.h \
	src/convert/synth.c src/convert/synth.h \
	src/convert/synth_blocks.c src/convert/synth_blocks.h \
	src/convert/synth_plan.c \
	src/convert/synth_shapes.c \
	src/convert/synth_values.c src/convert/synth_values.h \
	src/convert/values.c src/convert/values.h \
	src/convert/vocab.c src/convert/vocab.h \
	src/convert/vocab_kind.c \
	src/convert/vocab_sentencepiece.c \
	src/convert/vocab_source.c src/convert/vocab_source.h
