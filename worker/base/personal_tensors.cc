#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "worker/base/manifest.h"

namespace atolld {
namespace {

bool MatchesAny(absl::Span<const std::string> patterns, absl::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return MatchesPattern(pattern, name); });
}

absl::Status CheckPattern(const std::string& pattern, const TensorAliases& aliases,
                          const v1::Manifest& manifest) {
  std::vector<std::string> names;
  for (const v1::Tensor& tensor : manifest.tensors()) names.push_back(tensor.name());
  for (const auto& [alias, name] : aliases) names.push_back(alias);
  const auto matches = [&](const std::string& name) { return MatchesPattern(pattern, name); };
  if (std::any_of(names.begin(), names.end(), matches)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.local \"", pattern, "\" matches no tensor of the model; the nearest is ",
                   NearestName(pattern, names)));
}

absl::Status CheckAliases(absl::Span<const std::string> patterns, const TensorAliases& aliases) {
  for (const auto& [alias, name] : aliases) {
    if (MatchesAny(patterns, alias) == MatchesAny(patterns, name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model.local names one of ", alias, " and ", name,
                     ", which are one tensor here; name both or neither"));
  }
  return absl::OkStatus();
}

v1::Manifest Part(const v1::Manifest& whole, absl::Span<const std::string> patterns,
                  bool personal) {
  v1::Manifest part;
  uint64_t elements = 0;
  for (const v1::Tensor& tensor : whole.tensors()) {
    if (MatchesAny(patterns, tensor.name()) != personal) continue;
    *part.add_tensors() = tensor;
    elements += TensorElements(tensor);
  }
  part.set_elements(elements);
  return part;
}

}  // namespace

bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  // After a "*", on a letter that does not fit, the star takes one more.
  size_t p = 0, n = 0, star = absl::string_view::npos, resumed = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resumed = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++resumed;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

absl::Status PlacePersonal(absl::Span<const std::string> patterns, const TensorAliases& aliases,
                           v1::Manifest* manifest) {
  if (patterns.empty()) return absl::OkStatus();
  for (const std::string& pattern : patterns) {
    const absl::Status status = CheckPattern(pattern, aliases, *manifest);
    if (!status.ok()) return status;
  }
  if (const absl::Status status = CheckAliases(patterns, aliases); !status.ok()) return status;
  uint64_t offset = 0;
  for (const bool personal : {false, true}) {
    for (v1::Tensor& tensor : *manifest->mutable_tensors()) {
      if (MatchesAny(patterns, tensor.name()) != personal) continue;
      tensor.set_offset(offset);
      offset += TensorElements(tensor);
    }
    if (offset == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.local matches every tensor of the model, ",
                       manifest->tensors(0).name(), " too; peers would exchange nothing"));
    }
  }
  return absl::OkStatus();
}

v1::Manifest SharedPart(const v1::Manifest& whole, absl::Span<const std::string> patterns) {
  return Part(whole, patterns, /*personal=*/false);
}

v1::Manifest PersonalPart(const v1::Manifest& whole, absl::Span<const std::string> patterns) {
  return Part(whole, patterns, /*personal=*/true);
}

std::vector<std::string> PersonalPatterns(const v1::ModelSpec& model) {
  return {model.local().begin(), model.local().end()};
}

}  // namespace atolld
