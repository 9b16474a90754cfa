// Wake: sends a few packets in both directions over a connection on which an exchange will soon
// begin.
//
// TCP's measurements of a path become stale in the silence of a round's training. If BBR has not
// seen the least round-trip time again for ten seconds, it measures it anew, and for 200 ms has at
// most four packets in flight (Cardwell et al. 2016, ProbeRTT). If the first packets after the
// silence belong to an exchange, this happens on all connections at once. A connection that is
// woken a little earlier makes this measurement while no exchange waits. Used on the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/exchange/started_call.h"

namespace atolld {

inline constexpr char kWakeMethod[] = "/atolld.v1.Exchange/Wake";

// The most bytes of a wake-up call. They are more than one packet, because the acknowledgement of a
// single short packet may be delayed, and TCP could then not measure by it.
inline constexpr size_t kMostWakeBytes = 4096;

// Both ends of wake-up calls.
class WakeCalls {
 public:
  // Calls that have not ended after `patience` are dropped.
  WakeCalls(Env env, absl::Duration patience)
      : env_(env), patience_(patience), refusals_(env_.executor) {}

  // Applies to calls from now on.
  void SetPatience(absl::Duration patience) { patience_ = patience; }

  // Called with OK if the bytes came back, with DEADLINE_EXCEEDED if nothing came back within
  // `patience`, and otherwise with the reason why the call broke.
  using Heard = std::function<void(const absl::Status&)>;

  // Sends `bytes` bytes, at most 4 KiB, over each of `lanes` connections to the address
  // (ExchangeSettings::lanes), and receives the same number of bytes back. `heard` is called once,
  // from the loop, with the worst result.
  void Wake(const std::string& address, uint32_t lanes, size_t bytes, Heard heard);

  // Accepts an incoming wake-up call. Calls beyond 64 at once are refused with RESOURCE_EXHAUSTED.
  void Accept(std::unique_ptr<Call> call);

 private:
  // If `answers` is true, answers the first frame with the same number of bytes; otherwise passes
  // the result to `heard`. Then ends the call.
  Call& Hold(std::unique_ptr<Call> call, bool answers, Heard heard);

  const Env env_;
  absl::Duration patience_;

  std::map<uint64_t, std::unique_ptr<Call>> calls_;
  uint64_t made_ = 0;
  size_t taken_ = 0;
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld
