#include "tests/sim/invariants.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot.h"
#include "membership/history/digest.h"
#include "membership/history/mean_records.h"
#include "membership/run/roster_news.h"
#include "membership/trust/contribution.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

// The longest pause before a peer dials the coordinator again, and the same again for what follows.
constexpr absl::Duration kRedials = absl::Seconds(10);

// A suspect that cannot be probed is dead after this time (or after failure_timeout, if that is
// less).
constexpr absl::Duration kSuspectAtMost = absl::Seconds(3);

// How much longer than nominal timers, a transaction and the events between them may take.
constexpr absl::Duration kSlack = absl::Seconds(1);

constexpr uint64_t kMostPayload = uint64_t{1} << 30;

// The first byte of the message of a oneof is its field's tag.
char TagOf(const Frame& frame) { return frame.bytes().empty() ? '\0' : frame.bytes()[0]; }
char Tag(int field) { return static_cast<char>(field << 3 | 2); }

bool HoldsSnapshotFrom(Files& files, const std::string& dir, uint64_t version) {
  const absl::StatusOr<std::vector<uint64_t>> versions = ListSnapshots(files, dir);
  if (!versions.ok() || versions->empty() || versions->back() < version) return false;
  const auto newest = SnapshotReader::Open(files, SnapshotPath(dir, versions->back()));
  return newest.ok() && (*newest)->CheckBlocks().ok();
}

}  // namespace

Invariants::Invariants(Terms terms)
    : terms_(std::move(terms)),
      history_([this](int invariant, const std::string& what) { Violate(invariant, what); }),
      privacy_(terms_.privacy),
      experts_([this](int invariant, const std::string& what) { Violate(invariant, what); }) {
  for (const std::string& liar : terms_.hostile) history_.OnLiar(liar);
}

void Invariants::Violate(int invariant, const std::string& what) {
  if (!violation_) violation_ = Violation{terms_.now(), invariant, what};
}

// -----------------------------------------------------------------------------------------------
// What is done to whom

void Invariants::Disturb(const std::string& name, absl::Duration until) {
  absl::Duration& disturbed = disturbed_[name];
  disturbed = std::max(disturbed, until);
}

void Invariants::Calm(const std::string& name) { disturbed_[name] = terms_.now(); }

absl::Duration Invariants::Settled() const { return kRedials + 2 * terms_.failure_timeout; }

absl::Duration Invariants::DisturbedUntil(const std::string& name) const {
  const auto found = disturbed_.find(name);
  return found == disturbed_.end() ? absl::ZeroDuration() : found->second + Settled();
}

absl::Duration Invariants::quiet_since() const {
  absl::Duration since = absl::ZeroDuration();
  for (const auto& [name, until] : disturbed_) since = std::max(since, until);
  for (const auto& [name, peer] : peers_) {
    if (!peer.alive && !peer.state.empty()) return absl::InfiniteDuration();
  }
  return since <= terms_.now() && coordinator_alive_ ? since : absl::InfiniteDuration();
}

void Invariants::OnStart(const std::string& name) {
  Disturb(name, terms_.now());
  if (name == kCoordinator) {
    coordinator_alive_ = true;
    former_epoch_ = highest_epoch_;
    welcomed_ = false;
    return;
  }
  peers_[name].alive = true;
  history_.OnLife(name);
}

void Invariants::OnDeath(const std::string& name, Files& files, const std::string& dir) {
  Disturb(name, terms_.now());
  if (name == kCoordinator) {
    coordinator_alive_ = false;
    plan_ends_ = absl::InfiniteDuration();
    newest_frames_.clear();
    roster_.reset();
    return;
  }
  Peer& peer = peers_[name];
  peer.alive = false;
  peer.died = terms_.now();
  // It may have been told a lie, and begun to fetch what the others hold.
  if (Hostile(name) || hostile_versions_.count(peer.vote.version()) > 0) return;
  // What it has voted for and not yet committed must be on its disk, if no newer plan replaced it:
  // the payload, or the state that it led to, fetched from others.
  const v1::Vote& vote = peer.vote;
  if (vote.version() <= peer.said || plan_ != PlanKey(vote.epoch(), vote.revision())) return;
  const absl::StatusOr<std::string> payload =
      ReadFile(files, PayloadPath(dir, vote.version()), kMostPayload);
  if (!payload.ok() && !absl::IsNotFound(payload.status())) return;  // the disk fails as planned
  if (!payload.ok() && HoldsSnapshotFrom(files, dir, vote.version())) return;
  if (!payload.ok()) {
    return Violate(
        4, absl::StrCat(name, " voted for version ", vote.version(),
                        ", and after its death the payload is gone: ", payload.status().message()));
  }
  const Digest digest =
      TreeDigest({reinterpret_cast<const uint8_t*>(payload->data()), payload->size()});
  if (ToBytes(digest) != vote.payload_digest()) {
    Violate(4, absl::StrCat(name, " voted for version ", vote.version(),
                            ", and after its death it holds another payload"));
  }
}

void Invariants::OnStoreRestored() {
  restored_ = true;
  former_epoch_ = highest_epoch_ = durable_ = 0;
  ballots_.clear();
}

uint64_t Invariants::said(const std::string& peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second.said;
}

bool Invariants::said_any(const std::string& peer) const {
  const auto found = peers_.find(peer);
  return found != peers_.end() && found->second.said_any;
}

void Invariants::OnWiped(const std::string& name) {
  Peer& peer = peers_[name];
  peer.said = 0;
  peer.said_any = false;
  peer.vote.Clear();
}

// -----------------------------------------------------------------------------------------------
// What peers say

void Invariants::OnPeerFrame(const std::string& name, const Frame& frame) {
  if (TagOf(frame) == Tag(v1::PeerMessage::kHeartbeat)) return;
  v1::PeerMessage message;
  if (!Unpack(frame, &message).ok()) return Violate(3, absl::StrCat(name, " sent no message"));
  switch (message.message_case()) {
    case v1::PeerMessage::kHello:
      return OnHello(name, message.hello());
    case v1::PeerMessage::kSynced:
      Say(name, message.synced().version());
      return history_.OnSynced(name, message.synced().version(), message.synced().header_digest());
    case v1::PeerMessage::kReady:
      privacy_.OnReady(name, message.ready());
      experts_.OnReady(name, message.ready());
      return history_.OnReady(name, message.ready());
    case v1::PeerMessage::kVote:
      return OnVote(name, message.vote());
    case v1::PeerMessage::kMask:
      return OnMask(name, message.mask());
    case v1::PeerMessage::kUpdateRefused:
      refused_.emplace(message.update_refused().version(), message.update_refused().contributor());
      return;
    case v1::PeerMessage::kStateReport:
      return history_.OnStateDigest(name, message.state_report().version(),
                                    message.state_report().state_digest());
    case v1::PeerMessage::kLeaving:
      // This coordinator is honest, whatever is done to it.
      if (absl::StrContains(message.leaving().reason(), "not believe")) {
        Violate(2, absl::StrCat(name, " says: ", message.leaving().reason()));
      }
      return;
    default:
      return;
  }
}

void Invariants::OnHello(const std::string& name, const v1::Hello& hello) {
  const Peer& peer = peers_[name];
  const bool dropped = peer.said == 0 && history_.may_begin_anew();
  if (!hello.has_state() && peer.said_any && !dropped) {
    return Violate(5, absl::StrCat(name, " held version ", peer.said, " and comes back with none"));
  }
  if (hello.samples().empty() && !hello.training()) history_.OnUpdateGone(name);
  if (!hello.has_state()) return;
  Say(name, hello.version());
  history_.OnSynced(name, hello.version(), hello.header_digest());
}

void Invariants::Say(const std::string& name, uint64_t version) {
  Peer& peer = peers_[name];
  // Where a flipped bit has gone to its disk too, it begins with what others give: their snapshot.
  if (peer.said_any && version < peer.said && peer.said > history_.flipped_until(name)) {
    Violate(5, absl::StrCat(name, " held version ", peer.said, " and holds ", version, " now"));
  }
  peer.said = version;
  peer.said_any = true;
}

void Invariants::OnVote(const std::string& name, const v1::Vote& vote) {
  peers_[name].vote = vote;
  auto& ballot = ballots_[vote.version()][{vote.epoch(), vote.revision()}];
  ballot[vote.payload_digest()].insert(name);
  // A plan's revision names the attempt of each shard, and the means of an attempt are one
  // reducer's word.
  if (ballot.size() > 1 && hostile_versions_.count(vote.version()) == 0) {
    Violate(3, absl::StrCat("version ", vote.version(), ", epoch ", vote.epoch(), ", revision ",
                            vote.revision(), ": ", name, " votes for another payload than others"));
  }
  history_.OnStateDigest(name, vote.version() - 1, vote.state_digest());
}

