#include "membership/run/members.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compression/base/bytes.h"
#include "compression/base/names.h"
#include "compression/base/words.h"
#include "membership/history/digest.h"
#include "membership/run/admission.h"
#include "membership/run/release.h"

namespace atolld {
namespace {

// Every member is told of all others, so a flood of invented ids must end here. One message names
// all members, and must have room for revoked keys.
constexpr size_t kMostMembers = 16384;
constexpr size_t kMostRosterBytes = size_t{3} << 20;

// An epoch ends with a restart or a failed attempt; a peer that names a much later one lies.
constexpr uint64_t kMostEpochsAhead = 1000000;

// The longest text of a worker about itself: paths, and what is wrong with a file.
constexpr size_t kLongestTrouble = 1000;

// The most peers, and the most reasons, that one line names.
constexpr size_t kMostNamed = 4;

// A folder that was restored from a backup is noticed once. Two machines with one key are noticed
// each time they take turns, which they do at least once a day.
constexpr uint32_t kTurnsOfTwo = 2;
constexpr absl::Duration kTurnWithin = absl::Hours(24);

constexpr char kHearsNothing[] =
    "its Hellos arrive, and it answers nothing: what is sent to it is lost, or all packets above "
    "some size (a firewall, an MTU)";

std::string ProcessText(uint32_t pid, const std::string& address) {
  return absl::StrCat("pid ", pid, address.empty() ? "" : ", ", address);
}

}  // namespace

Members::Members(const RunSettings& settings, const StoredRun& stored, absl::Time now)
    : settings_(settings),
      roster_(settings.failure_timeout, now, stored.members),
      news_(settings.failure_timeout),
      reach_(roster_, news_, settings.failure_timeout) {
  for (const ContributorSum& sum : stored.checkpoint.contributors) {
    infos_[sum.peer].rounds = sum.rounds;
    infos_[sum.peer].tokens = sum.tokens;
  }
  noted_ = noted_from_ = stored.checkpoint.version;
  if (stored.headers.empty() && stored.newest) NoteContributors(*stored.newest);
  for (const v1::EntryHeader& header : stored.headers) NoteEntry(header);
}

const PeerInfo* Members::FindInfo(const std::string& peer) const {
  const auto it = infos_.find(peer);
  return it == infos_.end() ? nullptr : &it->second;
}

absl::Status Members::Admit(const Ledger& ledger, SessionId session, const v1::Hello& hello,
                            RunOutput* out) {
  absl::Status status = CheckHello(ledger.spec(), hello);
  if (!status.ok()) return status;
  const RosterMember* former = roster_.Find(hello.peer());
  if (former != nullptr && former->state == MemberState::kEvicted) {
    return absl::PermissionDeniedError(
        absl::StrCat("peer ", hello.peer(), " was evicted", Because(former->why)));
  }
  const PeerInfo* info = FindInfo(hello.peer());
  const bool same_process =
      former != nullptr && !former->restored && former->instance == hello.instance();
  if (same_process && info != nullptr && info->signing_key != hello.signing_key()) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer ", hello.peer(), " changes its signing key while it runs"));
  }
  if (hello.epoch() > ledger.epoch() && hello.epoch() - ledger.epoch() > kMostEpochsAhead) {
    return absl::InvalidArgumentError(absl::StrCat(
        "peer ", hello.peer(), " names epoch ", hello.epoch(), ", this is epoch ", ledger.epoch()));
  }
  status = CheckLife(session, hello, out);
  if (!status.ok()) return status;
  status = ledger.CheckEpoch(hello);
  if (!status.ok()) return status;
  if (former == nullptr &&
      (roster_.members().size() >= kMostMembers || roster_.told_bytes() >= kMostRosterBytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("the run has ", roster_.members().size(),
                                                     " members already; no roster names more"));
  }
  if (!hello.has_state()) return absl::OkStatus();
  // It made version 0, and the coordinator stopped before it could record that: the peer will be
  // asked for it again.
  if (!ledger.genesis() && hello.version() == 0) return absl::OkStatus();
  if (ledger.OtherVersionZero(hello.version(), hello.header_digest())) return absl::OkStatus();
  status = ledger.CheckChain(hello.version(), hello.header_digest());
  if (!status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("peer ", hello.peer(), ": ", status.message()));
  }
  status = ledger.CheckClaim(hello.version(), hello.header_digest(), hello.header());
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("peer ", hello.peer(), ": ", status.message()));
}

