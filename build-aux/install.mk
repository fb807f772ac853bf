# What make install brings beyond kigo and its manual page: the library, completions, and the suites with what they
# read, so that the installed `kigo check` works anywhere (src/bundle/places.c finds them). The suites keep the folders
# they have in a build, without debugging symbols; share/kigo is laid out like the source tree, with what make made of
# the fixtures.
EXTRA_DIST += build-aux/check-install build-aux/kigo.pc.in build-aux/Containerfile build-aux/debian
kigoincludedir = $(includedir)/kigo
kigoinclude_HEADERS = src/include/kigo/backend.h src/include/kigo/bundle.h src/include/kigo/engine.h \
	src/include/kigo/history.h src/include/kigo/model.h src/include/kigo/ops.h src/include/kigo/status.h \
	src/include/kigo/tokenizer.h
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = build-aux/kigo.pc
dist_doc_DATA = README.md LICENSE docs/generate.c

bash_completions = build-aux/completions/kigo
zsh_completions = build-aux/completions/_kigo
fish_completions = build-aux/completions/kigo.fish
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
fishcompletiondir = $(datadir)/fish/vendor_completions.d
bashcompletion_DATA = $(bash_completions)
zshcompletion_DATA = $(zsh_completions)
fishcompletion_DATA = $(fish_completions)
CLEANFILES += $(bash_completions) $(zsh_completions) $(fish_completions)
print_completions = $(AM_V_GEN)$(MKDIR_P) $(@D) && ./kigo$(EXEEXT) help --completions
$(bash_completions): kigo$(EXEEXT)
	$(print_completions) bash >$@.part && mv $@.part $@
$(zsh_completions): kigo$(EXEEXT)
	$(print_completions) zsh >$@.part && mv $@.part $@
$(fish_completions): kigo$(EXEEXT)
	$(print_completions) fish >$@.part && mv $@.part $@

suites_to = $(DESTDIR)$(libexecdir)/kigo
share_to = $(DESTDIR)$(datadir)/kigo
suite_libraries = suites/support/fake_nvml.so suites/support/fault_injector.so
shared_sources = fixtures/README.md fixtures/*/ suites/sprints suites/bench/peers suites/tolerance/peers
tar_in = tar -cf - --owner=0 --group=0 --mode=u=rwX,go=rX --exclude=__pycache__
tar_out = tar -xmf - --no-same-owner

noinst_PROGRAMS += src/bundle/record_source
src_bundle_record_source_SOURCES = src/bundle/record_source.c
src_bundle_record_source_LDADD = libkigo.a $(kigo_libs)

install-exec-local:
	@echo " installing suites in $(suites_to)"
	@$(MKDIR_P) "$(suites_to)"
	@$(tar_in) $(check_PROGRAMS) $(suite_libraries) | (cd "$(suites_to)" && $(tar_out))
	@cd "$(suites_to)" && $(STRIP) -g $(check_PROGRAMS)

install-data-local:
	@echo " installing fixtures in $(share_to)"
	@$(MKDIR_P) "$(share_to)"
	@(cd $(srcdir) && $(tar_in) --exclude=fixtures/unpacked $(shared_sources)) | (cd "$(share_to)" && $(tar_out))
	@$(tar_in) $(unpacked) $(vocabularies) | (cd "$(share_to)" && $(tar_out))
	@src/bundle/record_source$(EXEEXT) $(srcdir) "$(share_to)"

# The folders of its own go too, if nobody else put anything there.
uninstall-local:
	rm -rf "$(suites_to)" "$(share_to)"
uninstall-hook:
	-rmdir "$(DESTDIR)$(kigoincludedir)" "$(DESTDIR)$(docdir)" 2>/dev/null

# What is installed, tried as its users do: a few cases of `kigo check`, a program with the library, completions. CASES
# are those of kigo check.
CASES = unit/gguf/*
installcheck-local:
	@CC='$(CC)' $(srcdir)/build-aux/check-install "$(DESTDIR)" '$(bindir)' '$(libdir)' '$(includedir)' \
		'$(datadir)' '$(mandir)' '$(docdir)' '$(CASES)' '$(srcdir)'

# Debian packages of this release, built in a folder of their own: kigo with its suites, and libkigo-dev. DEB_CONFIGURE
# reaches configure; DEB_OUT is where the packages go; DEBFULLNAME and DEBEMAIL name who maintains them.
DEB_CONFIGURE = --with-cuda=no
DEB_OUT = .
deb:
	rm -rf deb-build && $(MKDIR_P) deb-build "$(DEB_OUT)"
	$(MAKE) distdir distdir=deb-build/kigo-$(PACKAGE_VERSION)
	cp -R $(srcdir)/build-aux/debian deb-build/kigo-$(PACKAGE_VERSION)/debian
	chmod -R u+w deb-build && chmod +x deb-build/kigo-$(PACKAGE_VERSION)/debian/rules
	stamp=`LC_ALL=C date -R -d "@$${SOURCE_DATE_EPOCH:-$$(date +%s)}"` && \
		sed -i -e 's/RELEASE/$(PACKAGE_VERSION)/' -e "s/TODAY/$$stamp/" deb-build/kigo-$(PACKAGE_VERSION)/debian/changelog
	cd deb-build/kigo-$(PACKAGE_VERSION)/debian && \
		sed -i "s/MAINTAINER/$${DEBFULLNAME:-kigo maintainers} <$${DEBEMAIL:-maintainers@localhost.localdomain}>/" \
			changelog control
	cd deb-build/kigo-$(PACKAGE_VERSION) && KIGO_CONFIGURE='$(DEB_CONFIGURE)' dpkg-buildpackage -b -us -uc
	mv deb-build/*.deb "$(DEB_OUT)" && rm -rf deb-build
.PHONY: deb
