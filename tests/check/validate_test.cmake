# SPDX-License-Identifier: MIT
# The test of `seqmix-check validate`; included by CMakeLists.txt of this folder.
find_package(PkgConfig REQUIRED)
pkg_check_modules(SEQMIX_VALIDATE_DEPS REQUIRED IMPORTED_TARGET libcjson)

add_executable(test_validate
  test_validate.c
  test_validate_engine.c
  test_validate_engine_rows.c
  test_validate_files.c
  test_validate_sample.c
  safetensors_write.c
  validate.c
  validate_case.c
  validate_causes.c
  validate_causes_common.c
  validate_causes_delta.c
  validate_causes_dt.c
  validate_causes_rows.c
  validate_compare.c
  validate_fields.c
  validate_load.c
  validate_options.c
  validate_oracle.c
  validate_report.c
  validate_twist.c
  ${PROJECT_SOURCE_DIR}/src/model/safetensors.c)
target_include_directories(test_validate PRIVATE ${PROJECT_SOURCE_DIR}/src/model ${PROJECT_SOURCE_DIR}/src/cpu)
target_compile_definitions(test_validate PRIVATE _POSIX_C_SOURCE=200809L)
target_link_libraries(test_validate PRIVATE seqmix_flags seqmix_internal seqmix_oracle seqmix_static
  PkgConfig::SEQMIX_VALIDATE_DEPS m)
enable_testing() # this folder is entered before the top one's enable_testing()
add_test(NAME check.validate COMMAND test_validate ${PROJECT_SOURCE_DIR}/tests/golden/dumps)
set_tests_properties(check.validate PROPERTIES LABELS check)
