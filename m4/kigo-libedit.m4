# KG_WITH_LIBEDIT: --with-libedit=auto|yes|no. Sets LIBEDIT_CFLAGS, kg_libedit_summary and the conditional WITH_LIBEDIT.
# Only the headers are needed: the library is loaded when a person types (src/cli/libedit.h). Without it the lines of
# `kigo chat` have no history, and the editing of the terminal alone.
AC_DEFUN([KG_WITH_LIBEDIT], [
AC_ARG_WITH([libedit],
  [AS_HELP_STRING([--with-libedit=auto|yes|no], [line editing and history in kigo chat (auto: if libedit is found)])],
  [], [with_libedit=auto])
kg_libedit_summary="no (kigo chat has no history)"
AS_IF([test "x$with_libedit" != xno],
  [PKG_CHECK_MODULES([LIBEDIT], [libedit >= 3.0], [kg_libedit_summary=libedit
      AC_DEFINE([HAVE_LIBEDIT], [1], [kigo chat has line editing and a history])],
     [AS_IF([test "x$with_libedit" = xyes], [KG_MISSING([libedit], [libedit-dev])])])])
AC_SUBST([LIBEDIT_CFLAGS])
AM_CONDITIONAL([WITH_LIBEDIT], [test "x$kg_libedit_summary" = xlibedit])
])
