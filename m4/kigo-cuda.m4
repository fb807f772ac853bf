# KG_WITH_CUDA: --with-cuda=auto|yes|no|DIR
# Sets NVCC, NVCC_ARCH_FLAGS, CUDA_CPPFLAGS, CUDA_LIBS, kg_cuda_summary and the conditional WITH_CUDA.
# CUDA_ARCHS (environment or argument) lists compute capabilities such as "80 90a"; by default those of the GPUs
# present, without a GPU 90a and PTX of 80.
AC_DEFUN([KG_WITH_CUDA], [
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR], [build the CUDA back end (auto: if nvcc is found)])],
  [], [with_cuda=auto])
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([CUDA_ARCHS], [compute capabilities to build for, such as "80 90a"])
kg_cuda_dir=
AS_CASE([$with_cuda],
  [no], [NVCC=],
  [auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
  [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
AS_IF([test "x$NVCC" = x],
  [AS_CASE([$with_cuda], [no|auto], [],
     [AC_MSG_ERROR([nvcc not found for --with-cuda=$with_cuda; give the toolkit's folder or --with-cuda=no])])
   kg_cuda_summary=no],
  [kg_cuda_dir=$(cd "$(dirname "$(readlink -f "$NVCC")")/.." && pwd)
   AS_IF([test -d "$kg_cuda_dir/targets/x86_64-linux/lib"],
     [kg_cuda_lib=$kg_cuda_dir/targets/x86_64-linux/lib], [kg_cuda_lib=$kg_cuda_dir/lib64])
   # cuBLASLt itself is loaded when it is used, from the folder that -rpath names or where the system looks.
   kg_cublaslt=$kg_cuda_dir/include/cublasLt.h
   AS_IF([test ! -f "$kg_cublaslt"],
     [AC_MSG_ERROR([$kg_cublaslt is missing: install cuBLAS's development files beside nvcc, or give --with-cuda=no])])
   CUDA_CPPFLAGS="-isystem $kg_cuda_dir/include"
   # Of the run-time library of C++ cudart needs little: linked, it is bound at every start of kigo. A machine may lack
   # the archive.
   AC_MSG_CHECKING([for libstdc++.a])
   kg_stdcxx="-Wl,-Bstatic -lstdc++ -Wl,-Bdynamic" kg_libs=$LIBS
   LIBS="$LIBS $kg_stdcxx"
   AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no]); kg_stdcxx=-lstdc++])
   LIBS=$kg_libs
   CUDA_LIBS="-L$kg_cuda_lib -Wl,-rpath,$kg_cuda_lib -lcudart_static $kg_stdcxx -lpthread -ldl -lrt"
   AC_MSG_CHECKING([for GPU architectures to build for])
   AS_IF([test "x$CUDA_ARCHS" = x],
     [CUDA_ARCHS=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -u |
        sed 's/^90$/90a/' | tr '\n' ' ')])
   NVCC_ARCH_FLAGS=
   AS_IF([test "x$CUDA_ARCHS" = x],
     [CUDA_ARCHS="90a"
      NVCC_ARCH_FLAGS="-gencode=arch=compute_80,code=compute_80"])
   for kg_arch in $CUDA_ARCHS; do
     NVCC_ARCH_FLAGS="$NVCC_ARCH_FLAGS -gencode=arch=compute_$kg_arch,code=sm_$kg_arch"
   done
   AC_MSG_RESULT([$CUDA_ARCHS])
   kg_cuda_summary="$NVCC ($CUDA_ARCHS)"])
AC_SUBST([NVCC_ARCH_FLAGS])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_LIBS])
AM_CONDITIONAL([WITH_CUDA], [test "x$NVCC" != x])
])
