// LineMeasure: the coordinator's side of Measure - how fast a machine's line to it is, before that
// machine fetches or sends anything for the run.
//
// Law: one machine measures at a time, at most kMostBytes each way and for kPatience, so that the
// line of a coordinator, which all Sessions share, is busy with it for seconds at most. Whoever has
// measured often of late is refused. What comes is counted and dropped. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/coordinator/throttle.h"
#include "daemon/env/env.h"

namespace atolld {

class LineMeasure {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{8} << 20;
  static constexpr size_t kMostPayload = size_t{64} << 10;  // of a message
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  // `admits`: whether a caller with this identity may measure. Not asked in plain text.
  LineMeasure(Executor& executor, std::function<absl::Status(const Identity&)> admits);
  ~LineMeasure();  // cancels all calls

  // True if it is the method; then the call is taken. RESOURCE_EXHAUSTED: another one measures, or
  // this one has measured too often; INVALID_ARGUMENT: more bytes than are allowed or were said.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call);

 private:
  // The one that measures.
  struct Measured {
    uint64_t id = 0;
    bool begun = false;                     // it has said how much
    uint64_t up_left = 0;                   // that it has not sent yet
    uint64_t down_left = 0;                 // that was not sent to it yet
    std::optional<absl::Time> first, last;  // of its bytes
    bool answering = false;
  };

  absl::Status Check(const std::optional<Identity>& caller);
  void OnFrame(uint64_t id, const Frame& frame);
  absl::Status Take(const v1::MeasureMessage& message, size_t payload);
  void Answer(Call& call);
  void End(uint64_t id, const absl::Status& status);

  Executor& executor_;
  const std::function<absl::Status(const Identity&)> admits_;
  CallerThrottle pace_;
  uint64_t accepted_ = 0;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;
  std::optional<Measured> measured_;
  CallbackGuard guard_;
};

}  // namespace atolld
