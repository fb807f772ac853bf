# KG_WITH_STATIC_LIBRARIES: --with-static-libraries=auto|no. What every verb needs is linked from its archives where the
# machine has them, one library at a time: a check starts kigo some 6,000 times, and each start would load and bind them
# again.
AC_DEFUN([KG_WITH_STATIC_LIBRARIES], [
AC_ARG_WITH([static-libraries],
  [AS_HELP_STRING([--with-static-libraries=auto|no],
    [link SQLite, jansson, PCRE2, utf8proc, libcrypto and Zstandard from their archives (auto: those that are found)])],
  [], [with_static_libraries=auto])
AS_IF([test "x$with_static_libraries" != xno],
  [KG_ARCHIVE([SQLITE], [sqlite3_open])
   KG_ARCHIVE([JANSSON], [json_loads])
   KG_ARCHIVE([PCRE2], [pcre2_compile_8])
   KG_ARCHIVE([UTF8PROC], [utf8proc_map])
   KG_ARCHIVE([CRYPTO], [EVP_DigestInit_ex])
   KG_ARCHIVE([ZSTD], [ZSTD_decompress])])
])

# KG_ARCHIVE(NAME, FUNCTION): NAME_LIBS becomes the archive, if a program that calls FUNCTION links with it.
AC_DEFUN([KG_ARCHIVE], [
AC_MSG_CHECKING([for the archive of $$1_LIBS])
kg_libs=$LIBS kg_archive="-Wl,-Bstatic $$1_LIBS -Wl,-Bdynamic"
LIBS="$kg_archive -pthread -lm -ldl $LIBS"
AC_LINK_IFELSE([AC_LANG_CALL([], [$2])], [AC_MSG_RESULT([yes]); $1_LIBS=$kg_archive], [AC_MSG_RESULT([no])])
LIBS=$kg_libs
])
