#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: completion.sh DUCTILE bash|zsh|fish. What the shell answers on lines of the command, with the completion
# that the command prints. 77 where there is no such shell.
#
# Functions are called by name, and what stands in single quotes is for other shells.
# shellcheck disable=SC2016,SC2317
set -euo pipefail
ductile=$(realpath "$1")
shell=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$ductile" completion "$shell" >"$work/completion"
if ! command -v "$shell" >/dev/null; then
  printf 'SKIP: there is no %s\n' "$shell"
  exit 77
fi
"$shell" -n "$work/completion"

mkdir "$work/at"
cd "$work/at"
mkdir folder
touch model.onnx 'my model.onnx' data.npy
failures=0

# The words that the shell offers for the line, sorted, in one line with commas.
offers_of_bash() {
  bash --norc -c '
    . "$1"
    IFS=" " read -r -a COMP_WORDS <<<"$(sed "s/=/ = /g; s/  / /g" <<<"$2")"
    [[ $2 != *" " ]] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMP_WORDBREAKS=" =:"
    if [[ -n ${3:-} ]]; then
      IFS=" " read -r -a COMP_WORDS <<<"$2"
      COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
      COMP_WORDBREAKS=" :"
    fi
    _ductile
    [[ ${#COMPREPLY[@]} -eq 0 ]] || printf "%s\n" "${COMPREPLY[@]}"' _ "$work/completion" "$@"
}
offers_of_fish() {
  HOME="$work" XDG_CONFIG_HOME="$work" fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$work/completion" "$1" |
    cut -f 1
}
offers() { # LINE EXPECTED [OPTION]
  local answer
  answer=$("offers_of_$shell" "$1" "${@:3}" | sed 's@/$@@' | LC_ALL=C sort -u | paste -sd, -)
  if [[ $answer != "$2" ]]; then
    printf '"%s": %s offers "%s", expected "%s"\n' "$1" "$shell" "$answer" "$2"
    failures=$((failures + 1))
  fi
}

commands=$("$ductile" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | LC_ALL=C sort)
options_of() {
  "$ductile" "$1" --help | sed -nE 's/^  (--[a-z0-9-]+).*/\1/p' | LC_ALL=C sort | paste -sd, -
}

if [[ $shell == zsh ]]; then
  # As a file that is loaded, and as one that is read: the function is known to the shell's completion.
  cp "$work/completion" "$work/_ductile"
  for way in 'fpath=($1 $fpath); autoload -Uz compinit; compinit -u -D' 'autoload -Uz compinit; compinit -u -D; . $1/_ductile'; do
    known=$(HOME="$work" zsh -f -c "$way"'; print -r -- $_comps[ductile]' _ "$work" 2>&1)
    [[ $known == _ductile ]] || { printf 'zsh: %s\n' "$known" && failures=$((failures + 1)); }
  done
  for command in $commands; do
    for option in $("$ductile" "$command" --help | sed -nE 's/^  --([a-z0-9-]+).*/\1/p'); do
      grep -qE -- "--$option(=)?\[" <<<"$(sed -n "/^    $command)/,/;;/p" "$work/completion")" || {
        printf 'zsh: %s has no --%s\n' "$command" "$option"
        failures=$((failures + 1))
      }
    done
  done
  exit "$((failures > 0))"
fi

named=x=
[[ $shell == fish ]] || named=
offers 'ductile ' "$(paste -sd, - <<<"$commands")"
offers 'ductile be' bench
offers 'ductile --' --help,--version
for command in $commands; do offers "ductile $command --" "$(options_of "$command")"; done
offers 'ductile bench --mo' --mode
offers 'ductile bench --mode ' default,plain,reduce-overhead
offers 'ductile bench --mode p' plain
offers 'ductile run --device c' cpu,cuda
offers 'ductile cache ' drop,gc,ls,verify
offers 'ductile cache drop --kind t' tuned
offers 'ductile completion f' fish
offers 'ductile run m' 'model.onnx,my model.onnx'
offers 'ductile run --data f' folder
offers 'ductile check f' folder
offers 'ductile check d' ''
offers 'ductile compile -o d' data.npy
offers 'ductile run --threads ' ''
offers 'ductile run --input x=d' "${named}data.npy"
if [[ $shell == bash ]]; then
  offers 'ductile bench --mode=p' plain
  offers 'ductile run --input=x=d' data.npy
  offers 'ductile bench --mode=p' --mode=plain whole
  offers 'ductile run --input x=d' x=data.npy whole
  offers 'ductile nope ' ''
  offers 'ductile run run' ''
  answer=$(bash --norc -c '. "$1"; complete -p ductile' _ "$work/completion")
  [[ $answer == *'-F _ductile ductile' ]] || { printf '%s\n' "$answer" && failures=$((failures + 1)); }
fi
exit "$((failures > 0))"
