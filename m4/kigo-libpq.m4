# KG_WITH_LIBPQ: --with-libpq=auto|yes|no. Sets LIBPQ_CFLAGS, kg_libpq_summary and the conditional WITH_LIBPQ. Only the
# headers are needed: the library is loaded when a verb asks for a fleet (src/fleet/libpq.h). Without it kigo fleet,
# push and pull say so.
AC_DEFUN([KG_WITH_LIBPQ], [
AC_ARG_WITH([libpq],
  [AS_HELP_STRING([--with-libpq=auto|yes|no], [build kigo fleet, push and pull (auto: if libpq is found)])],
  [], [with_libpq=auto])
kg_libpq_summary="no (kigo fleet, push and pull say so)"
AS_IF([test "x$with_libpq" != xno],
  [PKG_CHECK_MODULES([LIBPQ], [libpq >= 13], [kg_libpq_summary=libpq
      AC_DEFINE([HAVE_LIBPQ], [1], [libpq has headers here])],
     [AS_IF([test "x$with_libpq" = xyes], [KG_MISSING([libpq], [libpq-dev])])])])
AC_SUBST([LIBPQ_CFLAGS])
AM_CONDITIONAL([WITH_LIBPQ], [test "x$kg_libpq_summary" = xlibpq])
])
