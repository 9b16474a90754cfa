#include "daemon/coordinator/standby_door.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {

StandbyDoor::StandbyDoor(Env env, std::function<std::string()> leader)
    : env_(env), leader_(std::move(leader)) {}

StandbyDoor::~StandbyDoor() = default;

absl::Status StandbyDoor::Listen(const std::string& address) {
  ASSIGN_OR_RETURN(listener_,
                   env_.transport.Listen(
                       address, guard_.Wrap([this](const std::string&, std::unique_ptr<Call> call) {
                         Refuse(std::move(call));
                       })));
  return absl::OkStatus();
}

void StandbyDoor::Refuse(std::unique_ptr<Call> call) {
  const uint64_t id = ++last_call_;
  Call& taken = *(calls_[id] = std::move(call));
  // Later: a call is not destroyed from inside its own callback.
  Call::Events events;
  events.on_closed = guard_.Wrap([this, id](const absl::Status&) {
    env_.executor.Post(guard_.Wrap([this, id] { calls_.erase(id); }));
  });
  taken.Start(std::move(events));
  const std::string leader = leader_();
  taken.Finish(absl::UnavailableError(
      leader.empty() ? "this coordinator is not the leader, and none is known yet"
                     : absl::StrCat("this coordinator is not the leader: ", leader, " leads")));
}

}  // namespace atolld