absl::Status Members::CheckLife(SessionId session, const v1::Hello& hello, RunOutput* out) {
  if (!roster_.IsFormer(hello)) return absl::OkStatus();
  const std::string& peer = hello.peer();
  const RosterMember& known = *roster_.Find(peer);
  if (hello.instance() == known.instance) {
    return absl::UnavailableError(
        absl::StrCat("peer ", peer, ": a later session of the same process has come before it"));
  }
  infos_[peer].refused_instance = hello.instance();
  v1::CoordinatorMessage message;
  message.mutable_other_life()->set_life(known.life);
  message.mutable_other_life()->set_reason(absl::StrCat(
      "another process of peer ", peer, " (", ProcessText(known.pid, known.claimed),
      ") has been in the run with life ", known.life, ", and this one comes with life ",
      hello.life(),
      ": its folder was copied or put back from a backup, or its key is used elsewhere too. Two "
      "processes with one key end each other in turn: give each machine a token of its own"));
  out->sends.push_back(
      {session, std::make_shared<const v1::CoordinatorMessage>(std::move(message))});
  return absl::UnavailableError(absl::StrCat(
      "peer ", peer, " (", ProcessText(hello.pid(), hello.address()), ") comes with life ",
      hello.life(), ", and life ", known.life, " has been here"));
}

// A dead process cannot come back with a greater life, so there are, or were, two of them.
void Members::NoteTurn(absl::Time now, const v1::Hello& hello, const std::string& former,
                       RunOutput* out) {
  PeerInfo& info = infos_[hello.peer()];
  if (std::exchange(info.refused_instance, 0) != hello.instance() || hello.instance() == 0) return;
  info.turns = now > info.turned_at + kTurnWithin ? 1 : info.turns + 1;
  info.turned_at = now;
  const std::string here = ProcessText(hello.pid(), hello.address());
  if (info.turns < kTurnsOfTwo) {
    return out->Say(
        absl::StrCat("peer ", hello.peer(), " (", here,
                     ") has a folder that was copied or put back from a backup, or its key is used "
                     "elsewhere too: a process of it (",
                     former, ") had a later life"),
        RunOutput::Severity::kWarning);
  }
  info.offence = absl::StrCat("its key is used by two processes in turn (", here, " and ", former,
                              "), which end each other: give each machine a token of its own");
  out->Say(absl::StrCat("peer ", hello.peer(), ": ", info.offence), RunOutput::Severity::kWarning);
}

