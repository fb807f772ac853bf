libkigo_a_SOURCES += src/include/kigo/bundle.h
