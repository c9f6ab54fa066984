#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# coverage.sh HEADER DIR: run the table tests of include/net/HEADER.h in DIR, a new directory, and
# fail if they leave one of its lines or branches out. CC and FLAGS say how to compile.
set -eu
header=$1
tests=$(pwd)
rm -rf "$2"
mkdir -p "$2"
out=$(cd "$2" && pwd)

found=
for source in "$tests/test_$header.c" "$tests/test_$header"_*.c; do
    [ -e "$source" ] || continue
    found=yes
    name=$(basename "$source" .c)
    # shellcheck disable=SC2086 # FLAGS is a list
    "$CC" $FLAGS -o "$out/$name" "$source"
    "$out/$name" >"$out/$name.log"
    mkdir "$out/$name.gcov"
    (cd "$out/$name.gcov" && gcov -b -c -o "$out" "$out/$name.gcda" >/dev/null)
done
if [ -z "$found" ]; then
    echo "include/net/$header.h has functions and no table test: write tests/test_$header.c" >&2
    exit 1
fi

# A line or branch counts as covered if one of the programs reaches it. Branches follow their line.
awk -F: -v header="$header.h" '
    /^ *[0-9#=*-]+\*?: *[0-9]+:/ {
        line = $2 + 0
        branch = 0
        if ($1 ~ /-$/ || line == 0) next
        text = $0
        sub(/^[^:]*:[^:]*:[ \t]*/, "", text)
        lines[line] = text
        if ($1 !~ /#####|=====/) covered[line] = 1
        next
    }
    /^branch/ {
        at = line "." branch++
        branches[at] = line
        if ($0 ~ /taken [1-9]/) taken[at] = 1
    }
    END {
        for (line in lines) {
            total++
            if (!(line in covered)) { bad++; print header ":" line ": not reached: " lines[line] }
        }
        for (at in branches) {
            ways++
            line = branches[at]
            if (at in taken || !(line in covered)) continue
            bad++
            split(at, part, ".")
            print header ":" line ": branch " part[2] " not taken: " lines[line]
        }
        if (!total) { bad++; print header ": the table test executes nothing of it" }
        printf "%s: %d lines, %d branches, %d left out\n", header, total, ways, bad
        exit bad > 0
    }' "$out"/*.gcov/"$header.h.gcov"