Members::Joined Members::Join(absl::Time now, SessionId session, const v1::Hello& hello,
                              RunOutput* out) {
  const std::string& peer = hello.peer();
  const RosterMember* former = roster_.Find(peer);
  const std::string before = former == nullptr ? "" : ProcessText(former->pid, former->claimed);
  const bool known = former != nullptr && former->present() && !former->restored;
  Joined joined;
  joined.same_process = former != nullptr && !former->restored && former->pid == hello.pid() &&
                        former->instance == hello.instance() && former->claimed == hello.address();
  joined.first_word = former == nullptr || former->restored || former->instance != hello.instance();
  const SessionId replaced = roster_.Join(now, session, hello);
  if (replaced != 0 && replaced != session) {
    out->ends.push_back(
        {replaced, joined.same_process
                       ? absl::UnavailableError("replaced by a newer session")
                       : absl::FailedPreconditionError(absl::StrCat(
                             "another process (", ProcessText(hello.pid(), hello.address()),
                             ") has joined as ", peer,
                             ". If it is not a restart of this one, its key is "
                             "used on two machines: give each a token of its "
                             "own"))});
  }
  NoteTurn(now, hello, before, out);
  PeerInfo& info = infos_[peer];
  info.signing_key = hello.signing_key();
  info.follows_changes = FollowsChanges(hello.software());
  if (!joined.same_process) {
    info.worker.reset();
    info.progress.Clear();
    info.spared_until = 0;
    info.dialled_in_vain_until = absl::InfinitePast();
  }
  reach_.OnJoined(now, peer, joined.same_process, out);
  Record(peer, &out->update);
  out->Say(absl::StrCat(
      "peer ", peer, known && joined.same_process ? " resumed its session" : " joined",
      roster_.Find(peer)->aggregator ? " as aggregator" : "", " (",
      hello.address().empty() ? "dials out only" : hello.address(),
      hello.has_state() ? absl::StrCat(", holds version ", hello.version()) : "", ")"));
  if (roster_.Find(peer)->greetings == RosterMember::kUnheard) {
    out->Say(absl::StrCat("peer ", peer, ": ", kHearsNothing), RunOutput::Severity::kWarning);
  }
  SayTaken(*roster_.Find(peer), out);
  return joined;
}

// The peer that answers at an address is its owner.
void Members::SayTaken(const RosterMember& member, RunOutput* out) const {
  if (member.address == member.claimed) return;
  std::string holder;
  for (const auto& [other, one] : roster_.members()) {
    if (one.present() && one.address == member.claimed) holder = other;
  }
  out->Say(absl::StrCat("peer ", member.peer, " advertises ", member.claimed,
                        ", which is the address of peer ", holder,
                        ": it is not dialled there until it has shown that the address is its own; "
                        "give each peer "
                        "an address of its own"),
           RunOutput::Severity::kWarning);
  out->probes.push_back({member.peer, member.claimed});
}

bool Members::NoteProbe(absl::Time now, const RunOutput::Probe& probe, ProbeResult result,
                        RunOutput* out) {
  const auto& [peer, address] = probe;
  const RosterMember* const member = roster_.Find(peer);
  const bool led_there = member != nullptr && !member->in_vain;
  if (member == nullptr || member->claimed != address) return led_there;
  roster_.NoteDialled(peer, result != ProbeResult::kAnswered);
  if (result == ProbeResult::kAnswered || (member->present() && member->address == address)) {
    reach_.NoteDialled(now, peer, result, out);
  }
  if (result != ProbeResult::kAnswered || !roster_.GrantAddress(peer)) return led_there;
  Record(peer, &out->update);
  out->Say(absl::StrCat("peer ", peer, " is the one that answers at ", address,
                        ": no other peer that advertises it is dialled there"),
           RunOutput::Severity::kWarning);
  return led_there;
}

std::string Members::PeerOf(SessionId session) const {
  const std::string peer = roster_.PeerOf(session);
  const RosterMember* const member = roster_.Find(peer);
  return member != nullptr && member->present() ? peer : "";
}

void Members::Forget(const std::string& peer, RunUpdate* update) {
  roster_.Forget(peer);
  reach_.Forget(peer);
  // A peer that has contributed is in the history anyway; nothing else may grow with invented
  // names.
  const auto info = infos_.find(peer);
  if (info != infos_.end() && info->second.rounds == 0) infos_.erase(info);
  update->forgotten.push_back(peer);
  NoteChange();
}

void Members::Record(const std::string& peer, RunUpdate* update) {
  update->members.push_back(Roster::Record(*roster_.Find(peer)));
  NoteChange();
}

void Members::NoteContributors(const v1::EntryHeader& header) {
  // For the newest header of a checkpoint, and after a gap, the entries before it are unknown.
  if (header.version() != noted_ + 1) noted_from_ = header.version() - 1;
  noted_ = header.version();
  for (const v1::Contributor& contributor : header.contributors()) {
    infos_[contributor.peer()].contributed = header.version();
  }
}

