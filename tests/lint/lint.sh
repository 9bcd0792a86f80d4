#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The rules of the house that a script can see: lint.sh [ROOT]. Text rules (lint.pl) always; layout where clang-format 14 is
# installed, shell scripts where ShellCheck is. Data under tests/golden is nobody's prose and is left alone.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"
status=0

list_files() {
    # In a checkout, what is or could be committed; in an unpacked archive, everything but build folders.
    if [ -e .git ] && git ls-files -co --exclude-standard 2>/dev/null; then
        return
    fi
    find . \( -name '.git' -o -path './build*' -o -name '__pycache__' \) -prune -o -type f -print | sed 's|^\./||'
}

all=$(list_files | sort -u | while IFS= read -r file; do
    [ -f "$file" ] || continue # deleted, not yet committed
    case $file in
    tests/golden/*.py | tests/golden/*.c | tests/golden/*.sh | tests/golden/*.md) ;;
    tests/golden/* | tests/fuzz/corpus/* | *.png | *.svg) continue ;;
    esac
    printf '%s\n' "$file"
done)

printf '%s\n' "$all" | perl "$here/lint.pl" || status=1

sources=$(printf '%s\n' "$all" | grep -E '\.(c|h|cpp|cu|cuh)$' || true)
formatter=''
for name in clang-format-14 clang-format; do
    if "$name" --version 2>/dev/null | grep -q ' version 14\.'; then
        formatter=$name
    fi
done
if [ -n "$formatter" ] && [ -n "$sources" ]; then
    if said=$(printf '%s\n' "$sources" | xargs -d '\n' "$formatter" --dry-run -Werror 2>&1); then
        echo "layout: $(printf '%s\n' "$sources" | wc -l) files as .clang-format says"
    else
        printf '%s\n' "$said" | sed -n '/^ /!s/^\([^:]*:[0-9]*\):.*clang-formatted.*/\1: layout: clang-format -i would change it/p' |
            sort -u -t: -k1,1
        echo "layout: see above"
        status=1
    fi
else
    echo "layout: not checked, clang-format 14 is not installed"
fi

scripts=$(printf '%s\n' "$all" | grep -E '\.sh$|^\.ci/run$' || true)
if command -v shellcheck >/dev/null && [ -n "$scripts" ]; then
    if printf '%s\n' "$scripts" | xargs -d '\n' shellcheck -x -P SCRIPTDIR; then
        echo "shell: $(printf '%s\n' "$scripts" | wc -l) scripts clean"
    else
        status=1
    fi
else
    echo "shell: not checked, ShellCheck is not installed"
fi

exit $status
