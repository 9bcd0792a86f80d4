# SPDX-License-Identifier: MIT
# fuzz_args: args structs of every op through the checked entry points. With libFuzzer the library's rung 0 and rules are
# compiled into it, instrumented; otherwise it makes its own inputs and links the library as built, so under SEQMIX_SANITIZE
# a sanitized one.
if(SEQMIX_HAVE_LIBFUZZER AND NOT SEQMIX_SANITIZE)
  find_package(Threads REQUIRED)
  get_target_property(library_sources seqmix_objects SOURCES)
  list(TRANSFORM library_sources PREPEND ${PROJECT_SOURCE_DIR}/src/)
  add_executable(fuzz_args fuzz_args.c ${library_sources})
  target_compile_options(fuzz_args PRIVATE -fsanitize=fuzzer,${fuzz_sanitizers} -fno-sanitize-recover=all)
  target_link_options(fuzz_args PRIVATE -fsanitize=fuzzer,${fuzz_sanitizers})
  target_link_libraries(fuzz_args PRIVATE seqmix_flags seqmix_internal Threads::Threads m)
  set(inputs -runs=${SEQMIX_FUZZ_RUNS} -seed=1 -max_len=512 -timeout=25)
else()
  add_executable(fuzz_args fuzz_args.c)
  target_compile_definitions(fuzz_args PRIVATE FUZZ_STANDALONE)
  target_link_libraries(fuzz_args PRIVATE seqmix_flags seqmix_static)
  set(inputs ${SEQMIX_FUZZ_RUNS})
endif()
set_target_properties(fuzz_args PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
add_test(NAME fuzz.args COMMAND fuzz_args ${inputs})
set_tests_properties(fuzz.args PROPERTIES LABELS fuzz TIMEOUT 300)
