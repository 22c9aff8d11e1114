#!/usr/bin/env bash
# Runs every fuzz target of the module for the time given (default 10s each).
set -euo pipefail
time=${1:-10s}
cd "$(dirname "$0")/../.."
found=0
while IFS= read -r pkg; do
  targets=$(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true)
  for t in $targets; do
    found=$((found + 1))
    echo "fuzz $pkg $t $time"
    go test -run '^$' -fuzz "^$t\$" -fuzztime "$time" "$pkg"
  done
done < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
[ "$found" -gt 0 ] || { echo "no fuzz target was found"; exit 1; }
echo "$found fuzz targets, no crash"
