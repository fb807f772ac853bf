libkigosuite_a_SOURCES += \
	suites/haiku/as_llama.c suites/haiku/as_llama.h \
	suites/haiku/bench.c \
	suites/haiku/corrupt.c suites/haiku/corrupt.h \
	suites/haiku/engine_poet.c \
	suites/haiku/evidence.c suites/haiku/evidence.h \
	suites/haiku/lexicon.c \
	suites/haiku/minute_words.c suites/haiku/minute_words.h \
	suites/haiku/paste_poet.c \
	suites/haiku/poem.c suites/haiku/poem.h \
	suites/haiku/poet.h \
	suites/haiku/request.c \
	suites/haiku/stage.c suites/haiku/stage.h \
	suites/haiku/transcript.c
check_PROGRAMS += suites/haiku/test_haiku suites/haiku/test_judge
suites_haiku_test_haiku_SOURCES = suites/haiku/test_haiku.c
suites_haiku_test_judge_SOURCES = suites/haiku/test_judge.c
