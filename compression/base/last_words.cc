#include "compression/base/last_words.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compression/base/process_limits.h"

namespace atolld {
namespace {

constexpr int kPatienceMilliseconds = 1000;

}  // namespace

void LastWords(absl::string_view text) {
  while (!text.empty()) {
    pollfd error = {STDERR_FILENO, POLLOUT, 0};
    const int ready = poll(&error, 1, kPatienceMilliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || (error.revents & POLLOUT) == 0) return;
    // A pipe that is ready has room for this much, so the write does not wait.
    const size_t piece = std::min<size_t>(text.size(), PIPE_BUF);
    const ssize_t written = write(STDERR_FILENO, text.data(), piece);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

void DieOfCheck(const char* file, int line, absl::string_view what) {
  LastWords(absl::StrCat(file, ":", line, ": ", what, "\n"));
  std::abort();
}

namespace {

[[noreturn]] void TellAndAbort() {
  const std::exception_ptr thrown = std::current_exception();
  if (thrown == nullptr) {
    LastWords("the process ends: it was told to terminate\n");
    std::abort();
  }
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      LastWords(absl::StrCat("no thread can be made: ", Describe(ReadThreadLimit()), "\n"));
      std::_Exit(EXIT_FAILURE);  // no fault of ours: no core is of use
    }
    LastWords(absl::StrCat("the process ends: ", error.what(), "\n"));
  } catch (const std::exception& error) {
    LastWords(absl::StrCat("the process ends: ", error.what(), "\n"));
  } catch (...) {
    LastWords("the process ends: an unknown exception was thrown and not caught\n");
  }
  std::abort();
}

}  // namespace

void TellUncaughtExceptions() { std::set_terminate(&TellAndAbort); }

}  // namespace atolld
