#include "daemon/cli/output.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compression/base/exit_code.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/env/posix_files.h"
#include "daemon/figures/status_json.h"

namespace atolld {

void PrintLines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) PrintLine(stdout, line);
  std::fflush(stdout);
}

void PrintJson(const nlohmann::ordered_json& json) {
  std::fputs(JsonText(json).c_str(), stdout);
  std::fflush(stdout);
}

int PrintAnswer(bool as_json, const nlohmann::ordered_json& json,
                const std::vector<std::string>& lines) {
  if (as_json) {
    PrintJson(json);
  } else {
    PrintLines(lines);
  }
  return kDone;
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  PosixFiles files;
  return WriteFileDurably(files, std::filesystem::absolute(path).string(), BytesOf(text));
}

absl::StatusOr<bool> WriteResult(const std::string& path, const std::string& text) {
  if (path == "-") std::fputs(text.c_str(), stdout);
  if (path == "-" || path.empty()) return path == "-";
  RETURN_IF_ERROR(WriteText(path, text));
  return false;
}

}  // namespace atolld