bool Members::MayBeTaken(const std::string& peer, uint64_t version) const {
  const PeerInfo* const info = FindInfo(peer);
  return version < noted_from_ || (info != nullptr && info->contributed > version);
}

void Members::NoteEntry(const v1::EntryHeader& header) {
  NoteContributors(header);
  for (const v1::Contributor& contributor : header.contributors()) {
    PeerInfo& info = infos_[contributor.peer()];
    ++info.rounds;
    info.worker_failures = 0;
    info.tokens += contributor.tokens();
  }
}

void Members::NoteState(const std::string& peer, uint64_t version, const std::string& digest) {
  PeerInfo& info = infos_[peer];
  if (digest.size() != kDigestBytes || (!info.state_digest.empty() && version < info.state_version))
    return;
  info.state_digest = digest;
  info.state_version = version;
}

void Members::NoteSuspicion(const std::string& peer, const std::string& offence) {
  PeerInfo& info = infos_[peer];
  ++info.suspicions;
  info.offence = offence;
}

void Members::NoteProgress(absl::Time now, const std::string& peer,
                           const v1::PeerProgress& progress) {
  PeerInfo& info = infos_[peer];
  info.progress = progress;
  info.progress_at = now;
}

void Members::NoteWorkerLost(const std::string& peer, const v1::WorkerLost& lost, bool was_ready,
                             RunOutput* out) {
  const std::string why = OneLine(lost.reason(), kLongestTrouble);
  const bool news = NoteWorkerTrouble(peer, why, lost.by_owner());
  if (lost.bad_update()) ++infos_[peer].data_refused;
  if (!news && !was_ready) return;
  if (lost.by_owner()) return out->Say(absl::StrCat("peer ", peer, " is held back: ", why));
  const char* const how = lost.bad_update() ? "was ended" : was_ready ? "died" : "does not start";
  out->Say(absl::StrCat("peer ", peer, ": its worker ", how, Because(why)),
           RunOutput::Severity::kWarning);
}

bool Members::NoteWorkerTrouble(const std::string& peer, const std::string& trouble,
                                bool by_owner) {
  PeerInfo& info = infos_[peer];
  if (!trouble.empty() && !by_owner) ++info.worker_failures;
  info.held_back = !trouble.empty() && by_owner;
  roster_.NoteIdle(peer, !trouble.empty(), by_owner);
  if (info.worker_trouble == trouble) return false;
  info.worker_trouble = trouble;
  return !trouble.empty();
}

std::vector<Roster::Death> Members::Tick(absl::Time now, const Ledger& ledger, bool started,
                                         RunOutput* out) {
  if (ledger.genesis()) roster_.SetParameters(now, ledger.genesis()->manifest().elements());
  reach_.Tick(now, out);
  const bool came = !roster_.nobody_comes();
  std::vector<Roster::Death> deaths = roster_.Tick(now);
  const size_t here = roster_.Trainers();
  if (!started && came && roster_.nobody_comes() && here < settings_.round.peers) {
    out->Say(
        absl::StrCat("the first round does not wait any more for peers that have not come: ", here,
                     " of ", settings_.round.peers, " are here, and nobody has come for ",
                     absl::FormatDuration(roster_.ComesWithin()), "; others come in when they can"),
        RunOutput::Severity::kWarning);
  }
  for (const std::string& peer : roster_.TakeSetAside()) {
    if (started) continue;
    const std::string& trouble = infos_[peer].worker_trouble;
    out->Say(
        absl::StrCat("the first round does not wait for peer ", peer, " any more, ",
                     trouble.empty() ? absl::StrCat("which has not got version 0 in ",
                                                    absl::FormatDuration(roster_.StateTime()))
                                     : absl::StrCat("whose worker has not trained for ",
                                                    absl::FormatDuration(roster_.SetAsideAfter()),
                                                    ": ", trouble),
                     "; it comes in when it can"),
        RunOutput::Severity::kWarning);
  }
  return deaths;
}

