#include "membership/history/run_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "membership/history/sha256.h"

namespace atolld {
namespace {

constexpr size_t kLongestFileName = 100;

bool MayStandInFileName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

bool IsFileName(absl::string_view name) {
  return !name.empty() && name.size() <= kLongestFileName && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), MayStandInFileName);
}

}  // namespace

bool Travels(const v1::RunFile& file) { return file.bytes() <= kLargestRunFile; }

std::string Describe(const v1::RunFile& file) {
  const auto bytes = static_cast<double>(file.bytes());
  return absl::StrCat(file.name(), bytes < 1e5 ? absl::StrFormat(" (%.1f kB)", bytes / 1e3)
                                               : absl::StrFormat(" (%.1f MB)", bytes / 1e6));
}

std::string RunFileName(absl::string_view name) {
  std::string safe(name.substr(name.size() - std::min(name.size(), kLongestFileName)));
  std::replace_if(
      safe.begin(), safe.end(), [](char c) { return !MayStandInFileName(c); }, '_');
  if (safe.empty() || safe[0] == '.') safe.insert(0, "_");
  return safe.substr(0, kLongestFileName);
}

absl::Status CheckRunFiles(const v1::RunSpec& spec) {
  if (spec.files_size() > kMostRunFiles) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the run lists ", spec.files_size(), " files; at most ", kMostRunFiles, " are allowed"));
  }
  std::set<std::pair<std::string, std::string>> seen;
  for (const v1::RunFile& file : spec.files()) {
    const std::string where = absl::StrCat("the run's file ", absl::CEscape(file.name()), ": ");
    if (file.role() != kTokenizerRole && file.role() != kProgramRole &&
        file.role() != kValidationRole) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "its role is not tokenizer, program or validation"));
    }
    if (!IsFileName(file.name())) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "a name has 1 to 100 characters of A-Z, a-z, 0-9, ., _ and -"));
    }
    if (file.bytes() == 0 || file.digest().size() != kDigestBytes) {
      return absl::InvalidArgumentError(absl::StrCat(where, "it has no bytes or no digest"));
    }
    if (!seen.emplace(file.role(), file.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, "it is listed twice"));
    }
  }
  return absl::OkStatus();
}

const v1::RunFile* FindRunFile(const v1::RunSpec& spec, absl::string_view role) {
  for (const v1::RunFile& file : spec.files()) {
    if (file.role() == role) return &file;
  }
  return nullptr;
}

}  // namespace atolld
