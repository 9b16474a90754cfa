#include "daemon/peer/coordinator_link.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/header.h"
#include "membership/history/run_mode.h"

namespace atolld {
namespace {

// The limits of [membership] failure_timeout in a config.
constexpr absl::Duration kShortestTimeout = absl::Milliseconds(100);
constexpr absl::Duration kLongestTimeout = absl::Hours(1);

// Far more than any model needs on any usable line.
constexpr absl::Duration kLongestExchange = absl::Hours(24 * 30);

// The limit of [inner] steps in a config, and of the steps that a pace may make of them.
constexpr uint32_t kMostSteps = 1000000;

absl::Status CheckSameRun(const HeldHistory& held, const v1::RunSpec& spec) {
  for (const v1::RunSpec* const known :
       {held.spec, held.genesis == nullptr ? nullptr : &held.genesis->spec()}) {
    if (known == nullptr) continue;
    if (spec.run_id() != known->run_id()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "it leads run ", spec.run_id(), ", this peer takes part in ", known->run_id()));
    }
    if (spec.history_key() != known->history_key()) {
      return absl::FailedPreconditionError(absl::StrCat("it names another history key for run ",
                                                        spec.run_id(),
                                                        " than the one that this peer knows"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNewest(const HeldHistory& held, const v1::Welcome& welcome) {
  const v1::EntryHeader& header = welcome.header();
  if (header.version() != welcome.version() || !welcome.has_genesis()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it says version ", welcome.version(),
                     " and does not give that version's header and the run's version 0"));
  }
  RETURN_IF_ERROR(CheckHeaderAlone(welcome.genesis(), header));
  if (held.genesis == nullptr || header.version() != held.version) return absl::OkStatus();
  const Digest told = HeaderDigest(header);
  if (told == held.header_digest || Planted(PlantedBug::kHeaderChainNotChecked))
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the history is forked: its version ",
                                                    held.version, " has header ", ToHex(told),
                                                    ", here it is ", ToHex(held.header_digest)));
}

bool IsRunsGenesis(const v1::Welcome& welcome) {
  return welcome.genesis().spec().history_key().empty() ||
         CheckGenesisSigned(welcome.genesis(), welcome.genesis_proof());
}

absl::Status CheckTrain(const v1::RunSpec& spec, const v1::Train& train) {
  if (train.version() == 0 || train.version() > spec.rounds()) {
    return absl::InvalidArgumentError(absl::StrCat("it asks to train for version ", train.version(),
                                                   " of a run of ", spec.rounds()));
  }
  const std::string context = absl::StrCat("round ", train.version(), ": it ");
  if (train.ahead() && !TrainsAhead(spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat(context, "asks to train ahead, which the run's mode does not"));
  }
  if (train.steps() == 0 || train.steps() > kMostSteps) {
    return absl::InvalidArgumentError(absl::StrCat(context, "asks for ", train.steps(), " steps"));
  }
  if (spec.data().private_()) {
    if (train.samples().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(context, "gives samples, and the run's data is private"));
  }
  const uint64_t needed = uint64_t{train.steps()} * spec.inner().batch();
  const auto unfit = [&](absl::string_view most, uint64_t samples) {
    return absl::InvalidArgumentError(absl::StrCat(context, "gives ", most, samples,
                                                   " samples for ", train.steps(), " steps of ",
                                                   spec.inner().batch()));
  };
  uint64_t samples = 0;
  for (const v1::SampleRange& range : train.samples()) {
    if (range.count() > std::numeric_limits<uint64_t>::max() - range.first()) {
      return absl::InvalidArgumentError(
          absl::StrCat(context, "gives samples beyond the last sample"));
    }
    if (range.count() > needed - samples) return unfit("more than ", needed);
    samples += range.count();
  }
  return samples == needed ? absl::OkStatus() : unfit("", samples);
}

absl::Status CheckEvaluate(const v1::RunSpec& spec, const v1::Evaluate& evaluate) {
  if (evaluate.version() > spec.rounds()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it asks to evaluate version ", evaluate.version(), " of a run of ", spec.rounds()));
  }
  const bool own = evaluate.own() && spec.data().private_();
  if (own && evaluate.share() == 0 && evaluate.shares() == 0) return absl::OkStatus();
  if (!evaluate.own() && evaluate.share() < evaluate.shares()) return absl::OkStatus();
  if (evaluate.own()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it asks for this peer's own loss of version ", evaluate.version(),
                     own ? " and for a share at once" : ", and the run's data is not private"));
  }
  return absl::InvalidArgumentError(absl::StrCat("it asks to evaluate share ", evaluate.share(),
                                                 " of ", evaluate.shares(), " of version ",
                                                 evaluate.version()));
}