void Members::ForgetWorkerTrouble(const std::string& peer) {
  NoteWorkerTrouble(peer, "");
  infos_[peer].worker_failures = 0;
}

absl::Status Members::OnStateReport(const std::string& peer, const v1::StateReport& report,
                                    const Ledger& ledger, RunOutput* out) {
  if (report.state_digest().size() != kDigestBytes) {
    return absl::InvalidArgumentError("the state's digest is not 32 bytes");
  }
  if (!report.expected_digest().empty()) {
    out->Say(absl::StrCat("peer ", peer, " has drifted: its state of version ", report.version(),
                          " is not the history's; it is repairing itself"),
             RunOutput::Severity::kError);
    return absl::OkStatus();
  }
  if (report.version() > ledger.version() || !ledger.genesis()) return absl::OkStatus();
  NoteState(peer, report.version(), report.state_digest());
  if (ledger.seal()) NoteChange();  // it may have been waited for
  return absl::OkStatus();
}

absl::Status Members::Drain(const std::string& peer, const std::string& reason, bool sealed,
                            RunOutput* out) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr) return absl::NotFoundError(absl::StrCat("no peer ", peer));
  if (!member->present()) {
    return absl::FailedPreconditionError(absl::StrCat("peer ", peer, " is not a member now: it is ",
                                                      MemberStateName(member->state)));
  }
  if (member->draining) return absl::OkStatus();
  roster_.Drain(peer, reason.empty() ? "asked to leave" : reason);
  Record(peer, &out->update);
  SendDrain(peer, out);
  NoteQuorum(absl::StrCat("an operator drains peer ", peer, Because(reason)), sealed, out);
  return absl::OkStatus();
}

void Members::SendDrain(const std::string& peer, RunOutput* out) const {
  v1::CoordinatorMessage message;
  message.mutable_drain()->set_reason(roster_.Find(peer)->why);
  SendTo(peer, std::move(message), out);
}

absl::Status Members::Readmit(absl::Time now, const std::string& peer, RunOutput* out) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr) return absl::NotFoundError(absl::StrCat("no peer ", peer));
  if (member->state != MemberState::kEvicted) return absl::OkStatus();
  roster_.Readmit(now, peer);
  Record(peer, &out->update);
  out->Say(absl::StrCat("an operator lets peer ", peer, " come back"));
  return absl::OkStatus();
}

absl::StatusOr<bool> Members::Evict(absl::Time now, const std::string& peer,
                                    const std::string& reason, bool sealed, RunOutput* out) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr) return absl::NotFoundError(absl::StrCat("no peer ", peer));
  if (member->state == MemberState::kEvicted) return false;
  const bool was_present = member->present();
  if (member->connected()) {
    out->ends.push_back({member->session, absl::PermissionDeniedError(absl::StrCat(
                                              "peer ", peer, " was evicted", Because(reason)))});
  }
  roster_.Evict(now, peer, reason);
  news_.Hurry();  // the peers that hear of it end its calls
  const std::string said = absl::StrCat("an operator has evicted peer ", peer, Because(reason));
  if (was_present) {
    NoteQuorum(said, sealed, out);
  } else {
    out->Say(said);
  }
  return true;
}

bool Members::Evicted(const std::string& peer) const {
  const RosterMember* const member = roster_.Find(peer);
  return member != nullptr && member->state == MemberState::kEvicted;
}

bool Members::EvictLiar(absl::Time now, const std::string& peer, const std::string& evidence,
                        bool sealed, RunOutput* out) {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr || member->state == MemberState::kEvicted) return false;
  if (member->connected()) {
    out->ends.push_back({member->session, absl::PermissionDeniedError(absl::StrCat(
                                              "peer ", peer, " was evicted: ", evidence))});
  }
  roster_.Evict(now, peer, evidence);
  news_.Hurry();
  infos_[peer].offence = evidence;
  out->evicted.push_back(peer);
  NoteQuorum(absl::StrCat("peer ", peer, " is evicted: ", evidence), sealed, out);
  return true;
}

