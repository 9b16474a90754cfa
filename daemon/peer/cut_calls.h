// CutCalls: calls that can be taken from whoever owns them, by the peer at their other end.
//
// The owner of one that is cut hears on_closed, and nothing that comes over it any more. Loop
// thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/env/env.h"

namespace atolld {

// What a call to or from a peer that is no longer on the roster ends with.
inline absl::Status EvictedError(const std::string& peer) {
  return absl::PermissionDeniedError(absl::StrCat("peer ", peer, " was evicted"));
}

class CutCalls {
 public:
  explicit CutCalls(Executor& executor) : executor_(executor) {}

  // A call to use in place of `call`, whose other end is `peer`. It may outlive this.
  std::unique_ptr<Call> Wrap(const std::string& peer, std::unique_ptr<Call> call);

  // Those of the peer that are there; returns how many. Their owners are told later, from the loop.
  size_t Cut(const std::string& peer, const absl::Status& why);
  size_t Count(const std::string& peer) const { return live_->count(peer); }

 private:
  class CutCall;
  using Live = std::multimap<std::string, CutCall*>;  // by peer

  Executor& executor_;
  const std::shared_ptr<Live> live_ = std::make_shared<Live>();
};

}  // namespace atolld