absl::Status CheckAudit(const v1::Audit& audit) {
  const absl::Duration deadline =
      absl::Milliseconds(static_cast<double>(audit.deadline_milliseconds()));
  if (deadline > absl::ZeroDuration() && deadline <= kLongestExchange) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("round ", audit.version(), ": it gives the audit ",
                                                 absl::FormatDuration(deadline)));
}

// membership.proto: 256 headers, and a message of at most 1 MiB.
constexpr int kMostHeadersAtOnce = 256;
constexpr size_t kMostBytes = size_t{1000} << 10;

// The bytes of one header's tag and length in the message.
constexpr size_t kOverheadBytes = 16;

// Fails with NOT_FOUND if the header is neither in the log nor in a snapshot.
absl::StatusOr<v1::EntryHeader> ReadHeader(Files& files, const std::string& dir,
                                           const LogReader& log, uint64_t version) {
  absl::StatusOr<v1::EntryHeader> logged = log.ReadHeader(version);
  if (!absl::IsNotFound(logged.status())) return logged;
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> snapshot,
                   SnapshotReader::Open(files, SnapshotPath(dir, version)));
  return snapshot->info().header();
}

// Returns `first`, or the oldest later version from which on this peer has all headers.
absl::StatusOr<uint64_t> FirstHeld(Files& files, const std::string& dir, const LogReader& log,
                                   uint64_t first, uint64_t last) {
  const uint64_t logged = log.empty() ? last : log.first_version();
  for (const uint64_t oldest : {first, logged - 1, logged}) {
    if (oldest < first || oldest == 0) continue;
    const absl::Status held = ReadHeader(files, dir, log, oldest).status();
    if (held.ok()) return oldest;
    if (!absl::IsNotFound(held)) return held;
  }
  return first;
}

// With these pauses, a coordinator that is starting is met soon, and one that is away for a day is
// neither dialled too often nor forgotten by the log.
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
// The pause between dialling one of several coordinators and the next, and the number of rounds
// through all of them before the pauses become longer. This takes some six seconds, in which one of
// them can take over.
constexpr absl::Duration kNextPause = absl::Milliseconds(10);
constexpr int kSteadyRounds = 30;
constexpr int kDialsBetweenLines = 12;  // a minute, at the longest pause

// A Session that has lasted for this time, which is longer than any pause, is sound, even if the
// previous one was not.
constexpr absl::Duration kSound = absl::Seconds(10);

// The least time between two beats, however close the end of the coordinator's time is.
constexpr absl::Duration kShortestBeat = absl::Milliseconds(10);

// While the known coordinator is silent, others are asked at this interval whether they lead. A
// dialled coordinator has the same time to answer before the others are asked as well.
constexpr absl::Duration kLook = absl::Milliseconds(100);

constexpr char kSessionMethod[] = "/atolld.v1.Membership/Session";

bool IsFinal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
}

}  // namespace

