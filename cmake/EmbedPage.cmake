# cmake -DOUT=page_files.cc -P EmbedPage.cmake -- FILE...
# Writes a source that holds these files' bytes, for daemon/web/page_files.h. With -DHEADER=... and
# -DFUNCTION=... the source is for that header, and its function returns the bytes of the only file.
set(after FALSE)
set(files)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 0 ${last})
  if(after)
    list(APPEND files "${CMAKE_ARGV${i}}")
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(after TRUE)
  endif()
endforeach()

set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml")

set(arrays "")
set(rows "")
set(number 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  get_filename_component(ending "${file}" LAST_EXT)
  string(SUBSTRING "${ending}" 1 -1 ending)
  file(READ "${file}" hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" text "${hex}")
  string(APPEND arrays "constexpr char kFile${number}[] =\n    \"${text}\";\n")
  string(APPEND rows "    {\"/${name}\", \"${types_${ending}}\", {kFile${number}, ${length}}},\n")
  math(EXPR number "${number} + 1")
endforeach()

if(HEADER)
  file(WRITE "${OUT}.new" "#include \"${HEADER}\"

namespace atolld {
namespace {

${arrays}
}  // namespace

absl::string_view ${FUNCTION}() { return {kFile0, sizeof(kFile0) - 1}; }

}  // namespace atolld
")
  file(RENAME "${OUT}.new" "${OUT}")
  return()
endif()

file(WRITE "${OUT}.new" "#include \"daemon/web/page_files.h\"

namespace atolld {
namespace {

${arrays}
constexpr PageFile kPageFiles[] = {
${rows}};

}  // namespace

absl::Span<const PageFile> PageFiles() { return kPageFiles; }

}  // namespace atolld
")
file(RENAME "${OUT}.new" "${OUT}")
