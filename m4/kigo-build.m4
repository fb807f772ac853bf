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
CXX_WARNING_FLAGS="-Wall -Wextra"
AS_IF([test "x$enable_werror" = xyes],
  [WARNING_FLAGS="$WARNING_FLAGS -Werror"; CXX_WARNING_FLAGS="$CXX_WARNING_FLAGS -Werror"])
AC_SUBST([WARNING_FLAGS])
AC_SUBST([CXX_WARNING_FLAGS])
])

# KG_ENABLE_FUZZ: --enable-fuzz builds the libFuzzer targets (needs clang); everything is compiled to report its
# coverage.
AC_DEFUN([KG_ENABLE_FUZZ], [
AC_ARG_ENABLE([fuzz], [AS_HELP_STRING([--enable-fuzz], [build the libFuzzer targets; CC must be clang])], [],
  [enable_fuzz=no])
AS_IF([test "x$enable_fuzz" = xyes], [SANITIZER_FLAGS="$SANITIZER_FLAGS -fsanitize=fuzzer-no-link"])
AM_CONDITIONAL([WITH_FUZZ], [test "x$enable_fuzz" = xyes])
])

# KG_CHECK_CXX: whether $CXX compiles C++17, with the sanitizers of this build. The suites run device code with it on
# the host; without it those cases say so and skip. Sets kg_cxx_summary and the conditional WITH_CXX.
AC_DEFUN([KG_CHECK_CXX], [
AC_LANG_PUSH([C++])
kg_saved_cxxflags=$CXXFLAGS
CXXFLAGS="$CXXFLAGS -std=c++17 $SANITIZER_FLAGS"
AC_MSG_CHECKING([whether $CXX compiles C++17])
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <type_traits>]],
  [[if constexpr (std::is_same<int, long>::value) return 1;]])], [kg_has_cxx=yes], [kg_has_cxx=no])
AC_MSG_RESULT([$kg_has_cxx])
CXXFLAGS=$kg_saved_cxxflags
AC_LANG_POP([C++])
AS_IF([test $kg_has_cxx = yes], [kg_cxx_summary="$CXX $CXXFLAGS"], [kg_cxx_summary="no: some cases skip"])
AM_CONDITIONAL([WITH_CXX], [test $kg_has_cxx = yes])
])
