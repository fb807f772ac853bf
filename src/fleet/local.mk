libkigo_a_SOURCES += src/fleet/fleet.h src/fleet/place.c src/fleet/place.h
if WITH_LIBPQ
libkigo_a_SOURCES += \
	src/fleet/arrays.c src/fleet/arrays.h \
	src/fleet/bring.c \
	src/fleet/chunks.c \
	src/fleet/connection.c \
	src/fleet/find.c \
	src/fleet/internal.h \
	src/fleet/libpq.c src/fleet/libpq.h \
	src/fleet/parcel.c src/fleet/parcel.h \
	src/fleet/prune.c \
	src/fleet/push.c \
	src/fleet/reindex.c \
	src/fleet/roles.c \
	src/fleet/rows.c \
	src/fleet/schema.c \
	src/fleet/status.c \
	src/fleet/store.c
else
libkigo_a_SOURCES += src/fleet/fleet_none.c
endif
