#!/usr/bin/env bash
# Runs every fuzz target of the module for the time given (default 10s each).
set -euo pipefail
time=${1:-10s}
cd "$(dirname "$0")/../.."
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
found=0
for pkg in $packages; do
  listed=$(go test -list '^Fuzz' "$pkg") # a package that does not build ends the run
  for t in $listed; do
    case $t in Fuzz*) ;; *) continue ;; esac
    found=$((found + 1))
    echo "fuzz $pkg $t $time"
    go test -run '^$' -fuzz "^$t\$" -fuzztime "$time" "$pkg"
  done
done
[ "$found" -gt 0 ] || { echo "no fuzz target was found"; exit 1; }
echo "$found fuzz targets, no crash"
