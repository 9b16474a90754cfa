// StandbyDoor: answers the callers of a coordinator that does not lead. The answer says so and
// names the leader.
//
// Every call fails with UNAVAILABLE, so that a peer or a command tries the next address that it
// knows. No frame of a call is read. Used on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

class StandbyDoor {
 public:
  // `leader` is called for each call and returns the leader's address, or an empty text if no
  // leader is known.
  StandbyDoor(Env env, std::function<std::string()> leader);
  ~StandbyDoor();  // stops listening and breaks all calls

  // Fails with the errors of Transport::Listen.
  absl::Status Listen(const std::string& address);

 private:
  void Refuse(std::unique_ptr<Call> call);

  Env env_;
  const std::function<std::string()> leader_;
  uint64_t last_call_ = 0;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;  // the refused calls that have not ended yet
  std::unique_ptr<Listener> listener_;
  CallbackGuard guard_;
};

}  // namespace atolld
