#!/usr/bin/env bash
# Installs what testing/e2e/opencl_programs.py needs and this machine lacks: an OpenCL device (PoCL,
# when there is no other), a C compiler, and Python packages in .venv.
#     opencl_setup.sh [--quick | --full]
set -u
cd "$(dirname "$0")/../.." || exit 1
mode=${1:-}

packages=()
have() { command -v "$1" >/dev/null 2>&1; }
have gcc || packages+=(gcc libc6-dev)
have clinfo || packages+=(clinfo)
[ -e /usr/include/CL/cl.h ] || packages+=(opencl-headers)
ldconfig -p | grep -q 'libOpenCL\.so\.1 ' || packages+=(ocl-icd-libopencl1)
ldconfig -p | grep -q 'libOpenCL\.so ' || packages+=(ocl-icd-opencl-dev)
if ! have clinfo || ! clinfo -l 2>/dev/null | grep -q Device; then packages+=(pocl-opencl-icd); fi
have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
if [ "$mode" = --full ]; then
  have clpeak || packages+=(clpeak)
  have hashcat || packages+=(hashcat)
  have ffmpeg || packages+=(ffmpeg)
  have clblast_test_xaxpy || packages+=(clblast-tests)
  have g++ || packages+=(g++)
  [ -e /usr/include/viennacl/version.hpp ] || packages+=(libviennacl-dev)
fi
if [ ${#packages[@]} -gt 0 ]; then
  if have apt-get && [ "$(id -u)" = 0 ]; then
    echo "installing ${packages[*]}"
    log=$(mktemp)
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive \
           apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
      tail -5 "$log" >&2
      echo "could not install ${packages[*]}; the whole log is $log" >&2
      exit 1
    fi
    rm -f "$log"
  else
    echo "this machine lacks some packages; as root (Debian's names):" >&2
    echo "    apt-get install --no-install-recommends ${packages[*]}" >&2
    exit 1
  fi
fi

python=.venv/bin/python
[ -x $python ] || { echo "making .venv"; python3 -m venv .venv || exit 1; }
modules=(numpy mako pyopencl tinygrad)
wanted=(numpy mako pyopencl 'tinygrad==0.14.*')
if [ "$mode" = --full ]; then
  modules+=(lightgbm sklearn)
  wanted+=(lightgbm scikit-learn)
fi
missing=()
for i in "${!modules[@]}"; do
  $python -c "import importlib.util as u, sys; sys.exit(not u.find_spec('${modules[i]}'))" ||
    missing+=("${wanted[i]}")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${missing[*]} in .venv"
  $python -m pip install --quiet --disable-pip-version-check "${missing[@]}" || exit 1
fi