// Reports it, and what it means for the rounds. The answer to the operator repeats that.
void Members::NoteQuorum(const std::string& said, bool sealed, RunOutput* out) const {
  size_t stay = 0;
  for (const auto& [peer, member] : roster_.members()) {
    stay += member.present() && !member.draining && !member.aggregator ? 1 : 0;
  }
  const uint32_t quorum = settings_.round.quorum;
  const uint32_t fewest = settings_.round.fewest;
  const bool enough = stay >= std::max(quorum, fewest) || sealed;
  if (!enough) {
    out->notice = absl::StrCat(
        Counted(stay, "peer"), stay == 1 ? " stays" : " stay",
        stay < quorum ? ", fewer than the quorum of " : ", fewer than a masked sum needs: ",
        stay < quorum ? quorum : fewest, ": the run will wait");
  }
  out->Say(absl::StrCat(said, enough ? "" : "; ", out->notice),
           enough ? RunOutput::Severity::kInfo : RunOutput::Severity::kWarning);
}

void Members::SendTo(const std::string& peer, v1::CoordinatorMessage message,
                     RunOutput* out) const {
  SendTo(peer, std::make_shared<const v1::CoordinatorMessage>(std::move(message)), out);
}

void Members::SendTo(const std::string& peer, const RunOutput::Message& message,
                     RunOutput* out) const {
  const RosterMember* member = roster_.Find(peer);
  if (member == nullptr || !member->connected() || !member->present()) return;
  out->sends.push_back({member->session, message});
}

void Members::SendToAll(v1::CoordinatorMessage message, RunOutput* out) const {
  const auto shared = std::make_shared<const v1::CoordinatorMessage>(std::move(message));
  for (const auto& [peer, member] : roster_.members()) SendTo(peer, shared, out);
}

void Members::SetRevoked(const std::vector<KeyRecord>& keys) {
  std::vector<v1::RevokedKey> told;
  for (const KeyRecord& key : keys) {
    v1::RevokedKey& revoked = told.emplace_back();
    revoked.set_peer(key.peer);
    revoked.set_key(BytesOfHex(key.key));
  }
  news_.SetRevoked(std::move(told));
}

void Members::SendRoster(const std::string& peer, RunOutput* out) {
  const RosterMember* const member = roster_.Find(peer);
  if (member == nullptr || !member->connected()) return;
  SendTo(peer, news_.Whole(), out);
  infos_[peer].told_session = member->session;
}

void Members::SendRosterIfDue(absl::Time now, const std::optional<v1::Seal>& seal, RunOutput* out) {
  if (!news_.Due(now)) return;
  const std::vector<std::string> awaited = Awaited(seal);
  const RunOutput::Message news = news_.Take(now, roster_, seal.has_value(), awaited);
  if (news == nullptr) return;
  for (const auto& [peer, member] : roster_.members()) {
    const PeerInfo* const info = FindInfo(peer);
    if (member.connected() && info != nullptr && info->told_session == member.session) {
      SendTo(peer, info->follows_changes ? news : news_.Whole(), out);
    }
  }
}

std::vector<std::string> Members::Awaited(const std::optional<v1::Seal>& seal) const {
  std::vector<std::string> awaited;
  if (!seal) return awaited;
  for (const auto& [peer, member] : roster_.members()) {
    if (!member.present() || given_up_.count(peer) > 0) continue;
    const PeerInfo* info = FindInfo(peer);
    const bool drifted = info != nullptr && info->Reported(seal->version()) &&
                         info->state_digest != seal->state_digest();
    if (drifted || !member.has_state || member.version < seal->version()) awaited.push_back(peer);
  }
  return awaited;
}

