#include "daemon/config/python_program.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace atolld {

std::string FindPythonProgram(const std::string& name, const std::string& folder) {
  const std::string beside = absl::StrCat(folder, "/", name);
  if (access(beside.c_str(), X_OK) == 0) return beside;
  const char* const path = std::getenv("PATH");
  for (const absl::string_view one :
       absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty())) {
    const std::string found = absl::StrCat(one, "/", name);
    if (access(found.c_str(), X_OK) == 0) return found;
  }
  return "";
}

}  // namespace atolld
