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
AC_CONFIG_FILES([src/bundle/build_info.h])
])

# KG_C_STRING(NAME, TEXT): substitutes TEXT so that it reads right between the quotes of a C string.
AC_DEFUN([KG_C_STRING], [
$1=$(AS_ECHO(["$2"]) | tr '\n\t' '  ' | sed 's/[[\\"]]/\\&/g; s/^ *//; s/ *$//')
AC_SUBST([$1])
])
