#!/usr/bin/env bash
# Installs what this machine lacks: Debian packages (as root or with sudo; else it says which), and
# Python packages in .venv.
#     testing/setup.sh WHAT ...
# build: what `cargo xtask dist` takes; opencl: an OpenCL device (PoCL, if there is no other) and
# programs for it; full: all programs that are compared; containers: what makes one, in which the
# server's image is tried.
set -eu
cd "$(dirname "$0")/.."
case " $* " in *" build "*) build=1 ;; *) build= ;; esac
case " $* " in *" opencl "* | *" full "*) opencl=1 ;; *) opencl= ;; esac
case " $* " in *" full "*) full=1 ;; *) full= ;; esac
case " $* " in *" containers "*) containers=1 ;; *) containers= ;; esac

packages=()
have() { command -v "$1" >/dev/null 2>&1; }
# ldconfig may not be in the path of a user who is not root.
library() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q "$1 "; }
have cc && have gcc || packages+=(gcc libc6-dev)
have objdump || packages+=(binutils)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
if [ -n "$opencl" ]; then
  have clinfo || packages+=(clinfo)
  [ -e /usr/include/CL/cl.h ] || packages+=(opencl-headers)
  library 'libOpenCL\.so\.1' || packages+=(ocl-icd-libopencl1)
  library 'libOpenCL\.so' || packages+=(ocl-icd-opencl-dev)
  # Without clinfo, what drivers are registered has to do.
  if have clinfo; then
    clinfo -l 2>/dev/null | grep -q Device || packages+=(pocl-opencl-icd)
  else
    compgen -G '/etc/OpenCL/vendors/*.icd' >/dev/null || packages+=(pocl-opencl-icd)
  fi
fi
if [ -n "$containers" ]; then
  have runc || packages+=(runc)
fi
if [ -n "$full" ]; then
  have clpeak || packages+=(clpeak)
  have hashcat || packages+=(hashcat)
  have ffmpeg || packages+=(ffmpeg)
  have clblast_test_xaxpy || packages+=(clblast-tests)
  have g++ || packages+=(g++)
  [ -e /usr/include/viennacl/version.hpp ] || packages+=(libviennacl-dev)
fi

if [ ${#packages[@]} -gt 0 ]; then
  root=()
  [ "$(id -u)" = 0 ] || root=(sudo)
  if ! have apt-get || { [ "$(id -u)" != 0 ] && ! have sudo; }; then
    {
      echo "this machine lacks some packages. As root (these are Debian's names):"
      echo "    apt-get install --no-install-recommends ${packages[*]}"
      echo "then run this again"
    } >&2
    exit 1
  fi
  echo "   installing ${packages[*]}${root[*]:+, with sudo}"
  log=$(mktemp)
  if ! { "${root[@]}" apt-get update &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
    tail -5 "$log" >&2
    echo "could not install ${packages[*]}; the whole log is $log." >&2
    echo "Install them by other means and run this again" >&2
    exit 1
  fi
  rm -f "$log"
fi

wanted=()
[ -z "$build" ] || wanted+=(ziglang cargo-zigbuild)
[ -z "$opencl" ] || wanted+=(numpy mako pyopencl 'tinygrad==0.14.*')
[ -z "$full" ] || wanted+=(lightgbm scikit-learn)
exec testing/venv.sh "${wanted[@]}"
