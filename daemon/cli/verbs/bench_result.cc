#include "daemon/cli/verbs/bench_result.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"

namespace atolld {

absl::StatusOr<bool> WriteResult(const nlohmann::ordered_json& json, const std::string& path) {
  const std::string text = json.dump(2) + "\n";
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return true;
  }
  if (path.empty()) return false;
  PosixFiles files;
  RETURN_IF_ERROR(WriteFileDurably(files, std::filesystem::absolute(path).string(), BytesOf(text)));
  return false;
}

}  // namespace atolld
