libkigosuite_a_SOURCES += \
	suites/haiku/lexicon.c \
	suites/haiku/minute_words.c suites/haiku/minute_words.h \
	suites/haiku/poem.c suites/haiku/poem.h
