#include "membership/run/run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "membership/run/admission.h"

namespace atolld {
namespace {

constexpr size_t kExchangeTimes = 16;  // remembered for the prediction

// Everybody is told of everybody; and a flood of made-up ids ends here.
constexpr size_t kMostMembers = 4096;

// An epoch ends with a restart or a failed attempt; a peer that names a much later one lies.
constexpr uint64_t kMostEpochsAhead = 1000000;

}  // namespace

Run::Run(RunSettings settings, const StoredRun& stored, absl::Time now)
    : settings_(std::move(settings)),
      spec_(*stored.spec),
      epoch_(stored.epoch),
      epoch_began_(now),
      control_(stored.control),
      genesis_(stored.genesis),
      seal_(stored.seal),
      rounds_(stored.rounds),
      evaluations_(stored.evaluations),
      roster_(settings_.failure_timeout, now, stored.members),
      leases_(stored.leases),
      round_(settings_.round, stored.started, stored.headers.size() + 1),
      recovered_(stored.headers.size()),
      exchange_times_(kExchangeTimes),
      planner_(settings_.plan),
      judge_(settings_.judge, stored.judged),
      noise_(spec_.exchange(), rounds_) {
  if (genesis_) digests_.push_back(settings_.genesis_digest(*genesis_));
  for (const v1::EntryHeader& header : stored.headers) {
    digests_.push_back(settings_.header_digest(header));
    for (const v1::Contributor& contributor : header.contributors()) {
      PeerInfo& info = peers_[contributor.peer()];
      ++info.rounds;
      info.tokens += contributor.tokens();
    }
  }
  if (!stored.headers.empty()) header_ = stored.headers.back();
  for (const v1::RoundRecord& round : rounds_) {
    if (round.exchange_seconds() > 0) exchange_times_.Add(absl::Seconds(round.exchange_seconds()));
    earlier_seconds_ = std::max(earlier_seconds_, round.elapsed_seconds());
  }
  if (seal_) sealed_at_ = now;
  // Of those who died in an exchange that the former coordinator did not live to end.
  for (const auto& [peer, member] : roster_.members()) {
    if (member.present() || !leases_.holds(peer)) continue;
    leases_.Return(peer);
    leases_changed_ = true;
  }
}

Run::~Run() = default;

absl::Status Run::Admit(const v1::Hello& hello) const {
  absl::Status status = CheckHello(spec_, hello);
  if (!status.ok()) return status;
  const RosterMember* former = roster_.Find(hello.peer());
  if (former != nullptr && former->state == MemberState::kEvicted) {
    return absl::PermissionDeniedError(absl::StrCat("peer ", hello.peer(), " was evicted",
                                                    former->why.empty() ? "" : ": ", former->why));
  }
  const auto info = peers_.find(hello.peer());
  const bool same_process =
      former != nullptr && !former->restored && former->instance == hello.instance();
  if (same_process && info != peers_.end() && info->second.signing_key != hello.signing_key()) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", hello.peer(), " changes its signing key while it runs"));
  }
  if (hello.epoch() > epoch_ && hello.epoch() - epoch_ > kMostEpochsAhead) {
    return absl::InvalidArgumentError(absl::StrCat("peer ", hello.peer(), " names epoch ",
                                                   hello.epoch(), ", this is epoch ", epoch_));
  }
  if (former == nullptr && roster_.members().size() >= kMostMembers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the run has ", kMostMembers, " members already"));
  }
  if (!hello.has_state()) return absl::OkStatus();
  // It made version 0, and the coordinator went down before it could record it: it will be asked
  // for it again.
  if (!genesis_ && hello.version() == 0) return absl::OkStatus();
  status = CheckChain(hello.version(), hello.header_digest());
  if (!status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("peer ", hello.peer(), ": ", status.message()));
  }
  return absl::OkStatus();
}

