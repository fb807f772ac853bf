# KG_BUILD_INFO: src/bundle/build_info.h, the facts of this configuration as C strings for a proof bundle's build.json.
AC_DEFUN([KG_BUILD_INFO], [
KG_C_STRING([KG_BUILD_CC], [$CC])
KG_C_STRING([KG_BUILD_CFLAGS], [$CFLAGS])
KG_C_STRING([KG_BUILD_WARNING_FLAGS], [$WARNING_FLAGS])
KG_C_STRING([KG_BUILD_CPPFLAGS], [$CPPFLAGS])
KG_C_STRING([KG_BUILD_LDFLAGS], [$LDFLAGS])
KG_C_STRING([KG_BUILD_SANITIZERS], [$kg_sanitizers])
KG_C_STRING([KG_BUILD_CUDA], [$kg_cuda_summary])
KG_C_STRING([KG_BUILD_CONFIGURE], [$ac_configure_args])
KG_PLACES
AC_CONFIG_FILES([src/bundle/build_info.h])
])

# KG_C_STRING(NAME, TEXT): substitutes TEXT so that it reads right between the quotes of a C string.
AC_DEFUN([KG_C_STRING], [
$1=$(AS_ECHO(["$2"]) | tr '\n\t' '  ' | sed 's/[[\\"]]/\\&/g; s/^ *//; s/ *$//')
AC_SUBST([$1])
])

# KG_PLACES: KG_PLACE_BIN, KG_PLACE_SUITES and KG_PLACE_DATA, the paths of bindir, libexecdir/kigo/suites and
# datadir/kigo from the nearest folder that holds all three: an installed kigo finds its parts from its own place,
# wherever the prefix was moved.
AC_DEFUN([KG_PLACES], [
kg_prefix=$prefix
test "x$kg_prefix" != xNONE || kg_prefix=$ac_default_prefix
kg_exec_prefix=$exec_prefix
test "x$kg_exec_prefix" != xNONE || kg_exec_prefix=$kg_prefix
KG_EXPANDED([KG_PLACE_BIN], [$bindir])
KG_EXPANDED([KG_PLACE_SUITES], [$libexecdir/kigo/suites])
KG_EXPANDED([KG_PLACE_DATA], [$datadir/kigo])
kg_common=$KG_PLACE_BIN
while test "x$kg_common" != x; do
  AS_CASE([$KG_PLACE_BIN/], ["$kg_common"/*],
    [AS_CASE([$KG_PLACE_SUITES/], ["$kg_common"/*],
      [AS_CASE([$KG_PLACE_DATA/], ["$kg_common"/*], [break])])])
  kg_common=${kg_common%/*}
done
KG_PLACE_BIN=${KG_PLACE_BIN#"$kg_common"}
KG_PLACE_BIN=${KG_PLACE_BIN#/}
KG_PLACE_SUITES=${KG_PLACE_SUITES#"$kg_common"/}
KG_PLACE_DATA=${KG_PLACE_DATA#"$kg_common"/}
AC_SUBST([KG_PLACE_BIN])
AC_SUBST([KG_PLACE_SUITES])
AC_SUBST([KG_PLACE_DATA])
])

# KG_EXPANDED(NAME, FOLDER): a folder of configure's, its ${prefix} and ${exec_prefix} filled in.
AC_DEFUN([KG_EXPANDED], [
$1=$(prefix=$kg_prefix; exec_prefix=$kg_exec_prefix
  eval "kg_dir=\"$2\""; eval "kg_dir=\"$kg_dir\""; AS_ECHO(["$kg_dir"]))
])
