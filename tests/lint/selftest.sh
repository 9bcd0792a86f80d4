#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Proves that the lint can fail: a clean little tree passes, and each violation planted in it is found under its rule's name.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
caught=0
missed=0

mit='/* SPDX-License-Identifier: MIT */'
mkdir -p "$tree"/{include/seqmix,src/{common,cpu/ref,cpu/kern,cuda,dispatch,model},tests/api,bench,docs}
cp "$here/../../.clang-format" "$tree/"
printf '%s\n#include <stdint.h>\nint32_t seqmix_one(void);\n' "$mit" >"$tree/include/seqmix/seqmix.h"
printf '%s\n#include <seqmix/seqmix.h>\n/* malloc, 0x10 and "cuda" in a comment */\n' "$mit" >"$tree/src/common/tensor.h"
printf '%s\n#include "tensor.h"\n\nint32_t seqmix_one(void)\n{\n    return sizeof "calls printf(cuda)" > 1;\n}\n' "$mit" \
    >"$tree/src/cpu/ref/one.c"
printf '%s\nint seqmix_cpu;\n' "$mit" >"$tree/src/cpu/cpu.h"
printf '<!-- SPDX-License-Identifier: MIT -->\n# Notes\n' >"$tree/docs/NOTES.md"
printf '#!/bin/sh\n# SPDX-License-Identifier: MIT\nset -eu\n' >"$tree/run.sh"

if ! bash "$here/lint.sh" "$tree" >"$tree.log" 2>&1; then
    echo "the clean tree does not pass:"
    cat "$tree.log"
    exit 1
fi

clean=$(cat "$tree.log")

# plant FILE RULE TEXT: the file with that text (printf escapes) must be reported under that rule, and only in that file.
plant() {
    local backup=''
    if [ -e "$tree/$1" ]; then
        backup=$(mktemp)
        cp "$tree/$1" "$backup"
    fi
    printf '%b' "$3" >"$tree/$1"
    if bash "$here/lint.sh" "$tree" >"$tree.log" 2>&1; then
        echo "MISSED $2 in $1: the lint passes"
        missed=$((missed + 1))
    elif ! grep -q "^$1:.*$2" "$tree.log"; then
        echo "MISSED $2 in $1: the lint fails, but says"
        cat "$tree.log"
        missed=$((missed + 1))
    else
        echo "caught $2 in $1"
        caught=$((caught + 1))
    fi
    rm -f "$tree/$1" "$tree.log"
    if [ -n "$backup" ]; then
        mv "$backup" "$tree/$1"
    fi
}

c="$mit\\n"
plant src/common/a.c 'x86 intrinsics' "${c}__m256 seqmix_a;\\n"
plant src/cpu/kern/a.c 'x86 intrinsics' "${c}#include <immintrin.h>\\n"
plant src/cpu/kern/a.c 'arm intrinsics' "${c}float seqmix_a(float *p)\\n{\\n    return vld1q_f32(p)[0];\\n}\\n"
plant src/cpu/ref/a.c 'instruction set macros' "${c}#ifdef __AVX2__\\n#endif\\n"
plant src/common/a.c 'cuda' "${c}int seqmix_cuda_a;\\n"
plant src/cpu/ref/a.c 'blas' "${c}void cblas_sgemm(void);\\n"
plant src/cpu/ref/a.c 'openmp' "${c}#pragma omp parallel\\n"
plant src/cpu/ref/a.c 'memory' "${c}void seqmix_a(void *p)\\n{\\n    free(p);\\n}\\n"
plant src/model/a.c 'stack memory' "${c}void *seqmix_a(void)\\n{\\n    return alloca(16);\\n}\\n"
plant src/cpu/ref/a.c 'environment' "${c}const char *seqmix_a(void)\\n{\\n    return getenv(\"A\");\\n}\\n"
plant src/common/a.c 'output and exit' "${c}void seqmix_a(void)\\n{\\n    exit(1);\\n}\\n"
plant src/dispatch/a.c 'messages' "${c}void seqmix_a(char *s)\\n{\\n    snprintf(s, 2, \"a\");\\n}\\n"
plant src/model/a.c 'unbounded text' "${c}void seqmix_a(char *s)\\n{\\n    strcpy(s, \"a\");\\n}\\n"
plant src/cpu/ref/a.c 'threads' "${c}pthread_t seqmix_a;\\n"
plant src/dispatch/a.c 'argument rules' "${c}int seqmix_a(void)\\n{\\n    return SEQMIX_ERR_SHAPE;\\n}\\n"
plant src/common/a.c 'exports' "${c}SEQMIX_API int seqmix_a(void);\\n"
plant src/common/a.c 'double precision' "${c}double seqmix_a;\\n"
plant src/common/a.c 'other libraries' "${c}#include <cjson/cJSON.h>\\n"
plant include/seqmix/a.h 'types of the public structs' "${c}long seqmix_a(void);\\n"
plant src/model/a.c 'jumps' "${c}void seqmix_a(void)\\n{\\nagain:\\n    goto again;\\n}\\n"

