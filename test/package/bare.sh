#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: bare.sh FOLDER WHEEL. The Debian packages of FOLDER in a bare Debian 12 that is made for it: each alone has what
# it needs, programs in C11 and C++17 run against them, and docs/serving.md is followed as it stands. Then, with none of
# them, the Python wheel, and docs/python.md. As root; from scripts/deb.
set -euo pipefail
packages=$(realpath "$1")
wheel=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $(id -u) -eq 0 ]] || { printf 'bare: only root can make a bare Debian\n' && exit 1; }

tree=$(mktemp -d)
chmod 755 "$tree"
trap 'rm -rf --one-file-system "$tree"' EXIT
fail() {
  printf 'bare: %s\n' "$*"
  exit 1
}
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DUCTILE_CACHE_DIR= chroot "$tree" "$@"; }

# The machine's own sources of this release.
codename=bookworm
# shellcheck disable=SC2016
sources=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
  awk -v c="$codename" '$2 ~ "^" c "(-updates|-security)?$" && $3 == "main" { print "deb", $1, $2, $3 }' | sort -u)
[[ -n $sources ]] || fail "no apt source of $codename is configured"
printf 'bare: making a Debian 12\n'
mmdebstrap --quiet --mode=root --variant=minbase --include=gcc,g++,libc6-dev,make,cmake,ninja-build,pkgconf \
  "$codename" "$tree" - <<<"$sources"
mkdir "$tree/packages" "$tree/sources"
cp "$packages"/*.deb "$wheel" "$tree/packages/"
git ls-files -z docs examples test/package test/cli/models debian/tests python/tests | xargs -0 cp --parents -t "$tree/sources"
printf 'bare: %s installed packages, %s\n' "$(inside dpkg-query -f '.\n' -W | wc -l)" "$(inside cat /etc/debian_version)"

# install NAME…: these, with nothing but what the tree has and what Debian has for them.
install() {
  local files=()
  for name in "$@"; do files+=("/packages/$(basename "$packages"/"${name}"_*.deb)"); done
  inside apt-get install -y -q --no-install-recommends "${files[@]}" >"$tree/log" 2>&1 || {
    cat "$tree/log"
    fail "$* cannot be installed"
  }
  printf 'bare: %s installed\n' "$*"
}

# Without the code generator all but making code works.
cp -r "$tree/sources/test/package/consumer" "$tree/consumer"
inside apt-get update -q >/dev/null 2>&1 || true
install libductile1
install libductile-onnxruntime
provider=$(inside find /usr/lib -name libductile-onnxruntime.so)
grep -q 'libductile.so.1 => /' <<<"$(inside ldd "$provider")" || fail 'the provider does not find the library'
install ductile
inside ductile --version
install libductile-dev
# shellcheck disable=SC2016
inside sh -c 'cc -std=c11 -o /user /consumer/user.c $(pkg-config --cflags --libs ductile)'
inside /user evaluate
answer=$(inside /user compile) && fail "there is no code generator, and yet it compiles: $answer"
grep -q 'there is no code generator' <<<"$answer" || fail "without a code generator it says $answer"

install libductile-jit1
if inside ldd "$(cd "$tree" && find usr/lib -name libductile-jit.so)" | grep LLVM; then fail 'LLVM is not inside'; fi
inside sh -c 'cd /sources && exec debian/tests/programs'
inside sh -c 'exec /sources/test/package/serving.sh /sources /usr'

install_all=$(inside sh -c "dpkg --audit && apt-get -q check && echo sound" | tail -n 1)
[[ $install_all == sound ]] || fail "$install_all"
inside apt-get remove -y -q libductile1 >/dev/null 2>&1
left=$(inside sh -c 'find / -xdev -path /sources -prune -o -path /packages -prune -o -name "*ductile*" -print' |
  grep -vE '^/(var/(lib|log|cache)|tmp|sources|packages|consumer)(/|$)' || true)
[[ -z $left ]] || fail "removed, and these are left: $left"

# Debian's own Python and numpy; the wheel needs nothing else, and no network.
inside apt-get install -y -q --no-install-recommends python3-venv python3-numpy >"$tree/log" 2>&1 || {
  cat "$tree/log"
  fail "Debian's Python cannot be installed"
}
inside python3 -m venv --system-site-packages /python
inside /python/bin/pip install -q --no-index --no-deps "/packages/${wheel##*/}"
inside /python/bin/python -B /sources/python/tests/test_docs.py /sources/docs/python.md
printf 'bare: all is well\n'
