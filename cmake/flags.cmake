# SPDX-License-Identifier: MIT
# Interface target that every C target of the project links: warnings and floating-point rules (docs/NUMERICS.md).
add_library(seqmix_flags INTERFACE)
target_compile_options(seqmix_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;-Wundef;-Wshadow;-Wvla;-Wstrict-prototypes;-Wmissing-prototypes;-Wcast-qual;-Wdouble-promotion;-Wfloat-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<C_COMPILER_ID:Clang>>:-Wshorten-64-to-32>
  # One meaning of a*b+c everywhere: a fused one is written fmaf. No -ffast-math, at compile or link (LLVM #57589).
  $<$<COMPILE_LANGUAGE:C>:-ffp-contract=off;-fno-math-errno;-fno-trapping-math>)
if(SEQMIX_WERROR)
  target_compile_options(seqmix_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
if(SEQMIX_SANITIZE)
  add_compile_options(-fsanitize=${SEQMIX_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SEQMIX_SANITIZE})
  add_compile_definitions(SEQMIX_SANITIZED) # what would take a compiler minutes with the checks in it
endif()
