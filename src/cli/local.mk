kigo_SOURCES = \
	src/cli/commands.h \
	src/cli/main.c
kigo_LDADD = libkigo.a $(kigo_libs)
