#include "daemon/program/http_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace atolld {

std::string ReadHttpFile(Files& files, const std::string& dir) {
  const absl::StatusOr<std::string> text = ReadFile(files, absl::StrCat(dir, "/", kHttpFile), 1000);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

}  // namespace atolld