bool Members::Awaits(const v1::Seal& seal, const std::string& peer) const {
  const std::vector<std::string> awaited = Awaited(seal);
  return std::find(awaited.begin(), awaited.end(), peer) != awaited.end();
}

std::vector<std::string> Members::StopAwaiting(absl::Time now, const v1::Seal& seal,
                                               absl::Duration patience) {
  std::vector<std::string> late;
  for (const std::string& peer : Awaited(seal)) {
    if (now >= awaited_since_.emplace(peer, now).first->second + patience) late.push_back(peer);
  }
  given_up_.insert(late.begin(), late.end());
  if (!late.empty()) NoteChange();
  return late;
}

void Members::NoteSpeed(const std::string& peer, const v1::Ready& ready) {
  if (ready.train_seconds() <= 0 || ready.steps() == 0) return;
  info(peer).step_times.Add(absl::Seconds(ready.train_seconds() / ready.steps()), ready.steps());
}

std::vector<PacedSteps> Members::StepsOf(absl::Span<const std::string> peers,
                                         const PaceSettings& pace, uint32_t fixed) const {
  std::vector<PacedSteps> steps(peers.size(), {fixed});
  if (pace.kind == PaceSettings::Kind::kFixed || peers.empty()) return steps;
  std::map<absl::string_view, absl::Duration> times;
  std::vector<absl::Duration> all;
  for (const auto& [other, info] : infos_) {
    const RosterMember* member = roster_.Find(other);
    if (info.step_times.empty() || member == nullptr || !member->present()) continue;
    all.push_back(info.step_times.Median());
    times[other] = all.back();
  }
  for (size_t i = 0; i < peers.size(); ++i) {
    const auto own = times.find(peers[i]);
    const absl::Duration time = own == times.end() ? absl::ZeroDuration() : own->second;
    steps[i] = StepsFor(pace, fixed, time, all);
  }
  return steps;
}

std::vector<ExchangeAggregator> Members::Aggregators(absl::Time now, uint64_t version,
                                                     std::string* lacking) {
  std::vector<ExchangeAggregator> aggregators;
  for (const auto& [peer, member] : roster_.members()) {
    if (!member.aggregator || !member.connected() || !member.present() || member.draining) continue;
    if (member.address.empty()) {
      absl::StrAppend(lacking, "; aggregator ", peer, " advertises another peer's address");
      continue;
    }
    if (!member.has_state || member.version + 1 != version) {
      absl::StrAppend(lacking, "; aggregator ", peer, " does not hold version ", version - 1,
                      " yet");
      continue;
    }
    const PeerInfo& info = infos_[peer];
    aggregators.push_back({peer, member.address, info.spared_until < version,
                           now < info.dialled_in_vain_until, member.region});
  }
  return aggregators;
}

bool Members::AnotherHolds(const std::string& peer, uint64_t version) const {
  return std::any_of(roster_.members().begin(), roster_.members().end(), [&](const auto& entry) {
    const RosterMember& member = entry.second;
    return entry.first != peer && member.present() && !member.address.empty() && member.has_state &&
           member.version == version;
  });
}

uint64_t Members::Parties() const {
  uint64_t parties = 0;
  for (const auto& [peer, member] : roster_.members()) {
    if (!member.present() || member.aggregator) continue;
    const PeerInfo* const info = FindInfo(peer);
    const bool hosts = info != nullptr && info->worker.has_value();
    parties += hosts ? std::max<uint32_t>(1, info->worker->parties()) : 1;
  }
  return std::max<uint64_t>(parties, settings_.round.peers);
}

// All workers have the same text, which is checked by its digest.
uint64_t Members::SamplesInPass(const v1::RunSpec& spec) const {
  if (spec.data().private_()) return 0;
  for (const auto& [peer, info] : infos_) {
    if (info.worker) return SamplesAPass(info.worker->train_tokens(), spec.model().context());
  }
  return 0;
}

