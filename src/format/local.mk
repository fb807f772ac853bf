libkigo_a_SOURCES += \
	src/format/dtype.c src/format/dtype.h \
	src/format/dtype_e4m3.c \
	src/format/dtype_float.c \
	src/format/dtype_k.c \
	src/format/dtype_mxfp4.c \
	src/format/dtype_q4_q5.c \
	src/format/dtype_q8_0.c \
	src/format/encode_blocks.c \
	src/format/fit.c src/format/fit.h \
	src/format/dtype_rows.h \
	src/format/gguf.c src/format/gguf.h \
	src/format/gguf_cursor.c \
	src/format/gguf_keys.c \
	src/format/gguf_parse_keys.c \
	src/format/gguf_parse_tensors.c \
	src/format/gguf_private.h \
	src/format/gguf_write.c \
	src/format/safetensors.c src/format/safetensors.h \
	src/format/safetensors_values.c \
	src/format/safetensors_write.c src/format/safetensors_write.h
