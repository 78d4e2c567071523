#!/bin/sh
# A host compiler that keeps its outputs in $STORE, like ccache, and writes to $COMPILES when it starts and ends; these
# tests are about Regard's cache, not about g++.
if [ "$1" = -v ]; then
  echo "torture version 1 (build ${BUILD:-1})" >&2
  echo "Target: here" >&2
  exit 0
fi
echo "start $$" >>"$COMPILES"
for word; do source=$word; done
while [ "$1" != -o ]; do
  options="$options $1"
  shift
done
output=$2
[ -z "$PAUSE" ] || sleep "$PAUSE"
if [ -n "$FAILS" ]; then
  echo "kernel.cpp:1: error: no" >&2
  echo "end $$" >>"$COMPILES"
  exit 3
fi
set -- $({ echo "$options"; cat "$source"; } | sha256sum)
made=$STORE/$1.so
if [ ! -e "$made" ]; then
  c++ $options -o "$made.$$" "$source" || exit $?
  mv "$made.$$" "$made"
fi
cp "$made" "$output"
[ -z "$PADDING" ] || head -c "$PADDING" /dev/zero >>"$output"
echo "end $$" >>"$COMPILES"
