# KG_WITH_LIBARCHIVE: --with-libarchive=auto|yes|no. Sets LIBARCHIVE_CFLAGS, kg_libarchive_summary and the conditional
# WITH_LIBARCHIVE. Only the headers are needed: the library is loaded when a verb asks for an archive
# (src/bundle/libarchive.h). Without it kigo export and kigo import say so.
AC_DEFUN([KG_WITH_LIBARCHIVE], [
AC_ARG_WITH([libarchive],
  [AS_HELP_STRING([--with-libarchive=auto|yes|no], [build kigo export and import (auto: if libarchive is found)])],
  [], [with_libarchive=auto])
kg_libarchive_summary="no (kigo export and import say so)"
AS_IF([test "x$with_libarchive" != xno],
  [PKG_CHECK_MODULES([LIBARCHIVE], [libarchive >= 3.3.3], [kg_libarchive_summary=libarchive],
     [AS_IF([test "x$with_libarchive" = xyes], [KG_MISSING([libarchive], [libarchive-dev])])])])
AC_SUBST([LIBARCHIVE_CFLAGS])
AM_CONDITIONAL([WITH_LIBARCHIVE], [test "x$kg_libarchive_summary" = xlibarchive])
])
