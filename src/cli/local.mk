kigo_SOURCES = \
	src/cli/commands.h \
	src/cli/main.c
kigo_SOURCES += src/cli/cmd_devices.c
kigo_LDADD = libkigo.a $(kigo_libs)
