#!/usr/bin/env bash
# Runs the commands of README.md as they are written, in a fresh clone of HEAD:
# every block marked sh, in order, and compares its output with the block marked
# text that follows it. A line of three dots there stands for any lines. The block
# `make run` stays in the background until the end.
#   tour.sh        the README of HEAD
# It needs the ports that the README names, and kcat (installed where it can be).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
broker= current=

# end GROUP: stops a process group that this script started.
end() {
  if [ -n "$1" ] && kill -TERM -- "-$1" 2>/dev/null; then
    wait "$1" || true
  fi
}

finish() {
  local code=$?
  trap - EXIT
  end "$current"
  end "$broker"
  if [ $code -ne 0 ]; then
    echo "--- what make run printed"
    tail -n 40 "$work/broker.log" 2>/dev/null || true
    echo "tour FAILED"
  fi
  rm -rf "$work"
  exit $code
}
trap finish EXIT

for port in 9092 9644 9192 9193; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "port $port is in use; the tour needs it: stop what listens there"
    exit 1
  fi
done
for tool in kcat curl; do
  command -v $tool >/dev/null || apt-get install -y -q $tool ||
    { apt-get update -q && apt-get install -y -q $tool; }
done

# same EXPECTED ACTUAL: whether they agree.
same() {
  awk '
    NR == FNR { want[++n] = $0; next }
    { got[++m] = $0 }
    function agree(i, j, k) {
      for (; i <= n; i++) {
        if (want[i] == "...") {
          for (k = j; k <= m + 1; k++) if (agree(i + 1, k)) return 1
          return 0
        }
        if (j > m || got[j] != want[i]) return 0
        j++
      }
      return j > m
    }
    END { exit !agree(1, 1) }' "$1" "$2"
}

unset MILLRACE_BROKERS MILLRACE_USER MILLRACE_PASSWORD
git clone -q "$root" "$work/millrace"
cd "$work/millrace"
mkdir "$work/blocks"
awk -v dir="$work/blocks" '
  /^```sh$/   { n++; out = sprintf("%s/%02d.sh", dir, n); next }
  /^```text$/ { out = sprintf("%s/%02d.txt", dir, n); next }
  /^```/      { out = ""; next }
  out         { print > out }' README.md

grep -o '](\([^)#:]*\))' README.md | tr -d '()]' | sort -u | while read -r link; do
  [ -e "$link" ] || { echo "README.md links to $link, which does not exist"; exit 1; }
done

ran=0
for block in "$work"/blocks/*.sh; do
  echo "--- $(basename "$block" .sh)"
  sed 's/^/    /' "$block"
  if [ "$(cat "$block")" = "make run" ]; then
    setsid make run >"$work/broker.log" 2>&1 &
    broker=$!
    for _ in $(seq 1 600); do
      (exec 3<>/dev/tcp/127.0.0.1/9092) 2>/dev/null && break
      kill -0 $broker || { echo "make run has ended"; exit 1; }
      sleep 0.5
    done
    continue
  fi
  setsid timeout --foreground 300 bash -euo pipefail "$block" >"$work/out" 2>"$work/err" </dev/null &
  current=$!
  if ! wait "$current"; then
    echo "    FAILED:"
    cat "$work/out" "$work/err"
    exit 1
  fi
  end "$current"
  current=
  expected=${block%.sh}.txt
  if [ -e "$expected" ] && ! same "$expected" "$work/out"; then
    echo "    The README says:"
    sed 's/^/      /' "$expected"
    echo "    but this came:"
    sed 's/^/      /' "$work/out"
    exit 1
  fi
  ran=$((ran + 1))
done
[ $ran -ge 5 ] || { echo "only $ran blocks were found in README.md"; exit 1; }
echo "tour passed: $ran blocks of commands"
