# What `cmake --install` installs: the programs, and what they write about themselves when they are
# built: man pages, and completion for bash and zsh. Needs the targets; to be included after them.
#
# Every file belongs to a component, which is a Debian package (AtollPackages.cmake), or to `local`:
# what a package has in another form.
include(GNUInstallDirs)

set(pages)
# A file below <build>/share that `program words...` prints, and its place below the prefix.
function(atoll_written_by program component file destination)
  set(path ${PROJECT_BINARY_DIR}/share/${file})
  add_custom_command(OUTPUT ${path}
    COMMAND ${program} ${ARGN} > ${path}
    DEPENDS ${program} VERBATIM)
  set(pages ${pages} ${path} PARENT_SCOPE)
  install(FILES ${path} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/${destination}
    COMPONENT ${component})
endfunction()

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/man1 ${PROJECT_BINARY_DIR}/share/bash
  ${PROJECT_BINARY_DIR}/share/zsh)
foreach(program atoll atolld)
  if(TARGET ${program})
    atoll_written_by(${program} local man1/${program}.1 man/man1 man)
    atoll_written_by(${program} atoll bash/${program} bash-completion/completions completion bash)
    atoll_written_by(${program} local zsh/_${program} zsh/site-functions completion zsh)
  endif()
endforeach()
if(TARGET atoll-worker)
  atoll_written_by(atoll-worker local man1/atoll-worker.1 man/man1 --man)
endif()
add_custom_target(atoll-pages ALL DEPENDS ${pages})

foreach(program atoll atolld)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT atoll)
  endif()
endforeach()
foreach(program atoll-worker atoll-stub-worker)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT atoll-worker)
  endif()
endforeach()
if(TARGET atoll-sentencepiece)
  install(TARGETS atoll-sentencepiece LIBRARY DESTINATION lib/atoll COMPONENT atoll-worker)
endif()
