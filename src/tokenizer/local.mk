libkigo_a_SOURCES += \
	src/include/kigo/tokenizer.h \
	src/tokenizer/bpe.c src/tokenizer/bpe.h \
	src/tokenizer/byte_level.c src/tokenizer/byte_level.h \
	src/tokenizer/char_class.c src/tokenizer/char_class.h \
	src/tokenizer/chat.c src/tokenizer/chat.h \
	src/tokenizer/chat_chatml.c \
	src/tokenizer/chat_gemma.c \
	src/tokenizer/chat_harmony.c \
	src/tokenizer/chat_phi3.c \
	src/tokenizer/chat_qwen3.c \
	src/tokenizer/decode.c \
	src/tokenizer/encode.c \
	src/tokenizer/load.c \
	src/tokenizer/load_added.c \
	src/tokenizer/normalize.c src/tokenizer/normalize.h \
	src/tokenizer/pre_kinds.c \
	src/tokenizer/pretokenize.c src/tokenizer/pretokenize.h \
	src/tokenizer/sentencepiece.c src/tokenizer/sentencepiece.h \
	src/tokenizer/special.c src/tokenizer/special.h \
	src/tokenizer/text_map.c src/tokenizer/text_map.h \
	src/tokenizer/text_stream.c \
	src/tokenizer/tokenizer.h
