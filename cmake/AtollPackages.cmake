# Debian packages, made by CPack from what AtollInstall.cmake installs and from what only packages
# have: units, compressed pages, examples. To be included after it. `scripts/package` makes them.
#
#   atoll                  atolld and atoll, their pages, the units of the daemon
#   atoll-worker           what trains; the only one that needs libtorch
#   python3-atoll-worker   workers in Python
set(ATOLL_MAINTAINER "Atoll developers <atoll@localhost>" CACHE STRING
  "Whom the packages name: who makes them for others names themself")

# A package for Debian 12 and one for Debian 13 need other libraries, and are two versions.
set(ATOLL_PACKAGE_VERSION ${PROJECT_VERSION})
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release os_release REGEX "^(ID|VERSION_ID)=")
  if(os_release MATCHES "(^|;)ID=debian" AND os_release MATCHES "VERSION_ID=\"?([0-9]+)")
    string(APPEND ATOLL_PACKAGE_VERSION "~deb${CMAKE_MATCH_1}")
  endif()
endif()

set(debian ${PROJECT_SOURCE_DIR}/cmake/debian)
set(staged ${PROJECT_BINARY_DIR}/debian)

# In packages alone: `cmake --install` leaves it out.
function(atoll_packaged component destination)
  install(FILES ${ARGN} DESTINATION ${destination} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# A page as packages have it: compressed, without a date, so that a build can be repeated.
set(compressed)
function(atoll_compressed component from file destination)
  set(path ${staged}/${component}/${file}.gz)
  add_custom_command(OUTPUT ${path}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${staged}/${component}
    COMMAND gzip -9nc ${from} > ${path}
    DEPENDS ${from} VERBATIM)
  set(compressed ${compressed} ${path} PARENT_SCOPE)
  atoll_packaged(${component} ${destination} ${path})
endfunction()

file(CONFIGURE OUTPUT ${staged}/changelog @ONLY CONTENT
"atoll (@ATOLL_PACKAGE_VERSION@) stable; urgency=medium

  * Release @PROJECT_VERSION@. docs/operations.md, \"Upgrade\", has what an upgrade asks for.

 -- @ATOLL_MAINTAINER@  Thu, 01 Jan 2026 00:00:00 +0000
")
set(packages)
if(TARGET atolld)
  list(APPEND packages atoll)
endif()
if(TARGET atoll-worker)
  list(APPEND packages atoll-worker)
endif()
if(TARGET atoll_worker_python)
  list(APPEND packages python3-atoll-worker)
endif()
foreach(package ${packages})
  atoll_packaged(${package} share/doc/${package} ${debian}/copyright)
  atoll_compressed(${package} ${staged}/changelog changelog share/doc/${package})
endforeach()

set(pages_of_atoll atoll atolld)
set(pages_of_atoll-worker atoll-worker)
foreach(package atoll atoll-worker)
  foreach(page ${pages_of_${package}})
    if(TARGET ${page})
      atoll_compressed(${package} ${PROJECT_BINARY_DIR}/share/man1/${page}.1 ${page}.1
        share/man/man1)
    endif()
  endforeach()
endforeach()
add_custom_target(atoll-compressed-pages ALL DEPENDS ${compressed})

# All that the packages hold. The laboratory's program is a test's (tests/wan), defined later.
set(contents atoll-pages atoll-compressed-pages)
foreach(target atoll atolld atoll-worker atoll-stub-worker atoll-sentencepiece atoll_worker_python)
  if(TARGET ${target})
    list(APPEND contents ${target})
  endif()
endforeach()
if(ATOLL_BUILD_TESTS)
  list(APPEND contents atoll-wan)
endif()
add_custom_target(atoll-package-contents)
add_dependencies(atoll-package-contents ${contents})

if(TARGET atolld)
  foreach(program atoll atolld)
    atoll_packaged(atoll share/zsh/vendor-completions ${PROJECT_BINARY_DIR}/share/zsh/_${program})
  endforeach()
  set(units ${PROJECT_SOURCE_DIR}/configs/systemd)
  atoll_packaged(atoll lib/systemd/system ${units}/atoll-coordinator.service
    ${units}/atoll-peer.service ${units}/atoll-peer@.service)
  atoll_packaged(atoll share/doc/atoll/examples ${units}/coordinator.toml ${units}/peer.toml)
  install(DIRECTORY DESTINATION /etc/atoll COMPONENT atoll EXCLUDE_FROM_ALL)
  install(FILES ${debian}/atoll/default DESTINATION /etc/default RENAME atoll COMPONENT atoll
    EXCLUDE_FROM_ALL)
endif()
if(TARGET atoll_worker_python)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/python/atoll ${PROJECT_BINARY_DIR}/python/atoll_track
      ${PROJECT_BINARY_DIR}/python/atoll_worker
    DESTINATION lib/python3/dist-packages COMPONENT python3-atoll-worker EXCLUDE_FROM_ALL
    PATTERN __pycache__ EXCLUDE)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/worker/python/atoll-track DESTINATION bin
    COMPONENT python3-atoll-worker EXCLUDE_FROM_ALL)
  file(GLOB examples ${PROJECT_SOURCE_DIR}/worker/python/examples/*.py)
  atoll_packaged(python3-atoll-worker share/doc/python3-atoll-worker/examples ${examples})
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME atoll)
set(CPACK_PACKAGE_VERSION ${ATOLL_PACKAGE_VERSION})
set(CPACK_PACKAGE_CONTACT ${ATOLL_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train one model on poorly connected machines")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_ALL ${packages})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
# Files in /etc are not below the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
    ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}
    ${CMAKE_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE})
endif()

set(CPACK_DEBIAN_ATOLL_PACKAGE_NAME atoll)
set(CPACK_DEBIAN_ATOLL_PACKAGE_SECTION science)
set(CPACK_DEBIAN_ATOLL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ATOLL_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.52)")
set(CPACK_DEBIAN_ATOLL_PACKAGE_RECOMMENDS "atoll-worker (= ${ATOLL_PACKAGE_VERSION})")
# For the lab alone.
set(CPACK_DEBIAN_ATOLL_PACKAGE_SUGGESTS "iproute2, nftables, python3 (>= 3.11)")
set(CPACK_DEBIAN_ATOLL_PACKAGE_CONTROL_EXTRA ${debian}/atoll/postinst ${debian}/atoll/prerm
  ${debian}/atoll/postrm ${debian}/atoll/conffiles)
set(CPACK_COMPONENT_ATOLL_DESCRIPTION
"Atoll trains one model on machines that come and go and whose links are slow.
Each peer trains alone for many steps, then the peers average what they have
learned, and all replicas stay identical to the last bit.
.
This package has the daemon atolld, the command line atoll, and units for
systemd.")

set(CPACK_DEBIAN_ATOLL-WORKER_PACKAGE_NAME atoll-worker)
set(CPACK_DEBIAN_ATOLL-WORKER_PACKAGE_SECTION science)
set(CPACK_DEBIAN_ATOLL-WORKER_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ATOLL-WORKER_PACKAGE_RECOMMENDS libopenblas0-pthread)
set(CPACK_DEBIAN_ATOLL-WORKER_PACKAGE_ENHANCES atoll)
set(CPACK_COMPONENT_ATOLL-WORKER_DESCRIPTION
"Atoll trains one model on machines that come and go and whose links are slow.
.
This package has the worker that a peer's daemon starts: the inner loop of the
training, with libtorch. With it comes a worker that only takes time, for
measurements.")

set(CPACK_DEBIAN_PYTHON3-ATOLL-WORKER_PACKAGE_NAME python3-atoll-worker)
set(CPACK_DEBIAN_PYTHON3-ATOLL-WORKER_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3-ATOLL-WORKER_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON3-ATOLL-WORKER_PACKAGE_DEPENDS
  "python3, python3-grpcio, python3-numpy, python3-protobuf")
set(CPACK_DEBIAN_PYTHON3-ATOLL-WORKER_PACKAGE_ENHANCES atoll)
set(CPACK_DEBIAN_PYTHON3-ATOLL-WORKER_PACKAGE_CONTROL_EXTRA
  ${debian}/python3-atoll-worker/postinst ${debian}/python3-atoll-worker/prerm)
set(CPACK_COMPONENT_PYTHON3-ATOLL-WORKER_DESCRIPTION
"Atoll trains one model on machines that come and go and whose links are slow.
.
This package has the Python module atoll_worker, with which a training loop of
your own becomes the worker of a peer, and atoll-track, which writes a run's
figures to TensorBoard, Weights & Biases and MLflow.")
include(CPack)
