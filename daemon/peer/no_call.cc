#include "daemon/peer/no_call.h"

#include <utility>

namespace atolld {

NoCall::NoCall(Executor& executor, std::string remote, absl::Status why)
    : executor_(executor), remote_(std::move(remote)), why_(std::move(why)) {}

void NoCall::Start(Events events) {
  executor_.Post(guard_.Wrap([why = why_, on_closed = std::move(events.on_closed)] {
    if (on_closed) on_closed(why);
  }));
}

}  // namespace atolld
