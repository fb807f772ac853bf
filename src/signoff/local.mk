libkigo_a_SOURCES += \
	src/signoff/evidence.c src/signoff/evidence.h \
	src/signoff/figure.c \
	src/signoff/judge.c src/signoff/judge.h \
	src/signoff/report.c src/signoff/report.h \
	src/signoff/sprint.c src/signoff/sprint.h