absl::Status CheckWelcome(const HeldHistory& held, const v1::Welcome& welcome) {
  RETURN_IF_ERROR(CheckSameRun(held, welcome.spec()));
  if (welcome.epoch() < held.epoch) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is in epoch ", welcome.epoch(), ", and epoch ", held.epoch, " was there already"));
  }
  const absl::Duration timeout =
      absl::Milliseconds(static_cast<double>(welcome.failure_timeout_milliseconds()));
  if (welcome.failure_timeout_milliseconds() != 0 &&
      (timeout < kShortestTimeout || timeout > kLongestTimeout)) {
    return absl::InvalidArgumentError(absl::StrCat("its failure_timeout is ",
                                                   absl::FormatDuration(timeout),
                                                   ", which is not between 100ms and 1h"));
  }
  if (welcome.version() > welcome.spec().rounds()) {
    return absl::InvalidArgumentError(absl::StrCat("it says version ", welcome.version(),
                                                   " of a run of ", welcome.spec().rounds()));
  }
  if (welcome.has_genesis()) {
    RETURN_IF_ERROR(Annotate(CheckGenesis(welcome.genesis()), "its version 0"));
    HeldHistory said = held;
    said.spec = &welcome.spec();
    RETURN_IF_ERROR(CheckSameRun(said, welcome.genesis().spec()));
    const bool other =
        held.genesis != nullptr && GenesisDigest(*held.genesis) != GenesisDigest(welcome.genesis());
    // Before the first entry another version 0 may have become the run's; the holder of the history
    // key decides.
    if (other && !(held.version == 0 && IsRunsGenesis(welcome))) {
      return absl::FailedPreconditionError(absl::StrCat(
          "its run ", welcome.spec().run_id(), " has another version 0 than the one that is here"));
    }
  }
  if (welcome.version() > 0) RETURN_IF_ERROR(CheckNewest(held, welcome));
  if (welcome.has_seal()) return CheckSealTold(welcome.genesis(), welcome.seal());
  return absl::OkStatus();
}

absl::Status CheckSealTold(const v1::Genesis& genesis, const v1::Seal& seal) {
  const v1::RunSpec& spec = genesis.spec();
  if (seal.run_id() != spec.run_id()) {
    return absl::FailedPreconditionError(absl::StrCat("its seal is of run ", seal.run_id()));
  }
  if (seal.version() > spec.rounds()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its seal is of version ", seal.version(), " of a run of ", spec.rounds()));
  }
  return CheckSigned(spec, seal);
}

absl::Status CheckPlanTold(const v1::RunSpec& spec, uint64_t epoch, const v1::Roster& roster,
                           const v1::Plan& plan) {
  const std::string context = absl::StrCat("round ", plan.version(), ": its plan ");
  if (plan.version() == 0 || plan.version() > spec.rounds()) {
    return absl::InvalidArgumentError(
        absl::StrCat(context, "is for no round of a run of ", spec.rounds()));
  }
  if (plan.epoch() != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat(context, "is of epoch ", plan.epoch(), ", this is epoch ", epoch));
  }
  const absl::Duration deadline =
      absl::Milliseconds(static_cast<double>(plan.deadline_milliseconds()));
  if (deadline <= absl::ZeroDuration() || deadline > kLongestExchange) {
    return absl::InvalidArgumentError(
        absl::StrCat(context, "gives the exchange ", absl::FormatDuration(deadline)));
  }
  std::set<absl::string_view> known;
  for (const v1::Member& member : roster.members()) known.insert(member.peer());
  const std::set<absl::string_view> lost(plan.lost().begin(), plan.lost().end());
  for (const v1::PlanMember& member : plan.contributors()) {
    if (known.count(member.peer()) != 0 || lost.count(member.peer()) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(context, "names contributor ", member.peer(), ", which is not on the roster"));
  }
  for (const v1::Shard& shard : plan.shards()) {
    if (shard.chunks() == 0 || known.count(shard.reducer()) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(context, "names reducer ", shard.reducer(), ", which is not on the roster"));
  }
  return absl::OkStatus();
}

absl::Status CheckOrderTold(const v1::RunSpec& spec, const v1::CoordinatorMessage& message) {
  if (message.has_train()) return CheckTrain(spec, message.train());
  if (message.has_evaluate()) return CheckEvaluate(spec, message.evaluate());
  if (message.has_audit()) return CheckAudit(message.audit());
  return absl::OkStatus();
}