std::string Members::WithTroubles(const std::string& reason) const {
  if (reason.empty()) return reason;
  std::map<std::string, std::vector<std::string>> peers_by_trouble;
  for (const auto& [peer, member] : roster_.members()) {
    const PeerInfo* const info = FindInfo(peer);
    if (info == nullptr || info->worker_trouble.empty()) continue;
    if ((member.connected() && member.present()) || member.idle_by_owner)
      peers_by_trouble[info->worker_trouble].push_back(peer);
  }
  std::vector<std::string> parts = {reason};
  for (const auto& [trouble, peers] : peers_by_trouble) {
    const size_t named = std::min(peers.size(), kMostNamed);
    std::string part =
        absl::StrJoin(peers.begin(), peers.begin() + static_cast<ptrdiff_t>(named), ", ");
    if (named < peers.size()) absl::StrAppend(&part, " and ", peers.size() - named, " more");
    parts.push_back(absl::StrCat(part, ": ", trouble));
    if (parts.size() > kMostNamed) break;
  }
  return absl::StrJoin(parts, "; ");
}

bool Members::AnybodyConnected() const {
  return std::any_of(roster_.members().begin(), roster_.members().end(), [](const auto& entry) {
    return entry.second.connected() && entry.second.present();
  });
}

v1::PeerStatus Members::StatusOf(const v1::Member& member,
                                 const std::map<std::string, std::string>& notes) const {
  v1::PeerStatus out;
  *out.mutable_member() = member;
  const RosterMember& known = *roster_.Find(member.peer());
  out.set_pid(known.pid);
  out.set_why(known.why);
  out.set_role(known.aggregator ? kAggregatorRole : "peer");
  out.set_up_cap_bytes_per_second(static_cast<double>(known.up_rate));
  out.set_down_cap_bytes_per_second(static_cast<double>(known.down_rate));
  const PeerInfo* info = FindInfo(member.peer());
  if (info == nullptr) return out;
  *out.mutable_progress() = info->progress;
  out.set_rounds_contributed(info->rounds);
  out.set_tokens(info->tokens);
  out.set_state_digest(info->state_digest);
  out.set_state_version(info->state_version);
  out.set_data_refused(info->data_refused);
  out.set_suspicions(info->suspicions);
  out.set_offence(info->offence);
  if (info->worker) out.set_device(info->worker->device());
  if (info->worker) out.set_parties(info->worker->parties());
  out.set_worker_failures(info->worker_failures);
  if (info->utilisation) *out.mutable_utilisation() = *info->utilisation;
  if (known.present() && known.hears_nothing()) {
    out.set_why(kHearsNothing);
    return out;
  }
  if (known.why.empty() && known.connected() && !info->worker_trouble.empty()) {
    out.set_why(absl::StrCat(info->held_back ? "held back: " : "its worker does not train: ",
                             info->worker_trouble));
  }
  if (!out.why().empty() || !known.connected()) return out;
  const auto note = notes.find(member.peer());
  const double slow = info->progress.slow_sync_seconds();
  out.set_why(note != notes.end() ? note->second
              : slow > 0          ? absl::StrFormat("its disk is slow: an fsync took %.1f s", slow)
                                  : OneLine(info->progress.still_tensors(), kLongestTrouble));
  return out;
}

void Members::ShowClocks(absl::Time now, absl::Time wall, v1::RunStatus* status) const {
  status->set_unix_seconds(absl::ToDoubleSeconds(wall - absl::UnixEpoch()));
  for (v1::PeerStatus& peer : *status->mutable_peers()) {
    const PeerInfo* const info = FindInfo(peer.member().peer());
    if (info == nullptr || info->progress.clock_seconds() <= 0) continue;
    const absl::Time told_at = wall - (now - info->progress_at);
    peer.set_clock_offset_seconds(info->progress.clock_seconds() -
                                  absl::ToDoubleSeconds(told_at - absl::UnixEpoch()));
  }
}

}  // namespace atolld
