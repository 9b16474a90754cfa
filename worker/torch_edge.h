// The edge at which libtorch's exceptions become a Status.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace atolld {

// Runs `call`; what it throws comes back with `context`, which names the tensors at hand and their
// shapes.
template <typename Call>
absl::Status CatchTorch(absl::string_view context, Call&& call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(context, ": ", error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(context, ": out of memory"));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(context, ": ", error.what()));
  }
}

}  // namespace atolld