// At most one of a party's two secrets is ever revealed, whatever happens to an attempt: with both,
// its update would be visible.
void Invariants::OnMask(const std::string& name, const v1::MaskFromParty& message) {
  if (message.has_masked()) return history_.OnMasked(name, message.masked());
  if (!message.has_opened()) return;
  ++openings_;
  history_.OnOpened(message.opened());
  for (const v1::OpenShare& share : message.opened().shares()) {
    const auto [told, first] = revealed_.emplace(
        std::pair(message.opened().attempt().attempt(), absl::StrCat(name, " ", share.of())),
        share.contributed());
    if (first || told->second == share.contributed()) continue;
    Violate(16, absl::StrCat(name, " reveals shares of both secrets of ", share.of()));
  }
}

// -----------------------------------------------------------------------------------------------
// What the coordinator says

void Invariants::OnCoordinatorFrame(const Frame& frame) {
  const char tag = TagOf(frame);
  if (tag == Tag(v1::CoordinatorMessage::kHeartbeat)) return;
  // It says the same to all, one after another.
  std::string& newest = newest_frames_[tag];
  if (newest == frame.bytes()) return;
  newest = std::string(frame.bytes());
  v1::CoordinatorMessage message;
  if (!Unpack(frame, &message).ok()) return Violate(3, "the coordinator sent no message");
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      return OnWelcome(message.welcome());
    case v1::CoordinatorMessage::kTrain:
      return privacy_.OnTrain(message.train());
    case v1::CoordinatorMessage::kPlan:
      return OnPlan(message.plan());
    case v1::CoordinatorMessage::kCommit:
      return OnCommit(message.commit().header());
    case v1::CoordinatorMessage::kMask:
      if (message.mask().has_roster()) OnMaskRoster(message.mask().roster());
      return;
    case v1::CoordinatorMessage::kRoster:
      return OnRoster(message.roster());
    case v1::CoordinatorMessage::kRosterDelta:
      return OnRosterDelta(message.roster_delta());
    case v1::CoordinatorMessage::kSealed:
      sealed_ = true;
      return history_.OnSeal(message.sealed().seal());
    default:
      return;
  }
}

void Invariants::OnTold(const std::string& peer, const Frame& frame) {
  if (TagOf(frame) != Tag(v1::CoordinatorMessage::kTrain)) return;
  v1::CoordinatorMessage message;
  if (!Unpack(frame, &message).ok()) return Violate(3, "the coordinator sent no message");
  experts_.OnTrain(peer, message.train());
}

void Invariants::OnMaskRoster(const v1::MaskRoster& roster) {
  mask_threshold_ = roster.threshold();
  const auto parties = static_cast<uint32_t>(roster.parties_size());
  if (parties >= terms_.mask_roster) return;
  Violate(16, absl::StrCat("attempt ", roster.attempt().attempt(), " shares masks among ", parties,
                           " parties, and the run asks for ", terms_.mask_roster));
}

void Invariants::OnFormerLeaderFrame(const Frame& frame) {
  if (TagOf(frame) != Tag(v1::CoordinatorMessage::kCommit)) return;
  v1::CoordinatorMessage message;
  if (!Unpack(frame, &message).ok()) return Violate(3, "the coordinator sent no message");
  const v1::EntryHeader& header = message.commit().header();
  if (header.version() > durable_) {
    Violate(4, absl::StrCat("version ", header.version(), " was announced by a former leader, and ",
                            durable_, " is the newest that is durable"));
  }
  history_.OnAnnounced(header);
}

void Invariants::OnWelcome(const v1::Welcome& welcome) {
  if (!welcomed_ && welcome.epoch() <= former_epoch_) {
    Violate(3, absl::StrCat("the coordinator began again with epoch ", welcome.epoch(),
                            " after epoch ", former_epoch_));
  }
  welcomed_ = true;
  if (welcome.epoch() > highest_epoch_) plan_ends_ = absl::InfiniteDuration();
  highest_epoch_ = std::max(highest_epoch_, welcome.epoch());
  restored_ = restored_ && welcome.version() < announced_;
  if (welcome.version() < announced_ && !restored_) {
    Violate(4, absl::StrCat("version ", announced_, " was announced, and the coordinator knows of ",
                            welcome.version(), " now"));
  }
  if (welcome.has_genesis()) {
    experts_.OnGenesis(welcome.genesis());
    history_.OnGenesis(welcome.genesis());
  }
  if (welcome.has_header()) OnCommit(welcome.header());
  if (welcome.has_seal()) {
    sealed_ = true;
    history_.OnSeal(welcome.seal());
  }
}

