libkigo_a_SOURCES += \
	src/include/kigo/bundle.h \
	src/bundle/archive.h \
	src/bundle/bag.c \
	src/bundle/beside.c src/bundle/beside.h \
	src/bundle/build.c \
	src/bundle/built_from.c src/bundle/built_from.h \
	src/bundle/chain.c src/bundle/chain.h \
	src/bundle/chain_links.c src/bundle/chain_links.h \
	src/bundle/chain_verify.c \
	src/bundle/checkpoint.c src/bundle/checkpoint.h \
	src/bundle/create.c \
	src/bundle/derived.c src/bundle/derived.h \
	src/bundle/environment.c \
	src/bundle/export.c src/bundle/export.h \
	src/bundle/git.c src/bundle/git.h \
	src/bundle/internal.h \
	src/bundle/journal.c \
	src/bundle/left_out.c src/bundle/left_out.h \
	src/bundle/limits.c src/bundle/limits.h \
	src/bundle/manifest.c src/bundle/manifest.h \
	src/bundle/payload.c \
	src/bundle/policy.c src/bundle/policy.h \
	src/bundle/plan.c \
	src/bundle/record_check.c \
	src/bundle/records.c src/bundle/records.h \
	src/bundle/recover.c \
	src/bundle/report.c \
	src/bundle/seal.c \
	src/bundle/sign.c src/bundle/sign.h \
	src/bundle/signed_off.c src/bundle/signed_off.h \
	src/bundle/source.c \
	src/bundle/source_commit.c src/bundle/source_commit.h \
	src/bundle/source_content.c src/bundle/source_content.h \
	src/bundle/places.c src/bundle/places.h \
	src/bundle/source_record.c src/bundle/source_record.h \
	src/bundle/source_tree.c src/bundle/source_tree.h \
	src/bundle/stamps.c src/bundle/stamps.h \
	src/bundle/standing.c src/bundle/standing.h \
	src/bundle/statement.c \
	src/bundle/stored.c src/bundle/stored.h \
	src/bundle/timestamp.c src/bundle/timestamp.h \
	src/bundle/transfer.c src/bundle/transfer.h \
	src/bundle/tree.c src/bundle/tree.h \
	src/bundle/verified.c src/bundle/verified.h \
	src/bundle/verify.c src/bundle/verify.h \
	src/bundle/verify_bag.c \
	src/bundle/verify_derived.c \
	src/bundle/verify_head.c \
	src/bundle/verify_records.c \
	src/bundle/verify_members.c src/bundle/verify_samples.c
EXTRA_DIST += proof-bundles/README.md

# Every make hashes the sources; the file changes only if they did. Not named .h: it is no source, wherever it is built.
EXTRA_DIST += build-aux/built-from
CLEANFILES += src/bundle/built_from.inc src/bundle/built_from.inc.list
src/bundle/built_from.$(OBJEXT): src/bundle/built_from.inc
src/bundle/built_from.inc: FORCE
	@$(MKDIR_P) $(@D) && $(SHELL) $(top_srcdir)/build-aux/built-from $(srcdir) $@
FORCE:
if WITH_LIBARCHIVE
libkigo_a_SOURCES += src/bundle/archive_read.c src/bundle/archive_source.c src/bundle/archive_source.h \
	src/bundle/archive_write.c src/bundle/libarchive.c src/bundle/libarchive.h
else
libkigo_a_SOURCES += src/bundle/archive_none.c
endif
