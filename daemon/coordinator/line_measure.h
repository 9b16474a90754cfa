// LineMeasure: the coordinator's side of Measure, which finds out how fast a machine's line to the
// coordinator is before that machine fetches or sends anything for the run.
//
// Law: one machine measures at a time, with at most kMostBytes in each direction and for at most
// kPatience, because all Sessions share the coordinator's line. A caller that has measured too
// often lately is refused. The bytes that arrive are counted and dropped. Used on the loop thread.
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
  static constexpr size_t kMostPayload = size_t{64} << 10;  // the most payload bytes of one message
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  // `admits` returns OK if a caller with this identity may measure. It is not called if connections
  // are plain text.
  LineMeasure(Executor& executor, std::function<absl::Status(const Identity&)> admits);
  ~LineMeasure();  // cancels all calls

  // Takes the call and returns true if the method is Measure. The call fails with
  // RESOURCE_EXHAUSTED if another caller is measuring or this caller has measured too often, and
  // with INVALID_ARGUMENT if the caller sends or asks for more bytes than are allowed or than it
  // announced.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call);

 private:
  // The caller that is measuring now.
  struct Measured {
    uint64_t id = 0;
    // True once the caller has announced how many bytes it will send and receive.
    bool begun = false;
    uint64_t up_left = 0;                   // the announced bytes that it has not sent yet
    uint64_t down_left = 0;                 // the requested bytes that were not sent to it yet
    std::optional<absl::Time> first, last;  // the times at which its first and last bytes arrived
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