RunOutput Run::OnHello(absl::Time now, SessionId session, const v1::Hello& hello) {
  const std::string& peer = hello.peer();
  const absl::Status admitted = Admit(hello);
  if (!admitted.ok()) {
    out_.ends.push_back({session, admitted});
    Say(absl::StrCat("a peer was refused: ", admitted.message()), RunOutput::Severity::kWarning);
    return Finish(now);
  }
  const RosterMember* former = roster_.Find(peer);
  const bool known = former != nullptr && former->present() && !former->restored;
  const bool same_process = former != nullptr && !former->restored && former->pid == hello.pid() &&
                            former->instance == hello.instance() &&
                            former->address == hello.address();
  // of this process, since the coordinator's start
  const bool first_word =
      former == nullptr || former->restored || former->instance != hello.instance();
  const SessionId replaced = roster_.Join(now, session, hello);
  if (replaced != 0 && replaced != session) {
    out_.ends.push_back({replaced, same_process
                                       ? absl::UnavailableError("replaced by a newer session")
                                       : absl::FailedPreconditionError(absl::StrCat(
                                             "another process (pid ", hello.pid(), ", ",
                                             hello.address(), ") has joined as ", peer))});
  }
  PeerInfo& info = peers_[peer];
  info.signing_key = hello.signing_key();
  if (!same_process) {
    info.worker.reset();
    info.progress.Clear();
    info.spared_until = 0;
    info.dialled_in_vain_until = absl::InfinitePast();
    round_.trainer(peer).worker_ready = false;
    round_.trainer(peer).worker_lost_in = 0;
  }
  if (genesis_maker_ == peer) genesis_maker_.clear();  // what it was asked may not have reached it
  if (evaluation_) evaluation_->TakeBack(peer);
  out_.update.members.push_back(Roster::Record(*roster_.Find(peer)));
  roster_changed_ = true;
  Say(absl::StrCat("peer ", peer, known && same_process ? " resumed its session" : " joined",
                   roster_.Find(peer)->aggregator ? " as aggregator" : "", " (",
                   hello.address().empty() ? "dials out only" : hello.address(),
                   hello.has_state() ? absl::StrCat(", holds version ", hello.version()) : "",
                   ")"));
  const bool outgrown = hello.epoch() > epoch_ || (first_word && hello.epoch() == epoch_);
  if (outgrown && !Planted(PlantedBug::kEpochResetAtRestart)) {
    OutgrowEpoch(now, hello.epoch());  // welcomes everybody
  } else {
    SendTo(peer, Welcome());
  }
  if (roster_.Find(peer)->draining) SendDrain(peer);
  adoption_.Remove(peer);
  if (hello.has_state() && Ahead(hello.version())) {
    adoption_.Add(peer, hello.version(), hello.header_digest());
    adoption_.SetSamples(peer, {hello.samples().begin(), hello.samples().end()});
    return Finish(now);
  }
  AdoptSamples(now, peer, {hello.samples().begin(), hello.samples().end()});
  if (!same_process) LoseFromExchange(now, peer);
  SendRosterIfChanged();  // before a plan: one that names strangers is not believed
  if (exchange_ && exchange_->Votes(peer)) {
    SendPlan(peer);
    const std::optional<v1::Audit> order = exchange_->AuditOrderOf(peer);
    if (order) SendAudit(peer, *order);
  }
  return Finish(now);
}

std::string Run::PeerOf(SessionId session) const {
  for (const auto& [peer, member] : roster_.members()) {
    if (member.session == session && member.present()) return peer;
  }
  return "";
}

RunOutput Run::OnMessage(absl::Time now, SessionId session, const v1::PeerMessage& message) {
  const std::string peer = PeerOf(session);
  if (peer.empty()) return RunOutput();
  roster_.Heard(now, peer);
  if (message.has_heartbeat()) {  // frequent, and decides nothing
    peers_[peer].progress = message.heartbeat().progress();
    return RunOutput();
  }
  const absl::Status status = Dispatch(now, peer, message);
  if (!status.ok()) Refuse(now, peer, status);
  return Finish(now);
}

absl::Status Run::Dispatch(absl::Time now, const std::string& peer,
                           const v1::PeerMessage& message) {
  switch (message.message_case()) {
    case v1::PeerMessage::kWorkerReady:
      return OnWorkerReady(peer, message.worker_ready());
    case v1::PeerMessage::kWorkerLost:
      OnWorkerLost(peer, message.worker_lost());
      break;
    case v1::PeerMessage::kInitialState:
      return OnInitialState(peer, message.initial_state());
    case v1::PeerMessage::kSynced:
      return OnSynced(peer, message.synced());
    case v1::PeerMessage::kReady:
      return OnReady(now, peer, message.ready());
    case v1::PeerMessage::kVote:
      return OnVote(now, peer, message.vote());
    case v1::PeerMessage::kReducerUnreachable:
      if (exchange_) Act(now, exchange_->OnUnreachable(peer, message.reducer_unreachable()));
      break;
    case v1::PeerMessage::kShardsHeld:
      if (exchange_) exchange_->OnShardsHeld(peer, message.shards_held());
      break;
    case v1::PeerMessage::kEvaluated:
      OnEvaluated(message.evaluated());
      break;
    case v1::PeerMessage::kStateReport:
      return OnStateReport(peer, message.state_report());
    case v1::PeerMessage::kHeaders:
      return OnHeaders(now, peer, message.headers());
    case v1::PeerMessage::kLeaving:
      out_.ends.push_back({roster_.Find(peer)->session, absl::OkStatus()});
      roster_.Leave(now, peer, message.leaving().reason());
      Say(absl::StrCat("peer ", peer, " left", message.leaving().reason().empty() ? "" : ": ",
                       message.leaving().reason()));
      Gone(now, peer);
      return absl::OkStatus();
    case v1::PeerMessage::kHello:
      return absl::InvalidArgumentError("a second Hello on one session");
    case v1::PeerMessage::kUpdateRefused:
      OnUpdateRefused(now, peer, message.update_refused());
      break;
    case v1::PeerMessage::kAuditReport:
      OnAuditReport(now, peer, message.audit_report());
      break;
    case v1::PeerMessage::kHeartbeat:
    case v1::PeerMessage::MESSAGE_NOT_SET:
      break;  // a newer release's message: not for us
  }
  return absl::OkStatus();
}

RunOutput Run::OnBroken(absl::Time now, SessionId session) {
  const std::string peer = roster_.Break(now, session);
  if (peer.empty()) return Finish(now);
  roster_changed_ = true;
  adoption_.Answered(peer);
  const std::vector<std::string> awaited = Awaited();
  const bool complete = std::find(awaited.begin(), awaited.end(), peer) == awaited.end();
  if (seal_ && complete) {  // the run is over, and it has what it came for
    roster_.Leave(now, peer, "the run is sealed");
    out_.update.members.push_back(Roster::Record(*roster_.Find(peer)));
    Say(absl::StrCat("peer ", peer, " left"));
    return Finish(now);
  }
  Say(absl::StrCat("peer ", peer, ": its session broke"), RunOutput::Severity::kWarning);
  const std::string& address = roster_.Find(peer)->address;
  if (!address.empty()) out_.probes.push_back({peer, address});
  return Finish(now);
}

RunOutput Run::OnRefused(absl::Time now, const std::string& peer) {
  if (roster_.Refused(now, peer)) {
    Say(absl::StrCat("peer ", peer, " died: its session broke and its address refuses connections"),
        RunOutput::Severity::kWarning);
    Gone(now, peer);
  }
  return Finish(now);
}

RunOutput Run::OnTick(absl::Time now) {
  for (const Roster::Death& death : roster_.Tick(now)) {
    if (death.session != 0)
      out_.ends.push_back({death.session, absl::DeadlineExceededError(death.why)});
    Say(absl::StrCat("peer ", death.peer, " died: ", death.why), RunOutput::Severity::kWarning);
    Gone(now, death.peer);
  }
  ForgetStale(now);
  return Finish(now);
}

absl::Time Run::NextWake() const {
  const absl::Time round = exchange_ ? revision_ends_ : round_.CloseDeadline();
  return std::min({round, roster_.NextDeadline(), adoption_.Deadline(settings_.failure_timeout)});
}

void Run::Refuse(absl::Time now, const std::string& peer, const absl::Status& why) {
  out_.ends.push_back({roster_.Find(peer)->session, why});
  roster_.Leave(now, peer, absl::StrCat("refused: ", why.message()));
  Say(absl::StrCat("peer ", peer, " was refused: ", why.message()), RunOutput::Severity::kError);
  Gone(now, peer);
}

void Run::Gone(absl::Time now, const std::string& peer) {
  out_.update.members.push_back(Roster::Record(*roster_.Find(peer)));
  roster_changed_ = true;
  if (genesis_maker_ == peer) genesis_maker_.clear();
  if (evaluation_) evaluation_->TakeBack(peer);
  adoption_.Remove(peer);
  TrainingState& trainer = round_.trainer(peer);
  trainer.activity = Activity::kIdle;
  trainer.train_started.reset();
  if (Planted(PlantedBug::kLeaseReturnedEarly)) leases_.Return(peer);
  if (exchange_ && exchange_->Contributes(peer)) {
    // Its samples stay its own until the commit tells whether chunks of it were averaged.
    const std::string lost[] = {peer};
    Act(now, exchange_->OnLost(lost));
  } else if (leases_.holds(peer)) {
    leases_.Return(peer);
    leases_changed_ = true;
  }
  LoseFromExchange(now, peer);
}

void Run::ForgetStale(absl::Time now) {
  for (const std::string& peer : roster_.Stale(now)) {
    if (leases_.holds(peer)) continue;  // an exchange has still to tell whether they are spent
    roster_.Forget(peer);
    round_.Forget(peer);
    planner_.Forget(peer);
    judge_.Forget(peer);
    // Who has contributed stands in the history anyway; nothing else grows with made-up names.
    const auto info = peers_.find(peer);
    if (info != peers_.end() && info->second.rounds == 0) peers_.erase(info);
    out_.update.forgotten.push_back(peer);
    roster_changed_ = true;
  }
}

void Run::BeginEpoch(absl::Time now) {
  out_.update.epoch = ++epoch_;
  epoch_began_ = now;
}

v1::CoordinatorMessage Run::Welcome() const {
  v1::CoordinatorMessage message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_epoch(epoch_);
  *welcome->mutable_spec() = spec_;
  if (genesis_) *welcome->mutable_genesis() = *genesis_;
  welcome->set_version(version());
  if (header_) *welcome->mutable_header() = *header_;
  if (seal_) *welcome->mutable_seal() = *seal_;
  welcome->set_failure_timeout_milliseconds(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(settings_.failure_timeout)));
  return message;
}

void Run::SendTo(const std::string& peer, v1::CoordinatorMessage message) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr || !member->connected() || !member->present()) return;
  out_.sends.push_back({member->session, std::move(message)});
}

void Run::SendToAll(const v1::CoordinatorMessage& message) {
  for (const auto& [peer, member] : roster_.members()) SendTo(peer, message);
}

void Run::Say(const std::string& line, RunOutput::Severity severity) {
  out_.events.push_back({severity, line});
}

void Run::SendRosterIfChanged() {
  if (!roster_changed_) return;
  roster_changed_ = false;
  v1::CoordinatorMessage message;
  *message.mutable_roster() = roster_.ToProto();
  for (const std::string& peer : Awaited()) message.mutable_roster()->add_awaited(peer);
  SendToAll(message);
}

RunOutput Run::Finish(absl::Time now) {
  SendRosterIfChanged();
  Advance(now);
  SendRosterIfChanged();
  if (leases_changed_) {
    out_.update.leases = leases_.Save();
    leases_changed_ = false;
  }
  RunOutput out;
  std::swap(out, out_);
  return out;
}

}  // namespace atolld
