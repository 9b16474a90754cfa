// Turns libtorch's exceptions into a Status.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace atolld {

// Returns true if the message of an exception reports a lack of memory. libtorch has an exception
// class only for a lack of GPU memory; a lack of CPU memory is recognised by the message.
inline bool IsOutOfMemory(absl::string_view what) {
  return absl::StrContains(what, "out of memory") || absl::StrContains(what, "allocate memory") ||
         absl::StrContains(what, "not enough memory");
}

inline absl::Status OutOfMemory(absl::string_view context) {
  return absl::ResourceExhaustedError(
      absl::StrCat(context,
                   ": out of memory; [worker] device names another device, and a run with [inner] "
                   "accumulation or checkpointing needs less"));
}

// Returns a libtorch error message without the references to libtorch's source at its beginning
// ("[enforce fail at x.cc:197] . ") and its end ("Exception raised from").
inline absl::string_view WithoutTorchSource(absl::string_view what) {
  what = what.substr(0, what.find("\nException raised from"));
  if (!absl::StartsWith(what, "[enforce fail at ")) return what;
  const size_t end = what.find(']');
  if (end == absl::string_view::npos) return what;
  const size_t begin = what.find_first_not_of(". ", end + 1);
  return begin == absl::string_view::npos ? "libtorch refuses it" : what.substr(begin);
}

// Runs `call` and turns an exception into a Status that begins with `context`, which should name
// the tensors involved and their shapes.
template <typename Call>
absl::Status CatchTorch(absl::string_view context, Call&& call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const c10::Error& error) {
    const absl::string_view what = error.what_without_backtrace();
    if (IsOutOfMemory(what)) return OutOfMemory(context);
    return absl::InternalError(absl::StrCat(context, ": ", WithoutTorchSource(what)));
  } catch (const std::bad_alloc&) {
    return OutOfMemory(context);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(context, ": ", WithoutTorchSource(error.what())));
  }
}

}  // namespace atolld
