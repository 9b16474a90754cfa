// The status macros that the Abseil of Debian 12 lacks, with the names that later releases use.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace atolld {

// Returns the same error, with `context` and ": " in front of its message. `context` names the
// attempted action.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace atolld

#define RETURN_IF_ERROR(expression)                                  \
  do {                                                               \
    const absl::Status return_if_error_status = (expression);        \
    if (!return_if_error_status.ok()) return return_if_error_status; \
  } while (false)

#define ATOLL_CONCAT_INNER(a, b) a##b
#define ATOLL_CONCAT(a, b) ATOLL_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(ATOLL_CONCAT(status_or_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.ok()) return temporary.status();                  \
  declaration = std::move(temporary).value()
