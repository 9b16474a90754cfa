// What operators ask of the run and of its peers.
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "membership/run/admission.h"
#include "membership/run/run.h"

namespace atolld {
namespace {

std::string Because(const std::string& reason) {
  return reason.empty() ? "" : absl::StrCat(": ", reason);
}

}  // namespace

absl::StatusOr<RunOutput> Run::OnOrder(absl::Time now, const RunOrder& order) {
  if (order.reason.size() > kLongestReason) {
    return absl::InvalidArgumentError("the reason is longer than 256 bytes");
  }
  // It goes into logs, a line each.
  const std::string reason = absl::Utf8SafeCEscape(order.reason);
  absl::Status status;
  switch (order.verb) {
    case RunOrder::Verb::kPause:
      status = Pause(reason);
      break;
    case RunOrder::Verb::kResume:
      status = Resume();
      break;
    case RunOrder::Verb::kStop:
      status = Stop(reason);
      break;
    case RunOrder::Verb::kDrain:
      status = Drain(order.peer, reason);
      break;
    case RunOrder::Verb::kEvict:
      status = Evict(now, order.peer, reason);
      break;
    case RunOrder::Verb::kReadmit:
      status = Readmit(now, order.peer);
      break;
  }
  if (!status.ok()) return status;  // and nothing has changed
  return Finish(now);
}

absl::Status Run::Pause(const std::string& reason) {
  if (seal_) return absl::FailedPreconditionError("the run is sealed");
  if (control_.stopping()) return absl::FailedPreconditionError("the run is being stopped");
  if (control_.paused()) return absl::OkStatus();
  control_ = {RunControl::State::kPaused, reason};
  out_.update.control = control_;
  Say(absl::StrCat("an operator has paused the run", Because(reason),
                   exchange_ ? "; the exchange under way is finished first" : ""));
  return absl::OkStatus();
}

absl::Status Run::Resume() {
  if (seal_) return absl::FailedPreconditionError("the run is sealed");
  if (control_.stopping()) {
    return absl::FailedPreconditionError("the run is being stopped, and that cannot be undone");
  }
  if (!control_.paused()) return absl::OkStatus();
  control_ = RunControl();
  out_.update.control = control_;
  Say("an operator has resumed the run");
  return absl::OkStatus();
}

absl::Status Run::Stop(const std::string& reason) {
  if (!genesis_) {
    return absl::FailedPreconditionError(
        "the run has no version 0 yet, so there is nothing to seal; end its processes instead");
  }
  if (seal_ || control_.stopping()) return absl::OkStatus();
  control_ = {RunControl::State::kStopping, reason};
  out_.update.control = control_;
  Say(absl::StrCat("an operator has stopped the run", Because(reason), "; its last version is ",
                   LastVersion()));
  return absl::OkStatus();
}

absl::Status Run::Drain(const std::string& peer, const std::string& reason) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr) return absl::NotFoundError(absl::StrCat("no peer ", peer));
  if (!member->present()) {
    return absl::FailedPreconditionError(
        absl::StrCat("peer ", peer, " is no member now: it is ", MemberStateName(member->state)));
  }
  if (member->draining) return absl::OkStatus();
  roster_.Drain(peer, reason.empty() ? "asked to leave" : reason);
  out_.update.members.push_back(Roster::Record(*member));
  roster_changed_ = true;
  SendDrain(peer);
  NoteQuorum(absl::StrCat("an operator drains peer ", peer, Because(reason)));
  return absl::OkStatus();
}

void Run::SendDrain(const std::string& peer) {
  v1::CoordinatorMessage message;
  message.mutable_drain()->set_reason(roster_.Find(peer)->why);
  SendTo(peer, std::move(message));
}

absl::Status Run::Evict(absl::Time now, const std::string& peer, const std::string& reason) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr) return absl::NotFoundError(absl::StrCat("no peer ", peer));
  if (member->state == MemberState::kEvicted) return absl::OkStatus();
  const bool was_present = member->present();
  if (member->connected()) {
    out_.ends.push_back({member->session, absl::PermissionDeniedError(absl::StrCat(
                                              "peer ", peer, " was evicted", Because(reason)))});
  }
  roster_.Evict(now, peer, reason);
  if (was_present) {
    NoteQuorum(absl::StrCat("an operator has evicted peer ", peer, Because(reason)));
  } else {
    Say(absl::StrCat("an operator has evicted peer ", peer, Because(reason)));
  }
  Gone(now, peer);
  return absl::OkStatus();
}

void Run::EvictLiar(absl::Time now, const std::string& peer, const std::string& evidence) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr || member->state == MemberState::kEvicted) return;
  if (member->connected()) {
    out_.ends.push_back({member->session, absl::PermissionDeniedError(absl::StrCat(
                                              "peer ", peer, " was evicted: ", evidence))});
  }
  roster_.Evict(now, peer, evidence);
  peers_[peer].offence = evidence;
  out_.evicted.push_back(peer);
  NoteQuorum(absl::StrCat("peer ", peer, " is evicted: ", evidence));
  Gone(now, peer);
}

bool Run::Evicted(const std::string& peer) const {
  const RosterMember* const member = roster_.Find(peer);
  return member != nullptr && member->state == MemberState::kEvicted;
}

absl::Status Run::Readmit(absl::Time now, const std::string& peer) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr) return absl::NotFoundError(absl::StrCat("no peer ", peer));
  if (member->state != MemberState::kEvicted) return absl::OkStatus();
  roster_.Readmit(now, peer);
  out_.update.members.push_back(Roster::Record(*member));
  roster_changed_ = true;
  Say(absl::StrCat("an operator lets peer ", peer, " come back"));
  return absl::OkStatus();
}

// Says it, and what it means for the rounds: the answer to whoever asked repeats that.
void Run::NoteQuorum(const std::string& said) {
  size_t stay = 0;
  for (const auto& [peer, member] : roster_.members()) {
    stay += member.present() && !member.draining && !member.aggregator ? 1 : 0;
  }
  const bool enough = stay >= settings_.round.quorum || seal_;
  if (!enough) {
    out_.notice =
        absl::StrCat(stay, stay == 1 ? " peer stays" : " peers stay", ", fewer than the quorum of ",
                     settings_.round.quorum, ": the run will wait");
  }
  Say(absl::StrCat(said, enough ? "" : "; ", out_.notice),
      enough ? RunOutput::Severity::kInfo : RunOutput::Severity::kWarning);
}

}  // namespace atolld
