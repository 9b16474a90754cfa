// Which build of Atoll a program is: of which commit, and built with what.
//
// The text is made at build time (cmake/BuildInfo.cmake) and linked into the programs alone, since
// it changes with every commit. The same sources, tools and libraries make the same text.
#pragma once

#include <string>

namespace atolld {

// Returns what `PROGRAM --version` prints, without a newline at its end: "PROGRAM 0.2.0", a line
// with the commit where it was known, and a line with the compiler and the libraries.
std::string BuildInfo(const std::string& program);

}  // namespace atolld
