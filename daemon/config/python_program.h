// Finds a program that pip installs.
//
// It only looks at which files can be executed. May be called from any thread.
#pragma once

#include <string>

namespace atolld {

// Returns the path of the program in `folder`, else in PATH; empty if it is in neither.
std::string FindPythonProgram(const std::string& name, const std::string& folder);

}  // namespace atolld
