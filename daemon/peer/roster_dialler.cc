#include "daemon/peer/roster_dialler.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/env/address.h"
#include "daemon/peer/no_call.h"
#include "membership/trust/access.h"

namespace atolld {
namespace {

// Of two members at one address it is this one's: who is gone may have left it to another.
bool IsThere(const v1::Member& member) {
  return member.state() == "joining" || member.state() == "live" || member.state() == "suspect";
}

}  // namespace

RosterDialler::RosterDialler(Executor& executor, Transport& under)
    : executor_(executor), under_(under), live_(executor) {}

size_t RosterDialler::SetRoster(const v1::Roster& roster) {
  members_.clear();
  evicted_.clear();
  for (const v1::Member& member : roster.members()) {
    if (member.state() == "evicted") evicted_.insert(member.peer());
    if (member.address().empty()) continue;
    if (IsThere(member)) members_[member.address()] = member.peer();
    members_.emplace(member.address(), member.peer());
  }
  size_t cut = 0;
  for (const std::string& peer : evicted_) cut += live_.Cut(peer, EvictedError(peer));
  return cut;
}

absl::StatusOr<std::unique_ptr<Listener>> RosterDialler::Listen(const std::string& address,
                                                                Acceptor acceptor) {
  return under_.Listen(address, std::move(acceptor));
}

std::unique_ptr<Call> RosterDialler::Dial(const std::string& address, const std::string& method,
                                          absl::Duration deadline) {
  if (ServedBy(method) == Role::kCoordinator) return under_.Dial(address, method, deadline);
  const auto found = members_.find(address);
  if (found == members_.end()) {
    return std::make_unique<NoCall>(
        executor_, address,
        absl::UnavailableError(absl::StrCat("no member of the roster is at ", address)));
  }
  const std::string& peer = found->second;
  if (evicted_.count(peer) != 0) {
    return std::make_unique<NoCall>(executor_, address, EvictedError(peer));
  }
  return live_.Wrap(peer, under_.Dial(FormatPeerAddress(peer, address), method, deadline));
}

}  // namespace atolld
