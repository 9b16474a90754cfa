// LineBudget: limits how much of a child process's output goes into its parent's log.
//
// A worker that writes the same error a thousand times a second must fill neither the disk nor the
// journal: the lines that exceed the rate are left out, and one line in their place says how many
// lines were left out. Pure. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace atolld {

class LineBudget {
 public:
  // `burst` is the number of bytes that may pass at once after a time of silence.
  LineBudget(double bytes_per_second, size_t burst);

  // Returns the lines that may go into the log. If lines were left out before, the line that
  // reports this comes first. `is_error` is true if the lines come from standard error.
  std::vector<std::string> Take(absl::Time now, std::vector<std::string> lines, bool is_error);

  // Returns true if lines were left out and not yet reported.
  bool owes() const { return lines_ > 0; }

  // Returns the line that reports how many lines were left out, and the last line that was left
  // out, since this may say why a child ended; a line from standard error is preferred. Returns no
  // lines if none was left out. Call it after a pause and when the child has ended.
  std::vector<std::string> Rest();

 private:
  std::string Told() const;
  void Forget();

  const double bytes_per_second_;
  const double burst_;
  double left_;
  absl::Time filled_ = absl::InfinitePast();
  // The numbers of lines and bytes left out since the last report.
  uint64_t lines_ = 0, bytes_ = 0;
  std::string last_output_, last_error_;  // The last lines that were left out, from each output.
};

}  // namespace atolld
