#!/usr/bin/env bash
# Installs what this machine lacks: Debian packages (as root or with sudo; else it says which), and
# Python packages in .venv.
#     testing/setup.sh WHAT ...
# build: what `cargo xtask dist` takes; opencl: an OpenCL device (PoCL, if there is no other) and
# programs for it; full: all programs that are compared; containers: what makes one, in which the
# server's image is tried; systems: fresh ones of Debian, for packages; verbs: a virtual machine
# with RDMA; runtimes: Go and Java; piglit: tests of OpenCL; perftest, valgrind, browser: these.
set -eu
cd "$(dirname "$0")/.."
wants() { case " $what " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
what=$*
build='' opencl='' full=''
if wants build; then build=1; fi
if wants full; then full=1; fi
if wants opencl || wants full; then opencl=1; fi

packages=()
# What root runs may not be in the path of another user.
have() { PATH=$PATH:/usr/sbin:/sbin type "$@" >/dev/null 2>&1; }
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
if wants containers || wants systems; then
  have runc || packages+=(runc)
fi
if wants systems; then
  have debootstrap || packages+=(debootstrap)
  have musl-gcc || packages+=(musl-tools)
fi
if wants verbs; then
  have qemu-system-x86_64 || packages+=(qemu-system-x86)
  have busybox || packages+=(busybox-static)
  have rdma ip || packages+=(iproute2)
  have ibv_devices || packages+=(rdma-core ibverbs-providers ibverbs-utils)
  have modprobe depmod || packages+=(kmod)
  have cpio || packages+=(cpio)
fi
if wants runtimes; then
  have go || packages+=(golang-go)
  have javac || packages+=(default-jdk-headless)
fi
if wants piglit; then have piglit || packages+=(piglit); fi
if wants perftest; then have ib_write_bw || packages+=(perftest); fi
if wants valgrind; then have valgrind || packages+=(valgrind); fi
if wants browser; then have chromium || packages+=(chromium); fi
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
[ -z "$full" ] || wanted+=(lightgbm scikit-learn opencv-python-headless)
exec testing/venv.sh "${wanted[@]}"
