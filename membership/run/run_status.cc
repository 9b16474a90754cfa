// How the run looks from outside.
#include <string>

#include "absl/strings/str_cat.h"
#include "membership/run/admission.h"
#include "membership/run/run.h"

namespace atolld {

std::string Run::Phase() const {
  if (seal_) return "sealed";
  if (!adoption_.empty()) return "waiting";
  if (control_.paused() && !exchange_) return "paused";
  if (!genesis_) return genesis_maker_.empty() ? "waiting" : "initializing";
  if (version() >= LastVersion()) {
    if (Evaluated(version())) return "sealing";
    return evaluation_ ? "evaluating" : "waiting";
  }
  if (exchange_) return "exchanging";
  if (!round_.open() || !round_.reason().empty() || !reason_.empty()) return "waiting";
  return evaluation_ && evaluation_->version() == version() ? "evaluating" : "training";
}

double Run::Elapsed(absl::Time now) const {
  return earlier_seconds_ + (first_train_ ? absl::ToDoubleSeconds(now - *first_train_) : 0);
}

std::string Run::PausedReason() const {
  return absl::StrCat("an operator has paused it", control_.reason.empty() ? "" : ": ",
                      control_.reason);
}

std::string Run::WaitingFor() const {
  const bool rounds_go_on =
      genesis_ && !seal_ && version() < LastVersion() && !(control_.paused() && !exchange_);
  return !reason_.empty() || !rounds_go_on ? reason_ : round_.reason();
}

v1::PeerStatus Run::StatusOf(const v1::Member& member) const {
  v1::PeerStatus out;
  *out.mutable_member() = member;
  const RosterMember& known = *roster_.Find(member.peer());
  out.set_pid(known.pid);
  out.set_why(known.why);
  out.set_role(known.aggregator ? kAggregatorRole : "peer");
  const auto it = peers_.find(member.peer());
  if (it == peers_.end()) return out;
  const PeerInfo& info = it->second;
  out.set_up_bytes_per_second(planner_.estimates().Up(member.peer()));
  out.set_down_bytes_per_second(planner_.estimates().Down(member.peer()));
  *out.mutable_progress() = info.progress;
  out.set_rounds_contributed(info.rounds);
  out.set_tokens(info.tokens);
  out.set_state_digest(info.state_digest);
  out.set_state_version(info.state_version);
  out.set_suspicions(info.suspicions);
  out.set_offence(info.offence);
  if (info.worker) out.set_device(info.worker->device());
  judge_.Show(member.peer(), &out);
  return out;
}

v1::DataStatus Run::Data() const {
  v1::DataStatus data = leases_.Status();
  for (const auto& [peer, info] : peers_) {
    if (!info.worker) continue;
    // All workers have the same text: it is checked by its digest.
    data.set_samples_a_pass(SamplesAPass(info.worker->train_tokens(), spec_.model().context()));
    break;
  }
  return data;
}

v1::RunStatus Run::Status(absl::Time now) const {
  v1::RunStatus status;
  *status.mutable_spec() = spec_;
  status.set_epoch(epoch_);
  status.set_version(version());
  status.set_phase(Phase());
  status.set_reason(WaitingFor());
  status.set_paused(control_.paused());
  status.set_stopping(control_.stopping() && !seal_);
  status.set_epoch_seconds(absl::ToDoubleSeconds(now - epoch_began_));
  *status.mutable_data() = Data();
  *status.mutable_noise() = noise_.Status();
  if (genesis_) status.set_parameters(genesis_->manifest().elements());
  status.set_elapsed_seconds(seal_ && !rounds_.empty() ? Elapsed(sealed_at_) : Elapsed(now));
  uint64_t tokens = 0;
  for (const v1::RoundRecord& round : rounds_) tokens += round.tokens();
  status.set_tokens(tokens);
  const v1::Roster roster = roster_.ToProto();
  for (const v1::Member& member : roster.members()) *status.add_peers() = StatusOf(member);
  if (seal_) *status.mutable_seal() = *seal_;
  return status;
}

}  // namespace atolld
