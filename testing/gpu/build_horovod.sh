#!/usr/bin/env bash
# Builds a wheel of Horovod for the PyTorch that `python3` has, with NCCL as a shared library, which
# Busbar can stand in for (by itself Horovod links it statically):
#     testing/gpu/build_horovod.sh horovod-0.28.1.tar.gz FOLDER
# The first is the source as it is published; the wheel gets into FOLDER. Needs nvcc, cmake and the
# NCCL that PyTorch brings, and the packages cffi and cloudpickle.
set -euo pipefail
source=$(realpath "$1") out=$(realpath -m "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar xf "$source" -C "$work" --strip-components 1
cd "$work"
# PyTorch's headers are C++17 by now, and so is what includes them.
sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 17)/' CMakeLists.txt \
  horovod/torch/CMakeLists.txt
nccl=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0])')
mkdir -p nccl/lib
ln -s "$nccl/include" nccl/include
for name in libnccl.so libnccl.so.2; do ln -s "$nccl/lib/libnccl.so.2" "nccl/lib/$name"; done
CUDA_HOME=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")}
export CUDA_HOME CUDAToolkit_ROOT=$CUDA_HOME HOROVOD_CUDA_HOME=$CUDA_HOME
export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED HOROVOD_NCCL_HOME=$PWD/nccl
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_BUILD_CUDA_CC_LIST=${ARCHITECTURE:-90}
export CMAKE_POLICY_VERSION_MINIMUM=3.5 MAKEFLAGS=${MAKEFLAGS:--j$(nproc)}
# Its headers lack some that newer libraries do not bring along any more.
for header in string stdexcept cstdint functional memory; do
  CXXFLAGS="-include $header ${CXXFLAGS:-}"
done
export CXXFLAGS
python3 -m pip wheel -q --no-build-isolation --no-deps --no-index -w "$out" .
ls -l "$out"
