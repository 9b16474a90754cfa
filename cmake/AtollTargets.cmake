# The few rules that all of Atoll's own targets share.
#
#   atoll_library(name SOURCES a.cc b.cc DEPENDS lib1 lib2 [PLANTED])
#                                          PLANTED: also as name_planted, with the deliberate
#                                          mistakes of membership/planted_bug.h, for tests alone
#   atoll_binary(name SOURCES main.cc DEPENDS lib1)          lands in <build>/bin
#   atoll_test(name SOURCES a_test.cc DEPENDS lib1 [LABELS unit] [TIMEOUT 120] [PROCESSORS 1])
#                                          a GoogleTest program, one ctest entry a test

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# Bits must not depend on the compiler's taste: no fused multiply-add unless it is written.
add_library(atoll_options INTERFACE)
target_compile_options(atoll_options INTERFACE
  -ffp-contract=off -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)
target_include_directories(atoll_options INTERFACE ${PROJECT_SOURCE_DIR})

if(ATOLL_SANITIZE)
  add_compile_options(
    -fsanitize=${ATOLL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ATOLL_SANITIZE})
  if(ATOLL_SANITIZE MATCHES "undefined")
    # A third of the compiler's time, for downcasts and for sizes that only -O2 knows.
    add_compile_options(-fno-sanitize=vptr,object-size)
  endif()
endif()

function(atoll_library name)
  cmake_parse_arguments(ARG "PLANTED" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE $<BUILD_INTERFACE:atoll_options>)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  if(NOT ARG_PLANTED OR NOT ATOLL_BUILD_PLANTED)
    return()
  endif()
  # It must not be mixed with the true one: every library that it needs comes in the same form.
  set(twins)
  foreach(library IN LISTS ARG_DEPENDS)
    if(TARGET ${library}_planted)
      list(APPEND twins ${library}_planted)
    else()
      list(APPEND twins ${library})
    endif()
  endforeach()
  add_library(${name}_planted STATIC EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_compile_definitions(${name}_planted PUBLIC ATOLL_PLANTED_BUGS)
  target_link_libraries(${name}_planted
    PUBLIC ${twins} PRIVATE $<BUILD_INTERFACE:atoll_options>)
  target_include_directories(${name}_planted PUBLIC ${PROJECT_SOURCE_DIR})
endfunction()

function(atoll_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} atoll_options)
endfunction()

function(atoll_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} atoll_options GTest::gmock_main)
  if(ATOLL_SANITIZE)
    # Half of the compiler's time; what is tested keeps the optimiser.
    target_compile_options(${name} PRIVATE -O0)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${ARG_PROCESSORS})
endfunction()
