# The few rules that all of Atoll's own targets share.
#
#   atoll_library(name SOURCES a.cc b.cc DEPENDS lib1 lib2 [ALONE a.cc] [COMPUTES])
#                                          sources ALONE are never compiled together with others;
#                                          COMPUTES: has loops over parameters, so gets -O3
#   atoll_binary(name SOURCES main.cc DEPENDS lib1)          lands in <build>/bin
#   atoll_test(name SOURCES a_test.cc DEPENDS lib1 [LABELS unit] [TIMEOUT 120] [PROCESSORS 1]
#              [HEADERS <a.h>])             a GoogleTest program, one ctest entry a test
#   atoll_shared_headers()                 precompiles what most files read; after proto/

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(ATOLL_BUNDLED)
  # A wheel or a tarball, which may be unpacked anywhere and brings its libraries. DT_RPATH, unlike
  # DT_RUNPATH, also holds for what those libraries need. Its bytes depend on no path.
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
  add_link_options(LINKER:--disable-new-dtags)
  file(RELATIVE_PATH up ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})  # as ccache may name sources
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${up}=
    -ffile-prefix-map=${PROJECT_BINARY_DIR}/=)  # of several maps the last one that fits counts
  if(CMAKE_SYSROOT)  # its headers are named like a system's
    file(RELATIVE_PATH up ${PROJECT_BINARY_DIR} ${CMAKE_SYSROOT})
    add_compile_options(-ffile-prefix-map=${CMAKE_SYSROOT}/=/ -ffile-prefix-map=${up}/=/)
  endif()
else()
  # Installed programs find a libtorch that is no system's library where the build found it.
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
# Where no loop over parameters is, -O3 costs the compiler's time and gains nothing.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# Bits must not depend on the compiler's taste: no fused multiply-add unless it is written.
add_library(atoll_options INTERFACE)
target_compile_options(atoll_options INTERFACE
  -ffp-contract=off -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)
target_include_directories(atoll_options INTERFACE ${PROJECT_SOURCE_DIR})
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  # SVE's vectors have no size that the compiler knows, and the kernels keep vectors in structures.
  # Every 64-bit ARM processor has NEON.
  target_compile_definitions(atoll_options INTERFACE
    "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
endif()

if(ATOLL_SANITIZE)
  add_compile_options(
    -fsanitize=${ATOLL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ATOLL_SANITIZE})
  if(ATOLL_SANITIZE MATCHES "undefined")
    # A third of the compiler's time, for downcasts and for sizes that only -O2 knows.
    add_compile_options(-fno-sanitize=vptr,object-size)
  endif()
endif()

# Most of a compiler's time goes into the headers that every file reads. Tests read them
# precompiled, as does everything under sanitizers and in the preset dev; what users get does not,
# so that each of its files is seen to include what it needs. HEADERS of a test are precompiled
# beside them, for it alone; one that libtorch gives options of its own has to have some.
set(atoll_common_headers
  <algorithm> <functional> <map> <memory> <optional> <set> <string> <utility> <vector>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/time/time.h> <absl/types/span.h>)
set(atoll_message_headers <atoll/v1/membership.pb.h> <atoll/v1/run.pb.h>)
set(atoll_test_headers <gmock/gmock.h> <gtest/gtest.h>)
# What is tested keeps the optimiser and all sanitizers; of a test itself nobody asks for speed, and
# its optimiser would take a third of the compiler's time. All of them name -pthread, as some of
# their libraries do: one precompiled header is of one set of options.
set(atoll_test_options -pthread -O0)
if(ATOLL_SANITIZE)
  set(atoll_test_options -pthread -O0 -fno-sanitize=undefined)
endif()

function(atoll_shared_headers)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers/library.cc CONTENT "")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers/test.cc CONTENT "int main() {}\n")
  if(ATOLL_SANITIZE OR ATOLL_SHARED_HEADERS)
    add_library(atoll_library_headers STATIC ${PROJECT_BINARY_DIR}/headers/library.cc)
    target_link_libraries(atoll_library_headers PRIVATE atoll_proto atoll_options
      absl::statusor absl::str_format absl::time absl::span)
    target_precompile_headers(atoll_library_headers
      PRIVATE ${atoll_common_headers} ${atoll_message_headers})
  endif()
  if(ATOLL_BUILD_TESTS)
    add_executable(atoll_test_headers ${PROJECT_BINARY_DIR}/headers/test.cc)
    target_link_libraries(atoll_test_headers PRIVATE atoll_proto atoll_options GTest::gmock_main
      absl::statusor absl::str_format absl::time absl::span)
    target_compile_options(atoll_test_headers PRIVATE ${atoll_test_options})
    target_precompile_headers(atoll_test_headers
      PRIVATE ${atoll_common_headers} ${atoll_message_headers} ${atoll_test_headers})
  endif()
endfunction()

function(atoll_compile_in_batches target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${ATOLL_UNITY} UNITY_BUILD_BATCH_SIZE ${ATOLL_UNITY_BATCH})
  if(ATOLL_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # To the compiler a batch is one file: what a source keeps to itself looks like a header's.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

function(atoll_library name)
  cmake_parse_arguments(ARG "COMPUTES;OWN_HEADERS" "" "SOURCES;DEPENDS;ALONE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  atoll_compile_in_batches(${name})
  if(ARG_ALONE)
    set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE $<BUILD_INTERFACE:atoll_options>)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  if(ARG_COMPUTES)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  if(TARGET atoll_library_headers AND NOT ARG_OWN_HEADERS)
    target_precompile_headers(${name} REUSE_FROM atoll_library_headers)
  endif()
endfunction()

function(atoll_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} atoll_options)
endfunction()

function(atoll_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "SOURCES;DEPENDS;LABELS;HEADERS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  atoll_compile_in_batches(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} atoll_options GTest::gmock_main)
  target_compile_options(${name} PRIVATE ${atoll_test_options})
  if(ARG_HEADERS)
    target_precompile_headers(${name}
      PRIVATE ${atoll_common_headers} ${atoll_test_headers} ${ARG_HEADERS})
  else()
    target_precompile_headers(${name} REUSE_FROM atoll_test_headers)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${ARG_PROCESSORS})
endfunction()
