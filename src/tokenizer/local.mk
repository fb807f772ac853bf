libkigo_a_SOURCES += src/include/kigo/tokenizer.h
