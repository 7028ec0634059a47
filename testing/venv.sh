#!/usr/bin/env bash
# Makes .venv, or mends it where it was left half made, and installs in it what it lacks of these.
#     testing/venv.sh [REQUIREMENT ...]
set -eu
cd "$(dirname "$0")/.."
python=.venv/bin/python

if ! $python -m pip --version >/dev/null 2>&1; then
  if ! said=$(python3 -m venv --clear .venv 2>&1); then
    rm -rf .venv
    echo "$said" >&2
    echo "python3 makes no virtual environment here (on Debian: apt-get install python3-venv)" >&2
    exit 1
  fi
fi

missing=()
while read -r requirement; do
  [ -z "$requirement" ] || missing+=("$requirement")
done < <($python - "$@" <<'EOF'
import importlib.metadata as metadata
import re
import sys

for requirement in sys.argv[1:]:
    try:
        metadata.version(re.split("[=<>~]", requirement)[0])
    except metadata.PackageNotFoundError:
        print(requirement)
EOF
)
[ ${#missing[@]} -gt 0 ] || exit 0
echo "   installing ${missing[*]} in .venv" >&2
$python -m pip install --quiet --disable-pip-version-check --retries 2 "${missing[@]}" || {
  echo "could not install ${missing[*]}: what pip says is above. It needs a network;" \
    "after an interrupted run, remove .venv" >&2
  exit 1
}
