#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: files.sh DUCTILE. What ductile run writes it reads again, and so does Python's own reader of
# archives; a file that cannot be written whole is left as it was.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
# expect STATUS PATTERN ARGUMENT…: ductile run ends so and says PATTERN.
expect() {
  local expected=$1 pattern=$2 status=0 said
  shift 2
  said=$("$ductile" run "$@" 2>&1) || status=$?
  if [[ $status -ne $expected || $said != *"$pattern"* ]]; then
    printf 'ductile run %s: status %s, expected %s with "%s"; it said: %s\n' "$*" "$status" \
      "$expected" "$pattern" "$said"
    failures=$((failures + 1))
  fi
}

x=(--input "x=values:1,2,3,4,5,6:2x3" --input "y=values:1,0,-9")
expect 0 '' models/sum.onnx "${x[@]}" --output "z=$work/z.npy"
expect 0 '2 2 0 5 5 0' models/sum.onnx --input "x=$work/z.npy" --input y=zeros
expect 0 '' models/both.onnx "${x[@]}" --output "s=$work/both.npz" --output "d=$work/both.npz" \
  --output "0=$work/s.npy"
expect 0 '0 2 12' models/sum.onnx --input "x=$work/both.npz:d" --input y=zeros
expect 0 '2 2 -6 5 5 -3' models/both.onnx --input "x=$work/both.npz:s.npy" --input y=zeros
expect 1 "no member is called 'x.npy'" models/sum.onnx --input "x=$work/both.npz" --input y=zeros
python3 -m zipfile -t "$work/both.npz" >/dev/null || failures=$((failures + 1))

# Archives as Python writes them, deflated.
(cd "$work" && cp z.npy x.npy && python3 - <<'TEXT'
import zipfile
with zipfile.ZipFile("packed.npz", "w", zipfile.ZIP_DEFLATED) as archive:
    with archive.open("x.npy", "w", force_zip64=True) as member:
        member.write(open("x.npy", "rb").read())
TEXT
)
expect 0 '2 2 0 5 5 0' models/sum.onnx --input "x=$work/packed.npz" --input y=zeros

# One result in several files, each once; what is wrong is told before anything runs.
expect 0 '' models/sum.onnx "${x[@]}" --output "z=$work/1.npy" --output "z=$work/2.npy" --output "0=$work/3.npz"
cmp "$work/1.npy" "$work/2.npy" || failures=$((failures + 1))
expect 0 '2 2 0 5 5 0' models/sum.onnx --input "x=$work/3.npz:z" --input y=zeros
for file in "$work/one.npy" "$work/one.npz"; do
  expect 2 'given twice; another file may take it, too' models/sum.onnx "${x[@]}" --output "z=$file" --output "0=$file"
done
expect 2 'no file; expected NAME=FILE' models/sum.onnx "${x[@]}" --output z=
expect 2 'two outputs would go there' models/both.onnx "${x[@]}" --output "s=$work/one.npy" \
  --output "d=$work/one.npy"
expect 2 'ends neither in .npy nor in .npz' models/sum.onnx "${x[@]}" --output "z=$work/z.txt"
expect 1 'No such file or directory' models/sum.onnx "${x[@]}" --output "z=$work/no/z.npy"
[[ ! -e $work/one.npy && ! -e $work/one.npz ]] || failures=$((failures + 1))
# A file's sizes and those of --dim.
expect 1 'dim 0 is 2 here and 7 by --dim batch=7; give one of them' models/sum.onnx --input "x=$work/z.npy" \
  --input y=zeros --dim batch=7
expect 0 '2 2 0 5 5 0' models/sum.onnx --input "x=$work/z.npy" --input y=zeros --dim batch=2
printf 'no tensor' >"$work/bad.npy"
mkfifo "$work/pipe.npy"
expect 1 'not a .npy file' models/sum.onnx --input "x=$work/bad.npy" --input y=zeros
expect 1 'not a regular file' models/sum.onnx --input "x=$work/pipe.npy" --input y=zeros
[[ -z $(find "$work" -name '*.part') ]] || failures=$((failures + 1))
printf '%d failures\n' "$failures"
[[ $failures -eq 0 ]]
