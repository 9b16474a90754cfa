// RosterGate: whom a peer takes calls from - the coordinator, and members of the roster.
//
// A caller that an operator has evicted is refused, and its calls that go on are cut the moment the
// roster says so. One that the roster does not know yet may have joined a moment ago: its call
// waits for the next roster, unread. No caller may have more calls open, or waiting, than a member
// has use for. Calls without an identity (plain text) all pass. Loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/started_call.h"
#include "daemon/peer/cut_calls.h"

namespace atolld {

class RosterGate {
 public:
  // Beyond these a call is RESOURCE_EXHAUSTED.
  struct Limits {
    size_t calls_of_one = 256;   // open at a time, of one caller
    size_t waiting_of_one = 64;  // for a roster: a member's first exchange, on all lanes
    size_t waiting = 1024;       // of all callers together
  };

  // `admit` is given the calls that may be made. `patience`: how long one waits for a roster that
  // names its caller; then it is UNAVAILABLE.
  RosterGate(Executor& executor, absl::Duration patience, Limits limits, Transport::Acceptor admit);
  ~RosterGate();

  void Accept(const std::string& method, std::unique_ptr<Call> call);
  // Returns how many calls were cut.
  size_t SetRoster(const v1::Roster& roster);

 private:
  struct Waiting {
    std::string method;
    std::string caller;
    std::unique_ptr<Call> call;
  };

  void Admit(const std::string& method, const std::string& caller, std::unique_ptr<Call> call);
  void Wait(const std::string& method, const std::string& caller, std::unique_ptr<Call> call);
  void LetGo(uint64_t number, const absl::Status& why);

  Executor& executor_;
  const absl::Duration patience_;
  const Limits limits_;
  const Transport::Acceptor admit_;

  std::set<std::string> members_;
  std::set<std::string> evicted_;
  CutCalls live_;
  uint64_t waited_ = 0;
  std::map<uint64_t, Waiting> waiting_;  // in the order of arrival
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld
