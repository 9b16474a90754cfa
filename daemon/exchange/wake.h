// Wake: a few packets each way over a connection on which an exchange will soon begin.
//
// What TCP knows of a way grows old in the silence of a round's training. BBR looks for the least
// round trip again once it has seen none for ten seconds, and lets four packets through at a time
// for 200 ms while it does (Cardwell et al. 2016, ProbeRTT): on all connections at once, where the
// first packets after the silence belong to an exchange. Woken a little before, it looks while
// nobody waits. Loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/exchange/started_call.h"

namespace atolld {

inline constexpr char kWakeMethod[] = "/atolld.v1.Exchange/Wake";

// More than one packet, so that the acknowledgement is of a kind that TCP measures by: that of a
// short packet alone may have been delayed.
inline constexpr size_t kMostWakeBytes = 4096;

// Both ends of such calls.
class WakeCalls {
 public:
  // Calls that are not over after `patience` are let go.
  WakeCalls(Env env, absl::Duration patience)
      : env_(env), patience_(patience), refusals_(env_.executor) {}

  // Over each of so many connections to the address (ExchangeSettings::lanes), `bytes` there and as
  // many back, 4 KiB at most. Whether anybody is there does not matter: the exchange will find out.
  void Wake(const std::string& address, uint32_t lanes, size_t bytes);

  // At most 64 at once, more are RESOURCE_EXHAUSTED.
  void Accept(std::unique_ptr<Call> call);

 private:
  // Answers the first frame by as many bytes, or is content with it, and ends the call.
  Call& Hold(std::unique_ptr<Call> call, bool answers);

  const Env env_;
  const absl::Duration patience_;

  std::map<uint64_t, std::unique_ptr<Call>> calls_;
  uint64_t made_ = 0;
  size_t taken_ = 0;
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld
