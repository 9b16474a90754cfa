# cmake -DOUT=build_info.cc -DSOURCE=FOLDER -DVERSION=0.2.0 -DCOMMIT=.. -DWITH=.. -P BuildInfo.cmake
# Writes the source behind compression/base/build_info.h, if it changes. COMMIT: what to say of the
# commit; empty: git is asked, and where it does not know, no commit is named.
if(NOT COMMIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} log -1 --abbrev=12 --format=%h\ of\ %cs
    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(COMMIT)
  else()
    execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      string(APPEND COMMIT ", with changes")
    endif()
  endif()
endif()

set(lines "${VERSION}")
if(COMMIT)
  string(APPEND lines "\\ncommit ${COMMIT}")
endif()
string(APPEND lines "\\nbuilt with ${WITH}")
set(text "#include \"compression/base/build_info.h\"

namespace atolld {

std::string BuildInfo(const std::string& program) {
  return program + \" ${lines}\";
}

}  // namespace atolld
")
set(before "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUT}" "${text}")
endif()
