#!/bin/sh
# Finds the tailgate that the action runs, and says where as the step output `bin`. A binary on the runner is taken only if it
# is what it claims to be; otherwise the action builds its own source. Exit 2 says in one sentence what to do.
set -eu

fail() {
  printf 'tailgate: %s\n' "$1" >&2
  exit 2
}

wanted=$(cat "$GITHUB_ACTION_PATH/VERSION")
bin=${INPUT_BINARY_PATH:-}

if [ -n "$bin" ]; then
  case $bin in
    *'
'*) fail 'binary-path holds a line break.' ;;
    /*) ;;
    *) fail 'binary-path must be absolute.' ;;
  esac
  if ! [ -f "$bin" ] || ! [ -x "$bin" ]; then fail 'binary-path names no executable file.'; fi
  [ -z "$(find -L "$bin" -prune -type f \( -perm -020 -o -perm -002 \))" ] || fail 'binary-path can be written by others than its owner.'
  found=$("$bin" version) || fail 'the program at binary-path cannot say its version.'
  case $found in
    "tailgate $wanted "*) ;;
    *) fail "the program at binary-path is not tailgate $wanted, the version of this action." ;;
  esac
  printf 'tailgate %s: binary-path\n' "$wanted"
else
  command -v go >/dev/null || fail 'no Go on this runner to build tailgate with: install Go, or set binary-path.'
  bin=$RUNNER_TEMP/tailgate-bin/tailgate
  mkdir -p "${bin%/*}"
  cd "$GITHUB_ACTION_PATH"
  export GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off
  CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$bin" ./cmd/tailgate || fail 'tailgate could not be built from source.'
  # The GPU sensor needs a C compiler. Without one the report says that no GPU was observed.
  if command -v cc >/dev/null; then
    CGO_ENABLED=1 go build -trimpath -buildvcs=false -ldflags '-extldflags "-Wl,-z,lazy"' -o "${bin%/*}/tailgate-nvml" ./cmd/tailgate-nvml ||
      printf 'tailgate-nvml could not be built: no GPU will be observed\n'
  fi
  printf 'tailgate %s: built from source\n' "$wanted"
fi
printf 'bin=%s\n' "$bin" >>"$GITHUB_OUTPUT"
