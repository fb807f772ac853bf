# KG_WITH_LIBMICROHTTPD: --with-libmicrohttpd=auto|yes|no. Sets LIBMICROHTTPD_CFLAGS, kg_libmicrohttpd_summary and
# the conditional WITH_LIBMICROHTTPD. Only the headers are needed: the library is loaded when kigo web asks for it
# (src/web/libmicrohttpd.h). Without it kigo web says so.
AC_DEFUN([KG_WITH_LIBMICROHTTPD], [
AC_ARG_WITH([libmicrohttpd],
  [AS_HELP_STRING([--with-libmicrohttpd=auto|yes|no], [build kigo web (auto: if libmicrohttpd is found)])],
  [], [with_libmicrohttpd=auto])
kg_libmicrohttpd_summary="no (kigo web says so)"
AS_IF([test "x$with_libmicrohttpd" != xno],
  [PKG_CHECK_MODULES([LIBMICROHTTPD], [libmicrohttpd >= 0.9.72], [kg_libmicrohttpd_summary=libmicrohttpd
      AC_DEFINE([HAVE_LIBMICROHTTPD], [1], [kigo web has its server])],
     [AS_IF([test "x$with_libmicrohttpd" = xyes], [KG_MISSING([libmicrohttpd], [libmicrohttpd-dev])])])])
AC_SUBST([LIBMICROHTTPD_CFLAGS])
AM_CONDITIONAL([WITH_LIBMICROHTTPD], [test "x$kg_libmicrohttpd_summary" = xlibmicrohttpd])
])
