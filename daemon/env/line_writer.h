// LineWriter: writes lines to a file descriptor that may accept none for a long time, such as a
// pipe that is not read any more, a halted terminal or a disk that hangs.
//
// Write only hands a line over, and a thread of the LineWriter writes it. Lines are dropped if too
// many already wait or if they cannot be written. As soon as lines can be written again, a line in
// their place says how many were dropped. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace atolld {

class LineWriter {
 public:
  // Returns the line, with its line end, that says how many lines were dropped. Called on the
  // writing thread.
  using Tell = std::function<std::string(uint64_t dropped)>;

  // `fd` is closed at the end if `owns_fd` is true; otherwise it stays open while the process
  // lives.
  LineWriter(int fd, bool owns_fd, Tell tell);

  // Waits until all lines are written, but at most a second, because a reader that does not read
  // must not keep the process from ending.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Hands over `text`, one or more lines with their line ends. Never blocks.
  void Write(absl::string_view text);

 private:
  struct State;

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace atolld