void Invariants::OnPlan(const v1::Plan& plan) {
  if (IsBrief(plan)) return;  // those that serve are told the whole of it at the same time
  CheckFormerExchange(plan);
  if (plan.version() != newest_plan_.version() || plan.epoch() != newest_plan_.epoch()) {
    exchange_began_ = terms_.now();
  }
  newest_plan_ = plan;
  plan_threshold_ = mask_threshold_;
  if (HostileReduces(plan)) hostile_versions_.insert(plan.version());
  ++plans_told_;
  plan_ = {plan.epoch(), plan.revision()};
  const absl::Duration deadline =
      absl::Milliseconds(static_cast<int64_t>(plan.deadline_milliseconds()));
  // Votes come by the deadline, and an audit is waited for three times for 3/4 of it.
  audit_lasts_ = deadline * (plan.audit_commitment().empty() ? 0 : 2.25);
  // With masks the contributors sign and reveal, and only then votes can come.
  if (terms_.masked) audit_lasts_ = deadline + 2 * terms_.failure_timeout;
  plan_ends_ = terms_.now() + deadline + audit_lasts_;
  experts_.OnPlan(plan);
  history_.OnPlan(plan);
}

// A death costs an exchange only what the dead peer could give. The exchange may fail only if
// something was also done to one of the remaining peers.
void Invariants::CheckFormerExchange(const v1::Plan& next) {
  const v1::Plan& former = newest_plan_;
  if (next.version() != former.version() || next.epoch() <= former.epoch()) return;
  const auto disturbed = [this](const std::string& name) {
    return DisturbedUntil(name) >= exchange_began_;
  };
  if (disturbed(kCoordinator)) return;
  // The vote of one that has drifted does not count before it is repaired.
  if (former.version() <= history_.flipped_until() + 1) return;
  size_t left = 0;
  for (const v1::PlanMember& member : former.contributors()) {
    const bool lost =
        std::find(former.lost().begin(), former.lost().end(), member.peer()) != former.lost().end();
    if (!lost && (disturbed(member.peer()) || Hostile(member.peer()))) return;
    left += lost ? 0 : 1;
  }
  // Updates with masks are summed anew once; another death in that may leave some in parts again.
  if (terms_.masked && former.revision() > 2) return;
  const uint32_t needed = std::max({terms_.quorum, terms_.most_needed, plan_threshold_});
  if (left < needed || !Reducible(former)) return;
  Violate(7, absl::StrCat("version ", former.version(), ": the exchange under epoch ",
                          former.epoch(), " came to nothing, and nothing was done to any of the ",
                          left, " that were left of it"));
}

// Returns true if an undisturbed peer was left that could have averaged it.
bool Invariants::Reducible(const v1::Plan& plan) const {
  std::set<std::string> contributors;
  bool dialable = false;
  for (const v1::PlanMember& member : plan.contributors()) {
    contributors.insert(member.peer());
    const bool lost =
        std::find(plan.lost().begin(), plan.lost().end(), member.peer()) != plan.lost().end();
    dialable = dialable || (!lost && !member.address().empty());
  }
  for (const v1::Shard& shard : plan.shards()) {
    if (contributors.count(shard.reducer()) > 0) continue;
    if (DisturbedUntil(shard.reducer()) >= exchange_began_) return false;
    dialable = true;
  }
  return dialable;
}

void Invariants::OnCommit(const v1::EntryHeader& header) {
  if (header.version() > durable_ && !restored_) {
    Violate(4, absl::StrCat("version ", header.version(), " was announced, and ", durable_,
                            " is the newest that is durable"));
  }
  if (header.version() > announced_) plan_ends_ = absl::InfiniteDuration();
  if (header.version() > announced_) experts_.OnHeader(header);
  announced_ = std::max(announced_, header.version());
  const uint64_t lies = history_.lies();
  history_.OnAnnounced(header);
  if (history_.lies() > lies) CheckLie(header);
}