absl::Status ReadHeaders(Files& files, const std::string& dir, uint64_t first, uint64_t last,
                         v1::Headers* headers) {
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
  v1::Headers read;
  size_t bytes = headers->ByteSizeLong();
  ASSIGN_OR_RETURN(const uint64_t begin, FirstHeld(files, dir, log, first, last));
  for (uint64_t version = begin; version <= last && read.headers_size() < kMostHeadersAtOnce;
       ++version) {
    absl::StatusOr<v1::EntryHeader> header = ReadHeader(files, dir, log, version);
    if (absl::IsNotFound(header.status())) break;
    RETURN_IF_ERROR(header.status());
    bytes += header->ByteSizeLong() + kOverheadBytes;
    if (bytes > kMostBytes) break;
    *read.add_headers() = *std::move(header);
  }
  *headers->mutable_headers() = std::move(*read.mutable_headers());
  return absl::OkStatus();
}

CoordinatorLink::CoordinatorLink(Env env, std::vector<std::string> addresses,
                                 absl::Duration failure_timeout, Events events)
    : env_(env),
      addresses_(std::move(addresses)),
      events_(std::move(events)),
      failure_timeout_(failure_timeout) {}

CoordinatorLink::~CoordinatorLink() = default;

void CoordinatorLink::Start() {
  Dial();
  Beat();
}

void CoordinatorLink::Dial() {
  if (leaving_ || resting_) return;
  call_ = env_.transport.Dial(address(), kSessionMethod, absl::InfiniteDuration());
  Greet(*call_);
  last_heard_ = env_.executor.Now();
}

void CoordinatorLink::Greet(Call& call) {
  Call::Events events;
  events.on_frame = guard_.Wrap([this, id = &call](Frame frame) {
    if (id == other_.get()) TakeOther();
    OnFrame(frame);
  });
  events.on_closed = guard_.Wrap([this, id = &call](absl::Status status) {
    if (id != other_.get()) return OnClosed(status);
    other_.reset();  // it does not lead
  });
  call.Start(std::move(events));
  v1::PeerMessage message;
  *message.mutable_hello() = events_.hello();
  message.mutable_hello()->set_session(++greetings_);
  call.Write(Pack(message));
  call.Read();
}

absl::Duration CoordinatorLink::Silence() const { return env_.executor.Now() - last_heard_; }

bool CoordinatorLink::Doubts() const {
  if (addresses_.size() == 1 || call_ == nullptr || leaving_ || refusing_ || resting_) return false;
  // A process that hangs still accepts calls, through its kernel, but does not answer them.
  return Silence() >= (welcomed_ ? failure_timeout_ / 2 : kLook);
}

void CoordinatorLink::LookForAnother() {
  if (other_ != nullptr && env_.executor.Now() < other_since_ + failure_timeout_ / 4) return;
  other_.reset();
  looked_at_ = (looked_at_ + 1) % addresses_.size();
  if (looked_at_ == dialled_) looked_at_ = (looked_at_ + 1) % addresses_.size();
  other_since_ = env_.executor.Now();
  other_ = env_.transport.Dial(addresses_[looked_at_], kSessionMethod, absl::InfiniteDuration());
  Greet(*other_);
}

void CoordinatorLink::TakeOther() {
  const std::string silent =
      absl::StrCat(address(), " (nothing heard for ", absl::FormatDuration(Silence()),
                   "): ", addresses_[looked_at_], " leads by now");
  call_ = std::move(other_);
  dialled_ = looked_at_;
  undialled_why_.clear();
  if (!std::exchange(welcomed_, false)) {
    return env_.log.Info(absl::StrCat("no answer of the coordinator at ", silent));
  }
  env_.log.Warning(absl::StrCat("lost the coordinator at ", silent, ". ", events_.waits_for()));
  events_.on_down();
}

