#include "daemon/config/data_on_disk.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/config/data_config.h"

namespace atolld {
namespace {

constexpr uint64_t kLeastPrivateBytes = 2;

}  // namespace

absl::Status CheckDataApart(const DataConfig& data, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<DataSource> sources, SourcesOf(data));
  std::error_code error;
  const std::filesystem::path inner = std::filesystem::weakly_canonical(dir, error);
  for (const DataSource& source : sources) {
    if (!std::filesystem::is_directory(source.path, error)) continue;
    const std::filesystem::path outer = std::filesystem::weakly_canonical(source.path, error);
    const std::filesystem::path beneath = inner.lexically_relative(outer);
    if (error || beneath.empty() || *beneath.begin() == "..") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the data folder '", source.path, "' holds '", dir,
                     "', where logs and checkpoints are written: they would be trained on. Name a "
                     "folder outside of it, or the text alone"));
  }
  return absl::OkStatus();
}

absl::Status CheckDataSize(const Config& config) {
  if (config.model.kind == kStubKind || IsForeign(config.model.kind)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<DataSource> sources, SourcesOf(config.data));
  for (const DataSource& source : sources) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(source.path, error)) continue;
    const uint64_t bytes = std::filesystem::file_size(source.path, error);
    if (error) continue;
    if (bytes == 0) {
      return absl::InvalidArgumentError(absl::StrCat("data '", source.path, "' is empty"));
    }
    // A party with little data trains on what it has (docs/data.md): two tokens are enough.
    if (config.data.is_private) {
      if (bytes >= kLeastPrivateBytes) continue;
      return absl::InvalidArgumentError(absl::StrCat("data '", source.path, "' has ",
                                                     Counted(bytes, "byte"),
                                                     "; a party trains from two tokens on"));
    }
    const bool packed = absl::EndsWith(source.path, ".gz") || absl::EndsWith(source.path, ".zst") ||
                        absl::EndsWith(source.path, ".zstd");
    const bool plain = !packed && config.data.kind == "text" && !IsChat(config.data) &&
                       config.data.tokenizer == kByteTokenizer;
    if (!plain) continue;
    // As the worker splits.
    const auto trained =
        static_cast<uint64_t>(static_cast<double>(bytes) * (1.0 - config.data.validation_fraction));
    const uint64_t held_out = bytes - trained;
    const bool short_tail = trained > config.model.context && sources.size() == 1 &&
                            config.data.validation_fraction > 0 && held_out <= config.model.context;
    if (trained > config.model.context && !short_tail) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data '", source.path, "' has ", Counted(bytes, "byte"), ", of which ",
        short_tail ? held_out : trained, short_tail ? " validate" : " are trained on",
        ": not one sequence of [model] context = ", config.model.context,
        " and the token after it; a longer text",
        short_tail ? ", a larger validation_fraction" : "", " or a smaller context is needed"));
  }
  return absl::OkStatus();
}

}  // namespace atolld
