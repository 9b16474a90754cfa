#include "worker/base/flags.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

absl::Status WrongFlag(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("--", name, " ", what));
}

}  // namespace

absl::StatusOr<Flags> Flags::Parse(const std::vector<std::string>& arguments,
                                   const std::vector<std::string>& known) {
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!absl::StartsWith(argument, "--")) {
      return absl::InvalidArgumentError(absl::StrCat("\"", argument, "\" is not a flag"));
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return WrongFlag(
          name, absl::StrCat("is not known; did you mean --", NearestName(name, known), "?"));
    }
    std::string value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return WrongFlag(name, "needs a value");
    }
    if (!flags.values_.emplace(name, value).second) return WrongFlag(name, "is given twice");
  }
  return flags;
}

absl::StatusOr<std::string> Flags::Text(const std::string& name,
                                        absl::optional<std::string> otherwise) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  if (otherwise.has_value()) return *otherwise;
  return WrongFlag(name, "is missing");
}

absl::StatusOr<uint64_t> Flags::Count(const std::string& name,
                                      absl::optional<uint64_t> otherwise) const {
  if (values_.count(name) == 0 && otherwise.has_value()) return *otherwise;
  ASSIGN_OR_RETURN(const std::string text, Text(name));
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return WrongFlag(name, absl::StrCat("is \"", text, "\"; it must be a whole number, 0 or more"));
  }
  return value;
}

absl::StatusOr<double> Flags::Number(const std::string& name,
                                     absl::optional<double> otherwise) const {
  if (values_.count(name) == 0 && otherwise.has_value()) return *otherwise;
  ASSIGN_OR_RETURN(const std::string text, Text(name));
  double value = 0;
  if (!absl::SimpleAtod(text, &value)) {
    return WrongFlag(name, absl::StrCat("is \"", text, "\"; it must be a number"));
  }
  return value;
}

absl::StatusOr<bool> Flags::Truth(const std::string& name) const {
  ASSIGN_OR_RETURN(const std::string text, Text(name, "false"));
  if (text == "true" || text == "false") return text == "true";
  return WrongFlag(name, absl::StrCat("is \"", text, "\"; it must be true or false"));
}

}  // namespace atolld
