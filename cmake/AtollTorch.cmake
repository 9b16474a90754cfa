# The target atoll_libtorch: libtorch and its headers, either those that CMake finds (Debian's
# libtorch-dev, or another in CMAKE_PREFIX_PATH), or those inside an installed wheel of PyTorch.
#
# A wheel of PyTorch carries a CMake package too. It is not used: for a CUDA build it asks for nvcc
# and the CUDA toolkit, of which nothing is compiled here.
set(ATOLL_TORCH "" CACHE PATH
  "An installed wheel of PyTorch, .../site-packages/torch; empty: the libtorch that CMake finds")
set(ATOLL_TORCH_RPATH "" CACHE STRING
  "Where an installed atoll-worker looks for libtorch, for example \$ORIGIN/../../torch/lib; \
empty: where the build found it")

add_library(atoll_libtorch INTERFACE)
if(NOT ATOLL_TORCH)
  find_package(Torch REQUIRED)
  target_include_directories(atoll_libtorch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(atoll_libtorch INTERFACE ${TORCH_LIBRARIES})
  return()
endif()

foreach(file version.py include/ATen/ATen.h lib/libc10.so lib/libtorch_cpu.so)
  if(NOT EXISTS ${ATOLL_TORCH}/${file})
    message(FATAL_ERROR "ATOLL_TORCH is ${ATOLL_TORCH}, which has no ${file}; it must be the "
      "folder site-packages/torch into which pip installed PyTorch for Linux")
  endif()
endforeach()
file(STRINGS ${ATOLL_TORCH}/version.py version REGEX "^__version__ = ")
if(NOT version MATCHES "'(([0-9]+\\.[0-9]+)\\.[0-9]+[^']*)'")
  message(FATAL_ERROR "${ATOLL_TORCH}/version.py has no line __version__ = 'X.Y.Z'")
endif()
set(version ${CMAKE_MATCH_1})
if(CMAKE_MATCH_2 VERSION_LESS 2.6)
  message(FATAL_ERROR "ATOLL_TORCH is PyTorch ${version}; it must be 2.6 or newer")
endif()
# The processor that the libraries are for, in the header of each.
file(READ ${ATOLL_TORCH}/lib/libc10.so machine OFFSET 18 LIMIT 2 HEX)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT machine STREQUAL "3e00" OR
    CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND NOT machine STREQUAL "b700")
  message(FATAL_ERROR "ATOLL_TORCH is ${ATOLL_TORCH}, which is for another kind of processor than "
    "${CMAKE_SYSTEM_PROCESSOR}")
endif()
# Part of the name of the constructor of c10::Error, which takes a string.
set(constructor _ZN3c105ErrorC1ENS_14SourceLocationE)
file(STRINGS ${ATOLL_TORCH}/lib/libc10.so error REGEX "${constructor}")
if(NOT error MATCHES "${constructor}NSt7__cxx1112basic_string")
  message(FATAL_ERROR "ATOLL_TORCH is PyTorch ${version}, built with the old strings of libstdc++ "
    "(_GLIBCXX_USE_CXX11_ABI=0), and cannot be linked with gRPC and the other libraries of this "
    "system; PyTorch 2.7 and newer have the new ones in every wheel")
endif()
message(STATUS "PyTorch ${version} in ${ATOLL_TORCH}")

foreach(name c10 torch_cpu)
  add_library(atoll_${name} SHARED IMPORTED)
  set_target_properties(atoll_${name} PROPERTIES
    IMPORTED_LOCATION ${ATOLL_TORCH}/lib/lib${name}.so)
endforeach()
# libtorch's own headers alone: beside them lie other versions of the system's (protobuf, fmt).
set(headers ${PROJECT_BINARY_DIR}/libtorch)
file(MAKE_DIRECTORY ${headers})
foreach(name ATen c10 caffe2 torch)
  file(CREATE_LINK ${ATOLL_TORCH}/include/${name} ${headers}/${name} SYMBOLIC)
endforeach()
target_include_directories(atoll_libtorch SYSTEM INTERFACE
  ${headers} ${headers}/torch/csrc/api/include)
# GCC would name them by the links' targets where that is shorter, so by where the wheel lies.
target_compile_options(atoll_libtorch INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-fno-canonical-system-headers>)
target_link_libraries(atoll_libtorch INTERFACE atoll_torch_cpu atoll_c10)
# New headers of libtorch want C++20, in which GCC 12 takes strings that are read for uninitialised.
target_compile_features(atoll_libtorch INTERFACE cxx_std_20)
target_compile_options(atoll_libtorch INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
# What libtorch_cpu.so itself needs (of a CUDA build: CUDA's runtime) is found by its own RPATH when
# a program starts, and need not be there when one is built. libtorch_cuda.so is loaded where there
# is a GPU: worker/training/torch_library.h.
target_link_options(atoll_libtorch INTERFACE -Wl,--allow-shlib-undefined)
target_compile_definitions(atoll_libtorch INTERFACE ATOLL_TORCH_WHEEL)