plant include/seqmix/a.h 'include' "${c}#include <stdio.h>\\n"
plant src/common/a.c 'include' "${c}#include \"../cpu/cpu.h\"\\n"
plant src/cuda/a.c 'include' "${c}#include \"../cpu/cpu.h\"\\n"
plant src/model/a.c 'include' "${c}#include \"../common/tensor.h\"\\n"
plant bench/a.c 'include' "${c}#include \"tensor.h\"\\n"
plant tests/api/a.c 'include' "${c}#include \"../../src/common/tensor.h\"\\n"
plant src/dispatch/a.c 'include' "${c}#include \"../cpu/ref/one.c\"\\n"
plant src/common/a.c 'include' "${c}#include \"absent.h\"\\n"

body=$(printf '    seqmix_b();\\n%.0s' $(seq 81))
plant src/common/a.c 'function length' "${c}void seqmix_a(void)\\n{\\n$body}\\n"
plant src/common/a.c 'file length' "${c}$(printf 'int seqmix_a%d;\\n' $(seq 801))"
plant src/common/a.c 'licence' '/* all mine */\n'
plant docs/A.md 'licence' '# A page\n'
plant docs/A.md 'tab' '<!-- SPDX-License-Identifier: MIT -->\na\tb\n'
plant docs/A.md 'trailing blank' '<!-- SPDX-License-Identifier: MIT -->\na \n'
plant docs/A.md 'end of file' '<!-- SPDX-License-Identifier: MIT -->\na'
plant docs/A.md 'end of file' '<!-- SPDX-License-Identifier: MIT -->\na\n\n'
plant docs/A.md 'control character' '<!-- SPDX-License-Identifier: MIT -->\n\0033[1m\n'
plant docs/A.md 'invisible character' '<!-- SPDX-License-Identifier: MIT -->\na\0342\0200\0213b\n'
plant docs/A.md 'invisible character' '<!-- SPDX-License-Identifier: MIT -->\na\0302\0240b\n'
plant docs/A.md 'open end' '<!-- SPDX-License-Identifier: MIT -->\nTO''DO: more\n'
plant docs/A.md 'machine path' '<!-- SPDX-License-Identifier: MIT -->\nsee /ho''me/me/a.txt\n'
plant src/common/a.c 'empty file' ''
if [[ $clean != *"layout: not checked"* ]]; then
    plant src/common/a.c 'layout' "${c}int  seqmix_a;\\n"
fi
if command -v shellcheck >/dev/null; then
    # ShellCheck names the file on a line of its own; its rule follows
    printf "#!/bin/sh\n# SPDX-License-Identifier: MIT\nrm \$1\n" >"$tree/a.sh"
    if bash "$here/lint.sh" "$tree" >"$tree.log" 2>&1 || ! grep -q SC2086 "$tree.log"; then
        echo "MISSED shell in a.sh"
        missed=$((missed + 1))
    else
        echo "caught shell in a.sh"
        caught=$((caught + 1))
    fi
    rm -f "$tree/a.sh" "$tree.log"
fi

echo "$caught planted violations caught, $missed missed"
[ "$missed" -eq 0 ]
