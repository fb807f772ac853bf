# KG_ENABLE_SANITIZERS: --enable-asan, --enable-ubsan. Sets SANITIZER_FLAGS and kg_sanitizers.
AC_DEFUN([KG_ENABLE_SANITIZERS], [
AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan], [build with AddressSanitizer])], [], [enable_asan=no])
AC_ARG_ENABLE([ubsan], [AS_HELP_STRING([--enable-ubsan], [build with UndefinedBehaviorSanitizer])], [],
  [enable_ubsan=no])
SANITIZER_FLAGS=
kg_sanitizers=
AS_IF([test "x$enable_asan" = xyes],
  [SANITIZER_FLAGS="$SANITIZER_FLAGS -fsanitize=address"; kg_sanitizers="$kg_sanitizers address"])
AS_IF([test "x$enable_ubsan" = xyes],
  [SANITIZER_FLAGS="$SANITIZER_FLAGS -fsanitize=undefined -fno-sanitize-recover=undefined"
   kg_sanitizers="$kg_sanitizers undefined"])
AS_IF([test "x$SANITIZER_FLAGS" != x], [SANITIZER_FLAGS="$SANITIZER_FLAGS -fno-omit-frame-pointer"])
AC_SUBST([SANITIZER_FLAGS])
AM_CONDITIONAL([WITH_SANITIZERS], [test "x$SANITIZER_FLAGS" != x])
])

# KG_ENABLE_WERROR: warnings are errors where CI builds (--enable-werror).
AC_DEFUN([KG_ENABLE_WERROR], [
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat warnings as errors])], [], [enable_werror=no])
WARNING_FLAGS="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes"
AS_IF([test "x$enable_werror" = xyes], [WARNING_FLAGS="$WARNING_FLAGS -Werror"])
AC_SUBST([WARNING_FLAGS])
])

# KG_ENABLE_FUZZ: --enable-fuzz builds the libFuzzer targets (needs clang); everything is compiled to report its coverage.
AC_DEFUN([KG_ENABLE_FUZZ], [
AC_ARG_ENABLE([fuzz], [AS_HELP_STRING([--enable-fuzz], [build the libFuzzer targets; CC must be clang])], [],
  [enable_fuzz=no])
AS_IF([test "x$enable_fuzz" = xyes], [SANITIZER_FLAGS="$SANITIZER_FLAGS -fsanitize=fuzzer-no-link"])
AM_CONDITIONAL([WITH_FUZZ], [test "x$enable_fuzz" = xyes])
])