void CoordinatorLink::OnFrame(const Frame& frame) {
  if (refusing_ || resting_) return call_->Read();
  last_heard_ = env_.executor.Now();
  other_.reset();
  v1::CoordinatorMessage message;
  const absl::Status parsed = Unpack(frame, &message);
  if (!parsed.ok()) {
    env_.log.Error(absl::StrCat("coordinator ", address(), ": ", parsed.message()));
    OnClosed(absl::UnavailableError("the coordinator sent something that is not a message"));
    return;
  }
  welcomed_ = welcomed_ || message.has_welcome();
  if (message.has_heartbeat()) {
    call_->Read();
    return NoteWaiting(message.heartbeat().waiting_for());
  }
  const absl::Status taken = events_.on_message(message);
  if (!taken.ok()) return Refuse(taken);
  if (message.has_welcome()) {
    welcomed_at_ = last_heard_;
    if (!refused_) failed_dials_ = 0;
    if (message.welcome().failure_timeout_milliseconds() > 0) {
      failure_timeout_ = absl::Milliseconds(
          static_cast<int64_t>(message.welcome().failure_timeout_milliseconds()));
    }
    introduced_ = true;
    if (rests_behind_) Rest(*std::exchange(rests_behind_, std::nullopt));
  }
  if (call_ != nullptr) call_->Read();
}

// Logs each change once, so that the log of this machine shows why it is idle.
void CoordinatorLink::NoteWaiting(const std::string& waiting_for) {
  if (waiting_for == waiting_for_) return;
  waiting_for_ = waiting_for;
  env_.log.Info(waiting_for.empty() ? "the run goes on"
                                    : absl::StrCat("the run waits: ", waiting_for));
}

void CoordinatorLink::OnClosed(const absl::Status& status) {
  const bool was_up = std::exchange(welcomed_, false);
  const bool refused = std::exchange(refusing_, false);
  call_.reset();
  other_.reset();
  if (leaving_) {
    if (left_) std::exchange(left_, nullptr)();
    return;
  }
  if (resting_) {
    if (was_up) events_.on_down();
    return;
  }
  if (IsFinal(status) && !refused) {
    events_.on_refused(status);
    return;
  }
  if (refused) {
    // Refuse has logged the reason.
  } else if (was_up) {
    undialled_why_.clear();
    env_.log.Warning(absl::StrCat("lost the coordinator at ", address(), " (", status.message(),
                                  "); dialling again. ", events_.waits_for()));
  } else if (status.message() != undialled_why_ || failed_dials_ % kDialsBetweenLines == 0) {
    undialled_why_ = std::string(status.message());
    env_.log.Info(absl::StrCat("no coordinator at ", address(), " yet; dialling again (",
                               status.message(), "). ", events_.waits_for()));
  }
  ScheduleRedial();
  if (was_up) events_.on_down();
}

void CoordinatorLink::ScheduleRedial() {
  dialled_ = (dialled_ + 1) % addresses_.size();
  const int others = static_cast<int>(addresses_.size()) - 1;
  const int rounds = failed_dials_++ / (others + 1);
  // If another coordinator must take over, the pauses do not grow for a while.
  const int doublings = std::clamp(rounds - (others > 0 ? kSteadyRounds : 0), 0, 10);
  absl::Duration pause = std::min(kFirstPause * (int64_t{1} << doublings), kLongestPause);
  if (failed_dials_ % (others + 1) != 0) pause = kNextPause;  // the next one may already lead
  env_.executor.RunAfter(pause, guard_.Wrap([this] {
    if (call_ == nullptr) Dial();
  }));
}

void CoordinatorLink::Beat() {
  if (leaving_) return;
  if (call_ != nullptr && Silence() >= failure_timeout_) {
    OnClosed(absl::DeadlineExceededError(
        absl::StrCat(welcomed_ ? "nothing heard for " : "timed out: no answer in ",
                     absl::FormatDuration(failure_timeout_))));
  }
  if (Doubts()) LookForAnother();
  SendProgress();
  if (welcomed_ && refused_ && !refusing_ && env_.executor.Now() >= welcomed_at_ + kSound) {
    refused_ = false;
    failed_dials_ = 0;
  }
  // Four beats fit into the time-out, so one lost or late beat does not make the peer count as
  // dead. At most a second passes between beats, so that the view is up to date. The last wait ends
  // when a silent coordinator's time is over, not up to a beat later.
  absl::Duration next = std::min(failure_timeout_ / 4, absl::Seconds(1));
  if (call_ != nullptr) {
    const absl::Duration left = failure_timeout_ - Silence();
    next = std::min(next, std::max(left, kShortestBeat));
    if (Doubts() || (addresses_.size() > 1 && !welcomed_)) next = std::min(next, kLook);
  }
  env_.executor.RunAfter(next, guard_.Wrap([this] { Beat(); }));
}

void CoordinatorLink::SendProgress() {
  v1::PeerMessage message;
  *message.mutable_heartbeat()->mutable_progress() = events_.progress();
  Send(message);
}

void CoordinatorLink::Send(const v1::PeerMessage& message) {
  // After the goodbye nothing more may be written, because the call is half-closed.
  const bool ending = leaving_ || refusing_ || resting_;
  if (call_ != nullptr && welcomed_ && !ending) call_->Write(Pack(message));
}

void CoordinatorLink::Redial(const std::string& why) {
  const bool ending = leaving_ || refusing_ || resting_;
  if (call_ != nullptr && !ending) OnClosed(absl::UnavailableError(why));
}

void CoordinatorLink::Refuse(const absl::Status& why) {
  if (call_ == nullptr || leaving_ || refusing_ || resting_) return;
  refused_ = true;
  const std::string reason(why.message());
  if (reason != refused_why_ || failed_dials_ % kDialsBetweenLines == 0) {
    env_.log.Error(absl::StrCat("the coordinator at ", address(), " is not believed: ", reason,
                                ". Nothing here has changed; dialling again"));
  }
  refused_why_ = reason;
  v1::PeerMessage message;
  message.mutable_leaving()->set_reason(
      absl::StrCat("it does not believe the coordinator: ", reason));
  Send(message);
  refusing_ = true;
  call_->Finish(absl::OkStatus());
  // The coordinator closes the call of a peer that has said goodbye. If it does not, the call is
  // dropped.
  env_.executor.RunAfter(std::min(failure_timeout_, absl::Seconds(1)),
                         guard_.Wrap([this, call = call_.get()] {
                           if (refusing_ && call_.get() == call) OnClosed(absl::OkStatus());
                         }));
}

void CoordinatorLink::SayGoodbye(const std::string& reason) {
  other_.reset();
  SendProgress();  // the last report of what this peer has sent and done
  v1::PeerMessage message;
  message.mutable_leaving()->set_reason(reason);
  Send(message);
  call_->Finish(absl::OkStatus());
}

void CoordinatorLink::Rest(const std::string& reason) {
  if (leaving_ || resting_) return;
  if (!introduced_) {
    rests_behind_ = reason;
    return;
  }
  waiting_for_.clear();
  if (call_ == nullptr || !welcomed_ || refusing_) {
    resting_ = true;
    if (call_ != nullptr) OnClosed(absl::OkStatus());
    return;
  }
  SayGoodbye(reason);
  resting_ = true;
  env_.executor.RunAfter(std::min(failure_timeout_, absl::Seconds(1)),
                         guard_.Wrap([this, call = call_.get()] {
                           if (resting_ && call_.get() == call) OnClosed(absl::OkStatus());
                         }));
}

void CoordinatorLink::Return() {
  rests_behind_.reset();
  if (leaving_ || !resting_) return;
  if (call_ != nullptr) OnClosed(absl::OkStatus());
  resting_ = false;
  failed_dials_ = 0;
  Dial();
}

void CoordinatorLink::Leave(const std::string& reason, Task done) {
  if (call_ == nullptr || !welcomed_ || refusing_ || resting_) {
    leaving_ = true;
    env_.executor.Post(std::move(done));
    return;
  }
  SayGoodbye(reason);
  leaving_ = true;
  left_ = std::move(done);
  env_.executor.RunAfter(std::min(failure_timeout_, absl::Seconds(1)), guard_.Wrap([this] {
    if (left_) std::exchange(left_, nullptr)();
  }));
}

}  // namespace atolld
