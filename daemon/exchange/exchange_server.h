// ExchangeServer: receives the incoming Exchange streams of a peer and hands each to the running
// exchange it belongs to.
//
// A stream for a plan that has not arrived here yet is held until it does, for at most
// failure_timeout (then FAILED_PRECONDITION), at most 256 at once and 64 of one caller (then
// RESOURCE_EXHAUSTED); one for an older entry is refused with FAILED_PRECONDITION, one of another
// run with INVALID_ARGUMENT. Loop thread.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange.h"

namespace atolld {

class ExchangeServer {
 public:
  ExchangeServer(Env env, std::string run_id, absl::Duration failure_timeout);
  ~ExchangeServer();
  void Accept(std::unique_ptr<Call> call);
  // nullptr between rounds, and before the exchange is destroyed; hands over the streams held for
  // it.
  void SetCurrent(Exchange* exchange);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld
