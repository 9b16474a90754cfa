// Finds the label of a sample by a regular expression with one group: the label is the text of the
// group at the first match.
//
// The expression is one of PCRE2 and is matched over bytes. '^' and '$' match at line ends, because
// a sample may have several lines. If a pattern takes too long on a sample, Find fails. Used by one
// thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

class LabelPattern {
 public:
  // Fails with INVALID_ARGUMENT if the pattern is not a regular expression, in which case the
  // message says where, or does not have exactly one group.
  static absl::StatusOr<LabelPattern> Compile(const std::string& pattern);

  LabelPattern(LabelPattern&& other) noexcept;
  LabelPattern& operator=(LabelPattern&& other) = delete;
  ~LabelPattern();

  // Returns the label, or an empty text if the pattern does not match. The result points into
  // `text`.
  absl::StatusOr<absl::string_view> Find(absl::string_view text) const;

 private:
  LabelPattern(void* code, void* match) : code_(code), match_(match) {}

  void* code_;
  void* match_;
};

}  // namespace atolld