void Invariants::OnDurable(const RunUpdate& update) {
  // The attempt was given up, or has come to its end; there may be nobody left to be told.
  if (update.epoch || !update.headers.empty()) plan_ends_ = absl::InfiniteDuration();
  for (const v1::EntryHeader& header : update.headers) {
    durable_ = header.version();
    // What was announced before comes from the peers' logs: it was voted for once.
    if (header.version() > announced_) CheckQuorum(header);
  }
  for (size_t i = 0; i < std::min(update.headers.size(), update.rounds.size()); ++i) {
    const std::string wrong = privacy_.OnRecord(update.headers[i], update.rounds[i]);
    if (!wrong.empty()) Violate(19, wrong);
  }
  for (const v1::RoundRecord& round : update.rounds) {
    if (round.exchange_seconds() >= 0) continue;
    Violate(7,
            absl::StrCat("the exchange of version ", round.version(), " is said to have taken ",
                         round.exchange_seconds(), " s: bounds go by a clock that only goes on"));
  }
  for (const v1::EvaluationRecord& evaluation : update.evaluations) {
    // Every state of these runs has a loss.
    if (std::isfinite(evaluation.loss())) continue;
    Violate(15,
            absl::StrCat("the loss of version ", evaluation.version(), " is said to be no number"));
  }
  for (const MemberRecord& member : update.members) {
    CheckRemoval(member);
    peers_[member.peer].state = member.state;
  }
}

void Invariants::CheckQuorum(const v1::EntryHeader& header) {
  size_t most = 0;
  for (const auto& [plan, by_digest] : ballots_[header.version()]) {
    const auto equal = by_digest.find(header.payload_digest());
    if (equal == by_digest.end()) continue;
    const auto counts = [this](const auto& voter) { return terms_.aggregators.count(voter) == 0; };
    most = std::max(most, static_cast<size_t>(
                              std::count_if(equal->second.begin(), equal->second.end(), counts)));
  }
  CheckThin(header);
  if (most < terms_.quorum) {
    Violate(7, absl::StrCat("version ", header.version(), " was committed with ", most,
                            " equal votes, and the quorum is ", terms_.quorum));
  }
  ballots_.erase(ballots_.begin(), ballots_.upper_bound(header.version()));
}

// Votes are not enough: what is averaged must also come from a quorum.
void Invariants::CheckThin(const v1::EntryHeader& header) {
  for (const v1::ShardRecord& shard : header.records().shards()) {
    ForEachRun(header.records(), shard,
               [&](uint32_t first, uint32_t chunks, const v1::ContributorSet& set) {
                 const size_t counted = CountBits(set.contributors());
                 for (uint32_t chunk = first; chunk < first + chunks; ++chunk) {
                   const size_t least = LeastCounted(header.version(), experts_.PartOf(chunk));
                   if (counted >= least) continue;
                   Violate(7, absl::StrCat("version ", header.version(), " counts ", counted,
                                           " contributors in chunk ", chunk, " of ",
                                           shard.reducer(), ", and it takes ", least,
                                           " where the quorum is ", terms_.quorum));
                 }
               });
  }
}

// Returns how many contributors the mean of a chunk of this part must count. It is a quorum or, if
// fewer own the part's expert, all of its owners that the plan has and that nothing was done to.
size_t Invariants::LeastCounted(uint64_t version, size_t part) const {
  if (part == 0) return terms_.quorum;
  if (newest_plan_.version() != version) return 0;
  size_t owners = 0;
  for (const v1::PlanMember& member : newest_plan_.contributors()) {
    const bool lost = std::find(newest_plan_.lost().begin(), newest_plan_.lost().end(),
                                member.peer()) != newest_plan_.lost().end();
    const bool well = !lost && !Hostile(member.peer()) &&
                      DisturbedUntil(member.peer()) < exchange_began_ &&
                      refused_.count({version, member.peer()}) == 0;
    owners += well && ExpertLaw::Covers(member.owned(), part) ? 1 : 0;
  }
  return std::min<size_t>(terms_.quorum, owners);
}

