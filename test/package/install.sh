#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: install.sh CMAKE BUILD_DIR [FAKE_CUDA]. Installs a build into a folder, moves that folder, and
# builds and runs a program against it, by pkg-config in C and C++ and by find_package. With the fake
# driver the programs of the pages follow (examples.sh).
set -euo pipefail
cmake=$1
build=$2
fake=${3:-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || {
  cat "$work/log"
  exit 1
}
mv "$work/first" "$work/second"
# The command finds the library from where it stands, and its manual is there.
"$work/second/bin/ductile" --version
[[ -s $work/second/share/man/man1/ductile.1 ]] || { printf 'ductile.1 was not installed\n' && exit 1; }
for file in bash-completion/completions/ductile zsh/site-functions/_ductile fish/vendor_completions.d/ductile.fish; do
  [[ -s $work/second/share/$file ]] || { printf '%s was not installed\n' "$file" && exit 1; }
done

# So does the library its worker, which finds the library.
if [[ -e $build/library/ductile-worker ]]; then
  worker=$(find "$work/second" -name ductile-worker -type f)
  [[ -x $worker ]] || { printf 'ductile-worker was not installed\n' && exit 1; }
  "$worker" --version
  [[ -s $work/second/share/man/man1/ductile-worker.1 ]]
  DUCTILE_ISOLATION=worker DUCTILE_LOG=compile:2 "$work/second/bin/ductile" bench test/cli/models/small.onnx \
    --dim batch=2 --dim seq=3 2>&1 | tee "$work/log" | tail -n 1
  grep -q 'worker [0-9]*: started' "$work/log" || { printf 'no worker was started\n' && exit 1; }
fi

# The provider for onnxruntime finds the library, and shows two names.
provider=$(find "$work/second" -name libductile-onnxruntime.so)
if [[ -e $build/onnxruntime/libductile-onnxruntime.so ]]; then
  [[ -n $provider ]] || { printf 'libductile-onnxruntime.so was not installed\n' && exit 1; }
  shown=$(nm -D --defined-only "$provider" | awk '{ print $3 }' | tr '\n' ' ')
  [[ $shown == 'CreateEpFactories ReleaseEpFactory ' ]] || { printf 'the provider shows %s\n' "$shown" && exit 1; }
  grep -q "libductile.so.1 => $work/second" <<<"$(LD_LIBRARY_PATH='' ldd "$provider")" ||
    { printf 'the provider does not find the library\n' && exit 1; }
fi

# Without the code generator's file all but making code works; packages need none.
generator=$(find "$work/second" -name libductile-jit.so)
if [[ -n $generator ]]; then
  "$work/second/bin/ductile" compile test/cli/models/small.onnx -o "$work/small.dtp" --dim batch=2 --dim seq=3 >"$work/log"
  mv "$generator" "$work/"
  "$work/second/bin/ductile" --version >"$work/log"
  "$work/second/bin/ductile" inspect test/cli/models/small.onnx >"$work/log"
  "$work/second/bin/ductile" inspect "$work/small.dtp" >"$work/log"
  "$work/second/bin/ductile" bench "$work/small.dtp" --dim batch=2 --dim seq=3 | tail -n 1
  if "$work/second/bin/ductile" bench test/cli/models/small.onnx --dim batch=2 --dim seq=3 >"$work/log" 2>&1 ||
    ! grep -q 'there is no code generator' "$work/log"; then
    printf 'without libductile-jit.so something was compiled:\n'
    cat "$work/log"
    exit 1
  fi
  mv "$work/libductile-jit.so" "$generator"
fi

cat >"$work/user.c" <<'TEXT'
#include <ductile/tensor.h>
#include <stdio.h>
int main(void) {
  dt_tensor_t *tensor = 0;
  const int64_t sizes[2] = {2, 3};
  dt_status_t status = dt_tensor_create_empty(DT_F32, 2, sizes, &tensor);
  printf("%s %d\n", dt_version(), (int)dt_tensor_count(tensor));
  dt_tensor_release(tensor);
  return status != 0;
}
TEXT
cp "$work/user.c" "$work/user.cc"

pc=$(find "$work/second" -name ductile.pc)
[[ -n $pc ]] || { printf 'ductile.pc was not installed\n' && exit 1; }
export PKG_CONFIG_PATH=${pc%/*}
version=$(pkg-config --modversion ductile)
libdir=$(pkg-config --variable=libdir ductile)
export LD_LIBRARY_PATH=$libdir
read -r -a flags < <(pkg-config --cflags --libs ductile)
"${CC:-gcc}" -std=c11 -Wall -Wextra -Werror -o "$work/user_c" "$work/user.c" "${flags[@]}"
"${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -o "$work/user_cc" "$work/user.cc" "${flags[@]}"

mkdir "$work/project"
cp "$work/user.c" examples/serve_onnx.c "$work/project/"
cat >"$work/project/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(Ductile 0.1 REQUIRED)
find_package(Threads REQUIRED)
add_executable(serve_onnx ${CMAKE_CURRENT_SOURCE_DIR}/serve_onnx.c)
target_link_libraries(serve_onnx PRIVATE Ductile::ductile Threads::Threads m)
add_executable(user user.c)
target_link_libraries(user PRIVATE Ductile::ductile)
if(TARGET Ductile::ductile_static)
  add_executable(user_static user.c)
  target_link_libraries(user_static PRIVATE Ductile::ductile_static)
endif()
TEXT
if ! {
  "$cmake" -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$work/second" &&
    "$cmake" --build "$work/project/build"
} >"$work/log" 2>&1; then
  cat "$work/log"
  exit 1
fi

# The server of docs/serving.md, as that page builds it.
"${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -o "$work/serve_pc" examples/serve_onnx.c "${flags[@]}" -lpthread -lm
if [[ -n $generator ]]; then
  for server in "$work/serve_pc" "$work/project/build/serve_onnx"; do
    "$server" test/cli/models/small.onnx 4 20 2 | grep '^80 requests, 0 failed, 0 wrong'
  done
fi

programs=("$work/user_c" "$work/user_cc" "$work/project/build/user")
if [[ -e $libdir/libductile.a ]]; then
  programs+=("$work/project/build/user_static")
  ! grep -q libductile <<<"$(ldd "$work/project/build/user_static")" || { printf 'user_static is not static\n' && exit 1; }
fi
for program in "${programs[@]}"; do
  answer=$("$program")
  printf '%s: %s\n' "${program##*/}" "$answer"
  [[ $answer == "$version 6" ]] || { printf 'expected: %s 6\n' "$version" && exit 1; }
done

# consumer/ finds the installed tree, and the build folder as it is.
consumer() {
  local how=$1 folder=$2
  shift 2
  if ! {
    "$cmake" -G Ninja -S test/package/consumer/package -B "$work/$folder" "$@" &&
      "$cmake" --build "$work/$folder"
  } >"$work/log" 2>&1; then
    cat "$work/log"
    exit 1
  fi
  for program in user_c user_cc user_static_c user_static_cc; do
    answer=$(env "${jit[@]}" "$work/$folder/$program" "$how")
    printf '%s, %s: %s\n' "$folder" "$program" "$answer"
    [[ $answer == "$version 1000010" ]] || { printf 'expected: %s 1000010\n' "$version" && exit 1; }
  done
}
how=evaluate
[[ -z $generator ]] || how=compile
jit=(LD_LIBRARY_PATH="$libdir")
consumer "$how" of_installed -DCMAKE_PREFIX_PATH="$work/second"
# What has the library in itself does not know the build folder.
jit=(LD_LIBRARY_PATH= DUCTILE_JIT=)
[[ -z $generator ]] || jit=(LD_LIBRARY_PATH= DUCTILE_JIT="$build/library/libductile-jit.so")
consumer "$how" of_build -DDuctile_DIR="$build"

[[ -z $fake ]] || "$(dirname "${BASH_SOURCE[0]}")/examples.sh" "$cmake" "$work/second" "$fake"
