// StandbyDoor: what a coordinator that does not lead answers to whoever calls it: "not the leader",
// and who is.
//
// Every call is UNAVAILABLE, so that a peer or a command goes on to the next address that it knows.
// Nothing of a call is read. Loop thread.
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
  // `leader`: the address of who leads, as it is known at each call; empty: nobody does.
  StandbyDoor(Env env, std::function<std::string()> leader);
  ~StandbyDoor();  // stops listening and breaks all calls

  // Errors as Transport::Listen.
  absl::Status Listen(const std::string& address);

 private:
  void Refuse(std::unique_ptr<Call> call);

  Env env_;
  const std::function<std::string()> leader_;
  uint64_t last_call_ = 0;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;  // until they end
  std::unique_ptr<Listener> listener_;
  CallbackGuard guard_;
};

}  // namespace atolld