// A peer that was told an older roster and all changes since then must know the same.
void Invariants::OnRoster(const v1::Roster& roster) {
  if (roster_ && roster_->number() == roster.number() &&
      roster_->SerializeAsString() != roster.SerializeAsString()) {
    Violate(8, absl::StrCat("the roster under number ", roster.number(), " is ",
                            roster.ShortDebugString(), ", by its changes it is ",
                            roster_->ShortDebugString()));
  }
  roster_ = roster;
  CheckAddresses(roster);
}

void Invariants::OnRosterDelta(const v1::RosterDelta& delta) {
  if (!roster_ || delta.number() <= roster_->number()) return;
  const absl::Status follows = Follow(delta, &*roster_);
  if (!follows.ok()) return Violate(8, std::string(follows.message()));
  CheckAddresses(*roster_);
}

// Others can dial only one of two peers at one address.
void Invariants::CheckAddresses(const v1::Roster& roster) {
  std::map<std::string, std::string> holders;
  for (const v1::Member& member : roster.members()) {
    const bool here =
        member.state() == "live" || member.state() == "joining" || member.state() == "suspect";
    if (!here || member.address().empty()) continue;
    const auto [holder, first] = holders.emplace(member.address(), member.peer());
    if (first) continue;
    Violate(8, absl::StrCat(holder->second, " and ", member.peer(), " are both to be dialled at ",
                            member.address()));
  }
}

void Invariants::CheckRemoval(const MemberRecord& member) {
  if (member.state != "dead" || !peers_[member.peer].alive) return;
  const absl::Duration now = terms_.now();
  if (now <= DisturbedUntil(member.peer) || now <= DisturbedUntil(kCoordinator)) return;
  Violate(8, absl::StrCat(member.peer, " was declared dead and nothing was done to it"));
}

// -----------------------------------------------------------------------------------------------

void Invariants::Check() {
  const absl::Duration now = terms_.now();
  if (!coordinator_alive_ || sealed_) return;
  const auto disturbed = disturbed_.find(kCoordinator);
  const absl::Duration awake =
      disturbed == disturbed_.end() ? absl::ZeroDuration() : disturbed->second;
  const absl::Duration tick = terms_.failure_timeout / 4;
  // An audit that was slept over asks others once it is awake.
  if (now > std::max(plan_ends_, awake + audit_lasts_) + tick + kSlack) {
    Violate(7, absl::StrCat("revision ", plan_.second, " of the plan under epoch ", plan_.first,
                            " has passed its deadline, and nothing came of it"));
  }
  const absl::Duration bound = 2 * terms_.failure_timeout + kSuspectAtMost + tick + kSlack;
  for (const auto& [name, peer] : peers_) {
    if (peer.alive || peer.state.empty() || peer.state == "dead" || peer.state == "left" ||
        peer.state == "evicted") {
      continue;
    }
    if (now > std::max(peer.died, awake) + bound) {
      Violate(8, absl::StrCat(name, " died at ", absl::FormatDuration(peer.died),
                              " and is still a member"));
    }
  }
}

namespace {}  // namespace

bool Invariants::HostileReduces(const v1::Plan& plan) const {
  return std::any_of(plan.shards().begin(), plan.shards().end(),
                     [this](const v1::Shard& shard) { return Hostile(shard.reducer()); });
}

// If everything is audited, other peers can audit and average again, and nothing else goes wrong,
// then no lie is committed. Behind relays it cannot be told whose lie it was.
void Invariants::CheckLie(const v1::EntryHeader& header) {
  const v1::Plan& plan = newest_plan_;
  if (terms_.audit_share < 1 || plan.version() != header.version() || !plan.lost().empty()) return;
  // Whoever has come to an exchange answers in it: it matters only what was done not long ago.
  const auto disturbed = [this](const std::string& name) {
    const auto found = disturbed_.find(name);
    return found != disturbed_.end() &&
           found->second + 2 * terms_.failure_timeout >= exchange_began_;
  };
  if (disturbed(kCoordinator)) return;
  bool others = false;
  for (const v1::PlanMember& member : plan.contributors()) {
    if (disturbed(member.peer())) return;
    others = others || (!Hostile(member.peer()) && !member.address().empty());
  }
  const bool relayed = std::any_of(plan.shards().begin(), plan.shards().end(),
                                   [](const v1::Shard& shard) { return shard.relays_size() > 0; });
  if (relayed || !others) return;
  Violate(15, absl::StrCat("version ", header.version(),
                           " is a reducer's lie, though all of it was to be audited"));
}

}  // namespace atolld
