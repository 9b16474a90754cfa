// AnswerSource: what a donor's answer to one request is made of, one frame after another, out of
// the files of a replica.
//
// Runs on the pool, one call at a time; blocking.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/env/env.h"

namespace atolld {

class AnswerSource {
 public:
  virtual ~AnswerSource() = default;
  // Takes the next request. An error ends the stream.
  virtual absl::Status Begin(const Frame& request) = 0;
  // The next frame of the answer; not after the last one.
  virtual absl::StatusOr<Frame> NextFrame() = 0;
  virtual bool complete() const = 0;  // the last one was made
};

// Of the replica of that run under `dir`, for FetchEntries or FetchSnapshot; one for any other
// method refuses every request.
std::unique_ptr<AnswerSource> MakeAnswerSource(const std::string& method, Files& files,
                                               const std::string& dir, const std::string& run_id);

}  // namespace atolld
