libkigo_a_SOURCES += \
	src/include/kigo/model.h \
	src/model/dtype.h \
	src/model/gguf.h
libkigo_a_SOURCES += \
	src/model/dtype.c src/model/dtype_rows.h \
	src/model/dtype_e4m3.c \
	src/model/dtype_float.c \
	src/model/dtype_k.c \
	src/model/dtype_mxfp4.c \
	src/model/dtype_q4_q5.c \
	src/model/dtype_q8_0.c \
	src/model/gguf.c src/model/gguf_private.h \
	src/model/gguf_cursor.c \
	src/model/gguf_keys.c \
	src/model/gguf_parse_keys.c \
	src/model/gguf_parse_tensors.c \
	src/model/gguf_write.c \
	src/model/safetensors.c src/model/safetensors.h \
	src/model/safetensors_values.c

libkigo_a_SOURCES += \
	src/model/config.c src/model/config.h src/model/config_reader.h \
	src/model/config_layers.c src/model/config_rope.c \
	src/model/model.c \
	src/model/weights.c src/model/weights.h \
	src/model/yarn.c src/model/yarn.h

libkigo_a_SOURCES += \
	src/model/convert_vocab.c src/model/convert_vocab.h \
	src/model/vocab_kind.c \
	src/model/vocab_sentencepiece.c \
	src/model/vocab_source.c src/model/vocab_source.h

libkigo_a_SOURCES += \
	src/model/safetensors_write.c src/model/safetensors_write.h \
	src/model/synth.c src/model/synth.h \
	src/model/synth_shapes.c \
	src/model/synth_values.c src/model/synth_values.h

libkigo_a_SOURCES += \
	src/model/arch_keys.h \
	src/model/convert_config.c \
	src/model/convert_model.c src/model/convert_model.h \
	src/model/convert_plan.c src/model/convert_plan.h \
	src/model/convert_rules.c src/model/convert_rules.h \
	src/model/convert_values.c src/model/convert_values.h \
	src/model/hf_config.c src/model/hf_config.h src/model/hf_config_private.h \
	src/model/hf_folder.c src/model/hf_folder.h \
	src/model/hf_rope.c
