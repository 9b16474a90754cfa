// A label found in a sample by a regular expression with one group: the group's text at the first
// place where the expression fits.
//
// PCRE2 over bytes; '^' and '$' are line ends, since a sample may have several lines. A pattern
// that needs too long on a sample is an error, and no endless loop. One thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

class LabelPattern {
 public:
  // INVALID_ARGUMENT: it is no regular expression, and where, or has not one group.
  static absl::StatusOr<LabelPattern> Compile(const std::string& pattern);

  LabelPattern(LabelPattern&& other) noexcept;
  LabelPattern& operator=(LabelPattern&& other) = delete;
  ~LabelPattern();

  // Empty where it fits nowhere. Borrows from `text`.
  absl::StatusOr<absl::string_view> Find(absl::string_view text) const;

 private:
  LabelPattern(void* code, void* match) : code_(code), match_(match) {}

  void* code_;
  void* match_;
};

}  // namespace atolld
