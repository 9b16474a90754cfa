// RosterGate: whom a peer takes calls from - the coordinator, and members of the roster.
//
// A caller that an operator has evicted is refused, and its calls that go on are cut the moment the
// roster says so. One that the roster does not know yet may have joined a moment ago: its call
// waits for the next roster, unread. Calls without an identity (plain text) all pass. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env.h"
#include "daemon/exchange/started_call.h"

namespace atolld {

class RosterGate {
 public:
  // `admit` is given the calls that may be made. `patience`: how long one waits for a roster that
  // names its caller; then it is UNAVAILABLE. At most 64 wait; others are RESOURCE_EXHAUSTED.
  RosterGate(Executor& executor, absl::Duration patience, Transport::Acceptor admit);
  ~RosterGate();

  void Accept(const std::string& method, std::unique_ptr<Call> call);
  void SetRoster(const v1::Roster& roster);

 private:
  class GatedCall;
  using LiveCalls = std::multimap<std::string, GatedCall*>;  // by caller
  struct Waiting {
    std::string method;
    std::string caller;
    std::unique_ptr<Call> call;
  };

  void Admit(const std::string& method, const std::string& caller, std::unique_ptr<Call> call);
  void Wait(const std::string& method, const std::string& caller, std::unique_ptr<Call> call);
  void LetGo(uint64_t number, const absl::Status& why);
  void Cut(const std::string& caller);

  Executor& executor_;
  const absl::Duration patience_;
  const Transport::Acceptor admit_;

  std::set<std::string> members_;
  std::set<std::string> evicted_;
  const std::shared_ptr<LiveCalls> live_ = std::make_shared<LiveCalls>();
  uint64_t waited_ = 0;
  std::map<uint64_t, Waiting> waiting_;  // in the order of arrival
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld
