#include "membership/run/run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/history/digest.h"
#include "membership/history/fragment.h"
#include "membership/history/header.h"
#include "membership/history/run_mode.h"
#include "membership/history/step_scalars.h"
#include "membership/run/admission.h"
#include "membership/trust/audit.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {
using Severity = RunOutput::Severity;
}  // namespace

Run::Run(RunSettings settings, const StoredRun& stored, absl::Time now)
    : settings_(WithSpec(std::move(settings), *stored.spec)),
      ledger_(settings_, stored, now),
      members_(settings_, stored, now),
      training_(settings_.round, stored.started, stored.version() + 1, stored.leases),
      exchanges_(settings_, ledger_, stored.judged),
      masks_(*stored.spec, settings_.failure_timeout, &exchanges_.judge()),
      ending_(settings_, stored.seal.has_value(), now),
      beginning_(settings_),
      workers_({ledger_, members_, training_, exchanges_, ending_, beginning_}),
      view_({ledger_, members_, training_, exchanges_, masks_, ending_, adoption_, beginning_}) {
  // These peers may have died in an exchange that the previous coordinator did not finish.
  for (const std::string& peer : members_.roster().Gone()) {
    training_.TakeBack(peer);
    training_.DropAhead(peer);
  }
  training_.round().Remember(stored.rounds);
}

void Run::Advance(absl::Time now) {
  reason_.clear();
  lacks_reachable_ = false;
  // Each of the following steps may end the phase that it belongs to.
  if (!ledger_.seal()) AdvanceAdoption(now);
  if (view_.exchanging() && adoption_.empty() && !ledger_.seal()) {
    if (masks_.under_way()) FollowMasks(now, masks_.OnDeadline(now, members_, &out_));
    if (exchanges_.under_way() && now >= exchanges_.deadline()) OnExchangeDeadline(now);
  }
  ledger_.StopWhereEnough(now, view_.exchanging(), &out_);
  switch (view_.phase()) {
    case RunPhase::kSealed:
      return ending_.AdvanceSealed(now, ledger_, &members_, &out_, &reason_);
    case RunPhase::kAdopting:
      return;
    case RunPhase::kNoGenesis:
      return beginning_.Advance(now, members_, training_.round(), &out_, &reason_,
                                &lacks_reachable_);
    case RunPhase::kEnding:
      return ending_.Advance(now, &ledger_, &members_, training_.round(), &out_, &reason_);
    case RunPhase::kExchanging:
      TrainAhead(now);
      return Evaluate(now);  // a peer that comes now begins with the next round
    case RunPhase::kPaused:
      reason_ = absl::StrCat("an operator has paused it", Because(ledger_.control().reason));
      if (training_.round().started()) Evaluate(now);
      return;
    case RunPhase::kTraining:
      return AdvanceTraining(now);
  }
}

RunOutput Run::Finish(absl::Time now) {
  members_.SendRosterIfDue(now, ledger_.seal(), &out_);
  Advance(now);
  members_.SendRosterIfDue(now, ledger_.seal(), &out_);
  std::optional<LeaseRecords> leases = training_.TakeChanged();
  if (leases) out_.update.leases = std::move(leases);
  return std::exchange(out_, RunOutput());
}

absl::Time Run::NextWake(absl::Time now) const {
  absl::Time next = absl::InfiniteFuture();
  // If a time has passed but something else is waited for, it must not hide a later time.
  for (const absl::Time wake :
       {exchanges_.under_way() ? exchanges_.deadline() : training_.round().CloseDeadline(),
        masks_.Deadline(), members_.roster().NextDeadline(), members_.news().NextDue(),
        training_.round().look_pace().Next(),
        training_.round().started() ? ending_.NextDeadline(version(), training_.round())
                                    : beginning_.Deadline(),
        adoption_.Deadline(settings_.failure_timeout)}) {
    if (wake > now) next = std::min(next, wake);
  }
  return next;
}

RunOutput Run::OnHello(absl::Time now, SessionId session, const v1::Hello& told) {
  v1::Hello hello = told;
  if (ledger_.OtherVersionZero(hello.version(), hello.header_digest())) hello.clear_has_state();
  const std::string& peer = hello.peer();
  absl::Status admitted = members_.Admit(ledger_, session, hello, &out_);
  if (admitted.ok() && ledger_.Ahead(hello.version())) admitted = adoption_.MayClaim(peer);
  if (!admitted.ok()) {
    out_.ends.push_back({session, admitted});
    out_.Say(absl::StrCat("a peer was refused: ", admitted.message()), Severity::kWarning);
    return Finish(now);
  }
  const Members::Joined joined = members_.Join(now, session, hello, &out_);
  if (!joined.same_process) {
    training_.round().trainer(peer).worker_ready = false;
    training_.round().trainer(peer).worker_lost_in = 0;
    members_.ForgetWorkerTrouble(peer);
    beginning_.ForgetRefusal(peer);
  }
  beginning_.Forget(peer);  // the request may not have reached the peer
  ending_.TakeBack(peer);
  if (ledger_.Outgrown(hello, joined.first_word)) {
    OutgrowEpoch(now, hello.epoch());  // this sends all peers a Welcome
  } else {
    members_.SendTo(peer, ledger_.Welcome(), &out_);
  }
  // The others come first, because the whole roster contains the changes that they have been told.
  members_.SendRosterIfDue(now, ledger_.seal(), &out_);
  members_.SendRoster(peer, &out_);
  if (members_.roster().Find(peer)->draining) members_.SendDrain(peer, &out_);
  adoption_.Remove(peer);
  if (hello.has_state() && ledger_.Ahead(hello.version())) {
    adoption_.Add(peer, hello.version(), hello.header_digest());
    adoption_.SetTraining(hello);
    return Finish(now);
  }
  AdoptTraining(now, peer, HeldTraining(hello), hello.version());
  if (!joined.same_process) {
    LoseFromExchange(now, peer);
    LoseMasks(now, peer);
  }
  masks_.Resend(peer, members_, &out_);
  if (exchanges_.under_way()) exchanges_.Resend(peer, members_, &out_);
  return Finish(now);
}

RunOutput Run::OnMessage(absl::Time now, SessionId session, const v1::PeerMessage& message) {
  const std::string peer = members_.PeerOf(session);
  if (peer.empty()) return RunOutput();
  members_.roster().Heard(now, peer);
  if (message.has_heartbeat()) {  // heartbeats are frequent, and decide nothing
    members_.NoteProgress(now, peer, message.heartbeat().progress());
    ending_.OnProgress(now, peer, message.heartbeat().progress().evaluated());
    return RunOutput();
  }
  const absl::Status status = Dispatch(now, peer, message);
  if (!status.ok()) Refuse(now, peer, status);
  return Finish(now);
}

absl::Status Run::Dispatch(absl::Time now, const std::string& peer,
                           const v1::PeerMessage& message) {
  Ballot* const exchange = exchanges_.current();
  switch (message.message_case()) {
    case v1::PeerMessage::kWorkerReady:
      return workers_.OnReady(peer, message.worker_ready(), &out_);
    case v1::PeerMessage::kWorkerLost:
      workers_.OnLost(peer, message.worker_lost(), &out_);
      break;
    case v1::PeerMessage::kInitialState:
      return OnInitialState(peer, message.initial_state());
    case v1::PeerMessage::kSynced:
      return OnSynced(peer, message.synced());
    case v1::PeerMessage::kReady:
      return OnReady(now, peer, message.ready());
    case v1::PeerMessage::kVote:
      return OnVote(now, peer, message.vote());
    case v1::PeerMessage::kMask:
      return OnMask(now, peer, message.mask());
    case v1::PeerMessage::kReducerUnreachable:
      if (exchange) Act(now, exchange->OnUnreachable(peer, message.reducer_unreachable()));
      break;
    case v1::PeerMessage::kReached:
      if (members_.reach().NoteReached(now, peer, message.reached(), &out_) && exchange)
        Act(now, exchange->OnFoundUnreachable(message.reached().peer()));
      if (message.reached().answers()) exchanges_.NoteAnswers(peer, message.reached().peer());
      break;
    case v1::PeerMessage::kShardsHeld:
      if (exchange) exchange->OnShardsHeld(peer, message.shards_held());
      break;
    case v1::PeerMessage::kEvaluated:
      ending_.OnEvaluated(now, peer, message.evaluated(), &ledger_, &out_);
      break;
    case v1::PeerMessage::kStateReport:
      return members_.OnStateReport(peer, message.state_report(), ledger_, &out_);
    case v1::PeerMessage::kHeaders:
      return OnHeaders(now, peer, message.headers());
    case v1::PeerMessage::kLeaving:
      out_.ends.push_back({members_.roster().Find(peer)->session, absl::OkStatus()});
      members_.roster().Leave(now, peer, message.leaving().reason());
      out_.Say(absl::StrCat("peer ", peer, " left", Because(message.leaving().reason())));
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
    case v1::PeerMessage::kLineCaps:
      members_.roster().SetLineCaps(peer, message.line_caps());
      break;
    case v1::PeerMessage::kHeartbeat:
    case v1::PeerMessage::MESSAGE_NOT_SET:
      break;  // a message of a newer release, which is ignored
  }
  return absl::OkStatus();
}

RunOutput Run::OnBroken(absl::Time now, SessionId session) {
  const std::string peer = members_.roster().Break(now, session);
  if (peer.empty()) return Finish(now);
  members_.NoteChange();
  adoption_.Broke(peer);
  // The run is over, and the peer has the last state.
  if (ledger_.seal() && !members_.Awaits(*ledger_.seal(), peer)) {
    members_.roster().Leave(now, peer, "the run is sealed");
    members_.Record(peer, &out_.update);
    out_.Say(absl::StrCat("peer ", peer, " left"));
    return Finish(now);
  }
  out_.Say(absl::StrCat("peer ", peer, ": its session broke"), Severity::kWarning);
  Probe(peer);
  return Finish(now);
}

RunOutput Run::OnProbed(absl::Time now, const RunOutput::Probe& probe, ProbeResult result) {
  const std::string& peer = probe.peer;
  const bool led_there = members_.NoteProbe(now, probe, result, &out_);
  if (result == ProbeResult::kRefused && led_there && members_.roster().Refused(now, peer)) {
    out_.Say(absl::StrCat("peer ", peer, " died: ", members_.roster().Find(peer)->why),
             Severity::kWarning);
    Gone(now, peer);
  }
  const bool answered = result == ProbeResult::kAnswered;
  if (exchanges_.under_way()) Act(now, exchanges_.current()->OnProbed(peer, answered));
  return Finish(now);
}

RunOutput Run::OnTick(absl::Time now) {
  for (const auto& death : members_.Tick(now, ledger_, training_.round().started(), &out_)) {
    if (death.session != 0)
      out_.ends.push_back({death.session, absl::DeadlineExceededError(death.why)});
    out_.Say(absl::StrCat("peer ", death.peer, " died: ", death.why), Severity::kWarning);
    Gone(now, death.peer);
  }
  ForgetStale(now);
  return Finish(now);
}

RunOutput Run::OnRevoked(absl::Time now, const std::vector<KeyRecord>& keys) {
  members_.SetRevoked(keys);
  return Finish(now);
}

void Run::Refuse(absl::Time now, const std::string& peer, const absl::Status& why) {
  out_.ends.push_back({members_.roster().Find(peer)->session, why});
  members_.roster().Leave(now, peer, absl::StrCat("refused: ", why.message()));
  out_.Say(absl::StrCat("peer ", peer, " was refused: ", why.message()), Severity::kError);
  Gone(now, peer);
}

void Run::Gone(absl::Time now, const std::string& peer) {
  members_.Record(peer, &out_.update);
  members_.reach().OnGone(now, peer, &out_);
  beginning_.Forget(peer);
  ending_.TakeBack(peer);
  adoption_.Remove(peer);
  training_.Stop(peer);
  training_.DropAhead(peer);
  if (Planted(PlantedBug::kLeaseReturnedEarly)) training_.TakeBack(peer);
  if (exchanges_.under_way() && exchanges_.current()->Contributes(peer)) {
    // Its samples stay leased until the commit shows whether chunks of its update were averaged.
    Act(now, exchanges_.current()->OnLost({peer}));
  } else {
    training_.TakeBack(peer);
  }
  LoseFromExchange(now, peer);
  LoseMasks(now, peer);
}

void Run::ForgetStale(absl::Time now) {
  for (const std::string& peer : members_.roster().Stale(now)) {
    // An exchange must still decide whether the samples are spent.
    if (training_.leases().holds(peer)) continue;
    training_.round().Forget(peer);
    exchanges_.Forget(peer);
    members_.Forget(peer, &out_.update);
  }
}

absl::Status Run::OnSynced(const std::string& peer, const v1::Synced& synced) {
  // If it has made a version 0 that was never recorded, it is asked for it when its worker is
  // ready.
  if (synced.has_offer()) members_.roster().SetOffer(peer, synced.offer());
  if (!ledger_.genesis() && synced.version() == 0) return absl::OkStatus();
  if (ledger_.OtherVersionZero(synced.version(), synced.header_digest())) return absl::OkStatus();
  RETURN_IF_ERROR(ledger_.CheckChain(synced.version(), synced.header_digest()));
  RETURN_IF_ERROR(ledger_.CheckClaim(synced.version(), synced.header_digest(), synced.header()));
  if (ledger_.Ahead(synced.version()))
    adoption_.Add(peer, synced.version(), synced.header_digest());
  members_.roster().SetState(peer, synced.version());
  members_.NoteChange();
  return absl::OkStatus();
}

// -----------------------------------------------------------------------------------------------
// Operators' orders

absl::StatusOr<RunOutput> Run::OnOrder(absl::Time now, const RunOrder& order) {
  if (order.reason.size() > kLongestReason) {
    return absl::InvalidArgumentError("the reason is longer than 256 bytes");
  }
  // The reason is written to logs, in one line.
  const std::string reason = absl::Utf8SafeCEscape(order.reason);
  const bool exchanging = view_.exchanging();
  absl::Status status;
  switch (order.verb) {
    case RunOrder::Verb::kPause:
      status = ledger_.Control(RunControl::State::kPaused, reason, exchanging, &out_);
      break;
    case RunOrder::Verb::kResume:
      status = ledger_.Control(RunControl::State::kGoing, "", exchanging, &out_);
      break;
    case RunOrder::Verb::kStop:
      status = ledger_.Control(RunControl::State::kStopping, reason, exchanging, &out_);
      break;
    case RunOrder::Verb::kDrain:
      status = members_.Drain(order.peer, reason, ledger_.seal().has_value(), &out_);
      break;
    case RunOrder::Verb::kEvict:
      status = Evict(now, order.peer, reason);
      break;
    case RunOrder::Verb::kReadmit:
      status = members_.Readmit(now, order.peer, &out_);
      break;
  }
  if (!status.ok()) return status;  // nothing has changed
  return Finish(now);
}

absl::Status Run::Evict(absl::Time now, const std::string& peer, const std::string& reason) {
  const absl::StatusOr<bool> evicted =
      members_.Evict(now, peer, reason, ledger_.seal().has_value(), &out_);
  if (!evicted.ok()) return evicted.status();
  if (*evicted) Gone(now, peer);
  return absl::OkStatus();
}

// -----------------------------------------------------------------------------------------------
// Version 0, and a store that is behind its peers because it was restored from a copy or was lost

// Until a round has begun, version 0 may be made again (see Beginning).
bool Run::GivesVersionZero(absl::Time now) {
  if (version() > 0 || training_.round().started() || exchanges_.under_way()) return true;
  if (!beginning_.Hoarded(now, ledger_, members_, training_.round(), &out_, &reason_)) return true;
  ledger_.DropGenesis();
  ending_.OnHistoryAdopted(0);
  members_.ForgetStates();
  members_.SendToAll(ledger_.Welcome(), &out_);
  return false;
}

absl::Status Run::OnInitialState(const std::string& peer, const v1::InitialState& initial) {
  // Another peer's version 0 is recorded, as the Welcome has said.
  if (ledger_.genesis()) return absl::OkStatus();
  if (!adoption_.empty() || !beginning_.Takes(peer, initial)) {
    // There is another version 0. If no peer reports it, this peer is asked again, or another one.
    beginning_.Forget(peer);
    return absl::OkStatus();
  }
  const v1::Genesis& genesis = initial.genesis();
  const std::optional<v1::WorkerReady>& worker = members_.info(peer).worker;
  RETURN_IF_ERROR(CheckInitialState(ledger_.spec(), worker ? &*worker : nullptr, genesis));
  RETURN_IF_ERROR(CheckFits(genesis, settings_.round.peers));
  members_.roster().SetState(peer, 0);
  members_.NoteChange();
  out_.Say(absl::StrCat("version 0 was made by peer ", peer, ": ",
                        Counted(genesis.manifest().elements(), "parameter")));
  AcceptGenesis(genesis);
  WelcomeAll();
  return absl::OkStatus();
}

void Run::AcceptGenesis(const v1::Genesis& genesis) {
  ledger_.AcceptGenesis(genesis, &out_.update);
  training_.BeginAt(genesis.spec().parent().next_sample());
  beginning_.OnRecorded();
  workers_.OnGenesis(genesis, &out_);
}

void Run::OutgrowEpoch(absl::Time now, uint64_t heard) {
  out_.Say(absl::StrCat("the store is older than the run: epoch ", heard,
                        " was there already; this becomes epoch ", heard + 1),
           Severity::kWarning);
  ledger_.OutgrowEpoch(heard);
  if (exchanges_.under_way()) {
    GiveUpExchange(now);
  } else {
    masks_.End(members_, &out_);
    ledger_.BeginEpoch(now, &out_.update);
    WelcomeAll();
  }
}

// In a sealed run this repeats the seal; the roster after it names the peers that are waited for.
void Run::WelcomeAll() {
  members_.SendToAll(ledger_.Welcome(), &out_);
  if (ledger_.seal()) members_.news().Insist();
}

void Run::AdvanceAdoption(absl::Time now) {
  while (!adoption_.empty()) {
    // The entry of this exchange would fork the history.
    if (exchanges_.under_way()) GiveUpExchange(now);
    masks_.End(members_, &out_);
    const std::vector<Adoption::Refusal> refusals =
        adoption_.Advance(now, settings_.failure_timeout, ledger_, members_, &out_, &reason_);
    if (refusals.empty()) return;
    for (const auto& [peer, why] : refusals) Refuse(now, peer, why);
  }
  if (adoption_.TakeAdopted()) EndAdoption();
}

absl::Status Run::OnHeaders(absl::Time now, const std::string& peer, const v1::Headers& headers) {
  LeaseBook leases = training_.leases();
  const absl::StatusOr<bool> next = adoption_.OnHeaders(peer, headers, ledger_, &leases, &out_);
  if (!next.ok()) return next.status();
  if (!*next) return absl::OkStatus();
  if (!ledger_.genesis()) AcceptGenesis(headers.genesis());
  for (const v1::EntryHeader& header : headers.headers()) {
    members_.NoteEntry(header);
    ledger_.Adopt(header, &out_.update);
  }
  if (!training_.round().started()) out_.update.started = true;
  training_.AdoptHistory(std::move(leases), version() + 1, members_.roster(), headers);
  members_.NoteChange();
  for (const Adoption::Reached& reached : adoption_.TakeReached(ledger_)) {
    if (reached.fits.ok()) {
      AdoptTraining(now, reached.peer, reached.held, reached.version);
    } else {
      Refuse(now, reached.peer, reached.fits);
    }
  }
  return absl::OkStatus();
}

void Run::EndAdoption() {
  out_.Say(absl::StrCat("the store has adopted its peers' history up to version ", version(),
                        ", header ", absl::BytesToHexString(ledger_.digest())),
           Severity::kWarning);
  ending_.OnHistoryAdopted(version());
  WelcomeAll();
}

// Adopts the training of a peer that says Hello.
void Run::AdoptTraining(absl::Time now, const std::string& peer, HeldTraining held,
                        uint64_t version) {
  training_.Reach(held.samples, ledger_.only_recovered());
  training_.Reach(held.ahead, ledger_.only_recovered());
  const bool contributes = exchanges_.under_way() && exchanges_.current()->Contributes(peer);
  // An entry that the peer does not know yet may have taken its update, or dropped it.
  const bool settled = version < ledger_.version() && held.offers && IsStreaming(ledger_.spec());
  const bool taken = ledger_.spec().data().private_() && members_.MayBeTaken(peer, version);
  training_.round().trainer(peer).settled = settled || taken ? version + 1 : 0;
  if (settled || taken) held = held.WithoutUpdate();
  // The update in the exchange is gone, no matter what the peer trains instead.
  if (contributes && training_.trains_ahead() && !held.offers) held = HeldTraining();
  if (training_.Resume(peer, held)) return;
  if (!contributes && training_.Resume(peer, held.WithoutUpdate())) return;
  if (contributes) {
    // Its contribution is gone. Chunks of it may have been averaged, so its samples stay leased
    // until the commit decides.
    Act(now, exchanges_.current()->OnLost({peer}));
  } else {
    training_.TakeBack(peer);
  }
  LoseMasks(now, peer);
}

// -----------------------------------------------------------------------------------------------
// From one version to the next

void Run::AdvanceTraining(absl::Time now) {
  Round& round = training_.round();
  const Roster& roster = members_.roster();
  const UpdateJudge& judge = exchanges_.judge();
  // These peers sit the round out, as long as enough are present without them.
  for (const std::string& peer :
       round.LeaveOut(roster, exchanges_.NotAwaited(members_), judge.settings().least)) {
    out_.Say(absl::StrCat("round ", round.version(), ": peer ", peer, " is left out ",
                          members_.reach().CutOff(peer) ? "while it cannot reach the others"
                                                        : "for what its updates were"),
             Severity::kWarning);
  }
  const bool was_started = round.started();
  if (!round.open() && !round.look_pace().May(now, roster.members().size())) return;
  if (!round.TryOpen(now, roster)) {
    if (!GivesVersionZero(now)) Advance(now);
    return;
  }
  if (!was_started) out_.update.started = true;
  Evaluate(now);
  GiveTraining(now, round.ToTrainNow(now, roster), false);
  TrainAhead(now);
  if (round.MayClose(now, roster) && !roster.in_grace(now)) BeginExchange(now);
}

// Tells training peers what to train next, if the mode allows it and there will be a next round.
void Run::TrainAhead(absl::Time now) {
  const Round& round = training_.round();
  if (!training_.trains_ahead() || ledger_.control().paused() ||
      round.version() >= view_.LastVersion()) {
    return;
  }
  GiveTraining(now, round.MayTrainAhead(members_.roster()), true);
}

void Run::GiveTraining(absl::Time now, const std::vector<std::string>& peers, bool ahead) {
  const v1::RunSpec& spec = ledger_.spec();
  const auto steps = members_.StepsOf(peers, settings_.pace, spec.inner().steps());
  for (size_t i = 0; i < peers.size(); ++i) {
    ledger_.NoteTraining(now);
    v1::CoordinatorMessage message;
    *message.mutable_train() =
        ahead ? training_.AssignAhead(now, peers[i], ledger_.epoch(), steps[i], spec)
              : training_.Assign(now, peers[i], ledger_.epoch(), steps[i], spec);
    ledger_.budget().Tell(message.mutable_train());
    exchanges_.Tell(ledger_, training_.round(), members_.roster(), peers[i],
                    message.mutable_train());
    members_.SendTo(peers[i], std::move(message), &out_);
  }
}

absl::Status Run::OnReady(absl::Time now, const std::string& peer, const v1::Ready& ready) {
  Round& round = training_.round();
  // The update is for a past round. The peer rebases it and announces it again for the current one,
  // unless it was for that entry alone.
  if (ready.version() < round.version()) training_.DropLate(peer, ready);
  if (!ledger_.genesis() || ledger_.seal() || ready.version() != round.version() ||
      !IsBaseTold(ledger_.spec(), ready) || !training_.Answers(peer, ready)) {
    return absl::OkStatus();
  }
  const Ballot* const exchange = exchanges_.current();
  if (exchange && exchange->Contributes(peer) && !exchange->Lost(peer)) return absl::OkStatus();
  if (!exchange && masks_.Holds(peer)) return absl::OkStatus();
  const absl::Status offered =
      CheckReady(ledger_.spec(), peer, members_.info(peer).signing_key, ready);
  if (!offered.ok()) return offered;
  const std::vector<v1::SampleRange> samples(ready.samples().begin(), ready.samples().end());
  training_.Reach(samples, ledger_.only_recovered());
  if (!training_.MayOffer(peer, samples)) {
    // The peer was away, and another one got its samples, which must not count twice.
    out_.Say(absl::StrCat("round ", round.version(), ": peer ", peer,
                          " trained on samples that are no longer its own; it trains anew"),
             Severity::kWarning);
    training_.Discard(peer);
    return absl::OkStatus();
  }
  const absl::Status claims = CheckClaims(ledger_.spec(), ready, training_.Held(peer));
  if (!claims.ok()) return claims;
  const absl::Status possible = exchanges_.CheckReady(ledger_, peer, ready);
  if (!possible.ok()) {
    DropUpdate(peer, std::string(possible.message()));
    return absl::OkStatus();
  }
  members_.roster().SetState(peer, ready.version() - 1);
  members_.NoteState(peer, ready.version() - 1, ready.state_digest());
  if (IsTooOld(ledger_.spec(), ready.age())) {
    DropOld(peer, ready);
    return absl::OkStatus();
  }
  training_.SetReady(now, peer, ready);
  return absl::OkStatus();
}

// Called when the update cannot be used. The peer then trains anew.
void Run::DropUpdate(const std::string& peer, const std::string& why) {
  exchanges_.judge().NoteRefused(peer, why);
  out_.Say(absl::StrCat("round ", training_.round().version(), ": the update of peer ", peer,
                        " is not taken: ", why, "; it trains anew"),
           Severity::kWarning);
  training_.Discard(peer, /*refused=*/true);
}

// Called for an update that is too old. This is no offence, because the peer did honest work.
void Run::DropOld(const std::string& peer, const v1::Ready& ready) {
  members_.NoteSpeed(peer, ready);  // it gets fewer steps the next time with pace 'auto'
  out_.Say(absl::StrCat("round ", training_.round().version(), ": the update of peer ", peer,
                        " has missed ", Counted(ready.age(), "commit"), ", and from ",
                        ledger_.spec().mode().age_cutoff(),
                        " on ([mode] age_cutoff) none is taken; it trains anew"),
           Severity::kWarning);
  training_.Discard(peer);
}

void Run::BeginExchange(absl::Time now) {
  const Round& round = training_.round();
  EntryAttempts::Candidates candidates = exchanges_.Choose(now, ledger_.spec(), round, &members_);
  for (const std::string& peer : candidates.outsized)
    DropUpdate(peer, "it is too long for any scale");
  // The round waits for peers that train anew.
  if (candidates.contributors.size() < round.quorum()) return;
  absl::Status begun = absl::OkStatus();
  if (masks_.on()) {
    begun = masks_.MayBegin(now, candidates.contributors.size(), round.fewest());
    if (!begun.ok()) {
      reason_ = std::string(begun.message());
      return;
    }
    begun = exchanges_.Reducible(now, candidates.contributors, round, ledger_, &members_);
    if (begun.ok()) {
      return FollowMasks(now, masks_.Begin(now, ledger_.epoch(), candidates.contributors,
                                           &training_.round(), members_, &out_));
    }
  } else {
    begun =
        exchanges_.Begin(now, std::move(candidates.contributors), round, ledger_, &members_, &out_);
  }
  if (!begun.ok()) {
    lacks_reachable_ = true;
    reason_ = std::string(begun.message());
  }
}

// Begins with the peers that have masked their updates. Their Readies now have the roots of these.
void Run::BeginMasked(absl::Time now) {
  const Round& round = training_.round();
  EntryAttempts::Candidates candidates =
      exchanges_.Choose(now, ledger_.spec(), round, &members_, /*all=*/true);
  absl::Status begun = masks_.KeepMasked(round.quorum(), &candidates.contributors);
  if (begun.ok()) {
    begun =
        exchanges_.Begin(now, std::move(candidates.contributors), round, ledger_, &members_, &out_);
  }
  if (!begun.ok()) masks_.GiveUp(now, std::string(begun.message()), members_, &out_);
}

absl::Status Run::OnMask(absl::Time now, const std::string& peer,
                         const v1::MaskFromParty& message) {
  if (message.has_sum()) {
    if (!exchanges_.under_way()) return absl::OkStatus();
    FollowMasks(now, masks_.OnSum(now, peer, message.sum(), exchanges_.current(), members_, &out_));
    return absl::OkStatus();
  }
  const absl::StatusOr<MaskedSums::News> news =
      masks_.OnMessage(now, peer, message, &training_.round(), members_, &out_);
  if (!news.ok()) return news.status();
  FollowMasks(now, *news);
  return absl::OkStatus();
}

void Run::FollowMasks(absl::Time now, MaskedSums::News news) {
  switch (news) {
    case MaskedSums::News::kNone:
      return;
    case MaskedSums::News::kMasked:
      return BeginMasked(now);
    case MaskedSums::News::kRedo:
      return Act(now, exchanges_.current()->RedoAll());
    case MaskedSums::News::kUnmasked:
      return exchanges_.Postpone(now);  // they can vote only from now on
    case MaskedSums::News::kDiscarded:
      if (exchanges_.under_way()) GiveUpExchange(now);
      return;
  }
}

void Run::OnExchangeDeadline(absl::Time now) {
  if (masks_.VotesCount()) return Act(now, exchanges_.current()->OnDeadline());
  if (masks_.frozen()) return;  // the remaining steps have their own deadlines
  Act(now, exchanges_.current()->OnSumsMissing(masks_.WithoutSum(*exchanges_.current())));
}

absl::Status Run::OnVote(absl::Time now, const std::string& peer, const v1::Vote& vote) {
  if (!exchanges_.under_way() || !masks_.VotesCount()) return absl::OkStatus();
  Ballot::Outcome outcome;
  const absl::Status status = exchanges_.current()->OnVote(peer, vote, &outcome);
  if (!status.ok()) return status;
  exchanges_.NoteVote(now, peer, vote);
  if (vote.version() == training_.round().version())
    members_.NoteState(peer, vote.version() - 1, vote.state_digest());
  Act(now, outcome);
  return absl::OkStatus();
}

void Run::OnUpdateRefused(absl::Time now, const std::string& peer,
                          const v1::UpdateRefused& refused) {
  const uint64_t version = training_.round().version();
  Ballot* const exchange = exchanges_.current();
  if (!exchange || refused.version() != version || refused.epoch() != ledger_.epoch()) return;
  const bool counts = exchanges_.judge().NoteReport(peer, refused);
  Act(now, exchange->OnRefused(peer, refused));
  if (counts) exchanges_.NoteRefused(refused, &out_);
}

void Run::OnAuditReport(absl::Time now, const std::string& peer, const v1::AuditReport& report) {
  if (exchanges_.last() != nullptr) {
    const auto liars = exchanges_.last()->OnLateReport(peer, report);
    for (const auto& [liar, evidence] : liars) EvictLiar(now, liar, evidence);
  }
  if (exchanges_.under_way()) Act(now, exchanges_.current()->OnAuditReport(peer, report));
}

// A new process has replaced the one in the exchange: all that an aggregator averaged is gone. (The
// samples of a contributor show whether its update is gone; a masked update is kept only in
// memory.)
void Run::LoseFromExchange(absl::Time now, const std::string& peer) {
  Ballot* const exchange = exchanges_.current();
  if (!exchange || !exchange->TakesPart(peer)) return;
  if (exchange->Contributes(peer) && !masks_.on()) return;
  Act(now, exchange->OnLost({peer}));
}

void Run::Act(absl::Time now, const Ballot::Outcome& outcome) {
  const std::string prefix = absl::StrCat("round ", training_.round().version(), ": ");
  for (const std::string& error : outcome.errors) out_.Say(prefix + error, Severity::kError);
  for (const std::string& event : outcome.events) out_.Say(prefix + event, Severity::kWarning);
  for (const auto& [peer, why] : outcome.suspects) members_.NoteSuspicion(peer, prefix + why);
  Follow(now, outcome);
  for (const std::string& peer : outcome.probes) Probe(peer);
  for (const auto& [peer, evidence] : outcome.liars) EvictLiar(now, peer, prefix + evidence);
  if (exchanges_.under_way()) exchanges_.SendAudits(members_, &out_);
}

void Run::Follow(absl::Time now, const Ballot::Outcome& outcome) {
  switch (outcome.verdict) {
    case Ballot::Verdict::kWait:
      return;
    case Ballot::Verdict::kAudit:
      return exchanges_.NoteAudit(now);
    case Ballot::Verdict::kRevised:
      return exchanges_.SendPlans(now, members_, &out_);
    case Ballot::Verdict::kCommit:
      return Commit(now);
    case Ballot::Verdict::kGiveUp:
      return GiveUpExchange(now);
  }
}

void Run::Commit(absl::Time now) {
  v1::EntryHeader header = exchanges_.Decide(ledger_, training_.leases(), members_.Parties());
  const Ballot& exchange = *exchanges_.last();
  if (settings_.sign_header) header.set_signature(settings_.sign_header(header));
  const absl::Status valid = ledger_.CheckCommit(header);
  if (!valid.ok()) {
    out_.Say(absl::StrCat("round ", training_.round().version(),
                          ": the voters agreed on an entry that is not valid: ", valid.message()),
             Severity::kError);
    GiveUpExchange(now);
    return;
  }
  const v1::RoundRecord record = exchanges_.NoteCommit(now, header, ledger_, &members_, &out_);
  ledger_.Commit(header, record, &out_.update);
  members_.NoteEntry(header);
  const std::vector<std::string> included = training_.Settle(header, exchange.plan());
  for (const std::string& peer : exchange.voters()) {
    const RosterMember* member = members_.roster().Find(peer);
    // A voter needs only the header to step, so its next Train may follow at once. A peer that has
    // not voted may have to fetch the entry first.
    if (!exchange.Lost(peer) && member->connected() && member->present())
      members_.roster().SetState(peer, header.version());
  }
  members_.NoteChange();
  out_.Say(CommitLine(record, included), Severity::kRecord);
  v1::CoordinatorMessage message;
  *message.mutable_commit()->mutable_header() = header;
  members_.SendToAll(std::move(message), &out_);
  masks_.End(members_, &out_);
}

// A new epoch makes every key of the failed attempt stale, and its Welcome asks all peers for their
// contribution again.
void Run::GiveUpExchange(absl::Time now) {
  for (const std::string& peer : exchanges_.GiveUp(now, version(), &members_, &out_)) {
    training_.TakeBackIfIdle(peer);
  }
  masks_.End(members_, &out_);
  ledger_.BeginEpoch(now, &out_.update);
  training_.round().Again(now);
  WelcomeAll();
  out_.Say(
      absl::StrCat("round ", training_.round().version(), ": this attempt failed; all try again"),
      Severity::kWarning);
}

}  // namespace atolld
