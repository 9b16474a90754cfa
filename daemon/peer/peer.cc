#include "daemon/peer/peer.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/config/data_config.h"
#include "daemon/config/store_rules.h"
#include "daemon/peer/hosted_terms.h"
#include "daemon/peer/peer_credentials.h"
#include "daemon/replica/state/branch_file.h"
#include "membership/history/header.h"
#include "membership/history/run_codecs.h"
#include "membership/history/run_mode.h"
#include "membership/masking/masked_terms.h"
#include "membership/privacy/update_noise.h"
#include "membership/run/admission.h"
#include "membership/run/roster_news.h"
#include "membership/trust/contribution.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

// The usable part of a cap, after what the planner subtracts from any line for its packets'
// headers. A line that is busy in both directions also carries the acknowledgements of the other
// direction (66 bytes for two packets), and the Session beside the exchange.
constexpr double kUsableOfCap = 0.965;
constexpr size_t kLongestHeldBack = 128;  // of PeerProgress
constexpr size_t kLongestReasonTold = 1000;

RunFiles::Own OwnFilesOf(const Config& config) {
  RunFiles::Own own;
  if (config.peer.role == kAggregatorRoleName) return own;
  if (IsTokenizerFile(config.data.tokenizer)) own.tokenizer = config.data.tokenizer;
  own.program = config.model.file;
  own.validation = config.data.validation;
  own.prepared = PreparedVocabulary(config.data) > 0;
  return own;
}

}  // namespace

Peer::Peer(Env env, const Config& config, Worker& trainer, uint32_t pid,
           std::function<void(absl::Status)> on_finished)
    : dialler_(env.executor, env.transport),
      env_{env.executor, env.files, dialler_, env.log},
      config_(config),
      pid_(pid),
      instance_(env.executor.Random()),
      on_finished_(std::move(on_finished)),
      parties_(MakeParties(trainer)),
      worker_watch_(env_, parties_ != nullptr ? *parties_ : trainer,
                    config.membership.failure_timeout),
      offered_(env_, [this] { UpdateDonors(); }),
      keeper_(Env{env.executor, env.files, offered_, env.log}, config.peer.dir,
              RetentionPolicy{config.peer.snapshot_every, config.peer.keep_snapshots,
                              config.peer.keep_bytes},
              KeeperEvents()),
      reach_(env_, config.peer.id,
             [this](const v1::PeerMessage& message) {
               link_.Send(message);
               UpdateDonors();
             }),
      runner_(env_, config.peer.id, config.peer.dir, keeper_, worker_watch_, RunnerEvents()),
      failure_timeout_(config.membership.failure_timeout),
      lives_(env_, config.peer.dir),
      link_(env_, CoordinatorAddresses(config), config.membership.failure_timeout, LinkEvents()),
      worker_link_(env_, worker_watch_, keeper_, runner_, WorkerEvents()),
      end_(env_, config.peer.id, keeper_, EndEvents()),
      files_(Env{env.executor, env.files, offered_, env.log}, config.peer.dir, OwnFilesOf(config),
             [this] { StartWorker(); }),
      gate_(env.executor, config.membership.failure_timeout,
            RosterGate::Limits{config.limits.calls_per_peer},
            [this](const std::string& method, std::unique_ptr<Call> call) {
              Accept(method, std::move(call));
            }),
      refusals_(env.executor),
      up_cap_(config.machine.up_cap),
      down_cap_(config.machine.down_cap) {
  keeper_.ShareMemory(trainer.memory(), ValueFolderOf(config.peer));
}

std::unique_ptr<VirtualParties> Peer::MakeParties(Worker& trainer) {
  const PartiesConfig& parties = config_.parties;
  if (parties.hosted == 0 || !trainer.trains()) return nullptr;
  VirtualParties::Hooks hooks;
  hooks.memory = [this] { return keeper_.memory(); };
  hooks.run = [this](Task work, Task done) {
    keeper_.RunExclusive(std::move(work), std::move(done));
  };
  auto made = std::make_unique<VirtualParties>(
      env_, trainer,
      VirtualParties::Settings{parties.hosted, parties.first, parties.a_round, parties.keep,
                               config_.peer.dir, config_.peer.id},
      std::move(hooks));
  made->SetClip(ClipUpdate);
  return made;
}

ReplicaKeeper::Events Peer::KeeperEvents() {
  ReplicaKeeper::Events events;
  events.on_skipped = [this](const v1::EntryHeader& header) { runner_.OnSkipped(header); };
  events.on_opened = [this] {
    worker_link_.OnOpened();
    SendSynced();
    runner_.OnOpened();
  };
  events.on_committed = [this](const v1::EntryHeader& header) {
    NoteCommitted(header);
    runner_.OnCommitted(header);
    SendSynced();
    link_.SendProgress();
  };
  events.on_digest = [this](uint64_t version, const Digest& state) { OnDigest(version, state); };
  events.on_donor_failed = [this](const std::string& address) { reach_.Ask({address}); };
  events.on_drift = [this](uint64_t version, const Digest& state, const Digest& expected) {
    SendStateReport(version, state, &expected);
  };
  events.on_dropped = [this] {
    worker_link_.OnDropped();
    runner_.OnDropped();
  };
  events.on_offer = [this] { SendSynced(); };
  events.on_broken = [this](absl::Status status) { Break(status); };
  events.on_refused = [this](absl::Status status) { link_.Refuse(status); };
  return events;
}

RoundRunner::Events Peer::RunnerEvents() {
  RoundRunner::Events events;
  events.send = [this](const v1::PeerMessage& message) { link_.Send(message); };
  events.on_idle = [this] { Finish(absl::OkStatus(), "drained"); };
  events.on_busy = [this](bool busy) { OnBusy(busy); };
  events.on_woken = [this](const std::string& address, const absl::Status& status) {
    reach_.OnWoken(address, status);
  };
  events.on_silent = [this](const std::string& peer, const absl::Status& why) {
    reach_.OnSilent(peer, why);
  };
  events.on_given_up = [this](const std::set<std::string>& addresses) { reach_.Ask(addresses); };
  events.on_update_lost = [this] { link_.Redial("the update is gone"); };
  events.on_refused = [this](absl::Status status) { link_.Refuse(status); };
  events.sign = [this](v1::Ready* ready) {
    SignContribution(*signing_key_, spec_->run_id(), config_.peer.id, ready);
  };
  return events;
}

CoordinatorLink::Events Peer::LinkEvents() {
  CoordinatorLink::Events events;
  events.hello = [this] { return Hello(); };
  events.progress = [this] {
    runner_.Tick();
    return progress();
  };
  events.on_message = [this](const v1::CoordinatorMessage& message) { return OnMessage(message); };
  events.on_down = [this] {
    end_.OnSessionDown();
    runner_.OnSessionDown();
  };
  events.on_refused = [this](absl::Status status) {
    Finish(Annotate(status, "the coordinator refuses this peer"), "");
  };
  events.waits_for = [this] { return WaitsFor(); };
  return events;
}

WorkerLink::Events Peer::WorkerEvents() {
  WorkerLink::Events events;
  events.send = [this](const v1::PeerMessage& message) { link_.Send(message); };
  events.on_broken = [this](absl::Status status) { Break(status); };
  events.list_files = [this](v1::RunSpec* spec) { files_.List(spec); };
  return events;
}

RunEnd::Events Peer::EndEvents() {
  RunEnd::Events events;
  events.coordinator_up = [this] { return link_.up(); };
  events.finish = [this](const absl::Status& status, const std::string& farewell) {
    Finish(status, farewell);
  };
  return events;
}

Peer::~Peer() = default;

absl::Status Peer::Start() {
  runner_.SetLanes(static_cast<uint32_t>(config_.network.lanes));
  RETURN_IF_ERROR(env_.files.MakeDirectories(config_.peer.dir));
  ASSIGN_OR_RETURN(signing_key_, OwnSigningKey(env_, config_.peer.dir));
  RETURN_IF_ERROR(runner_.LoadMaskKeys(&*signing_key_));
  RETURN_IF_ERROR(keeper_.Load());
  files_.Load();
  RETURN_IF_ERROR(lives_.Begin());
  if (keeper_.has_state()) {
    const std::string& run_id = keeper_.genesis().spec().run_id();
    env_.log.Info(absl::StrCat("replica of run ", run_id, " at version ", keeper_.version(),
                               " found in ", config_.peer.dir));
    StartDonor(run_id);
    runner_.LoadResidual();
  }
  RETURN_IF_ERROR(FindBranch());
  if (config_.peer.advertise != kDialsOutOnly) RETURN_IF_ERROR(Listen());
  env_.log.Info(absl::StrCat("peer ", config_.peer.id,
                             listener_ == nullptr ? std::string(" dials out only")
                                                  : absl::StrCat(" listens on ", address()),
                             "; coordinator ",
                             absl::StrJoin(CoordinatorAddresses(config_), " or ")));
  link_.Start();
  return absl::OkStatus();
}

// Finds the file of a branch that has not begun, if the config names one. Without it, version 0
// comes from other peers.
absl::Status Peer::FindBranch() {
  const std::string& path = config_.run.branch;
  if (path.empty() || keeper_.has_state()) return absl::OkStatus();
  const absl::StatusOr<v1::SnapshotInfo> head = ReadBranchHead(env_.files, path);
  if (absl::IsNotFound(head.status())) {
    env_.log.Warning(
        absl::StrCat("[run] branch: ", path, " is not there; another peer's is needed"));
    return absl::OkStatus();
  }
  if (!head.ok()) return Annotate(head.status(), "[run] branch");
  worker_link_.SetBranch(path, *head);
  return absl::OkStatus();
}

absl::Status Peer::Listen() {
  absl::StatusOr<std::unique_ptr<Listener>> made = env_.transport.Listen(
      config_.peer.listen,
      guard_.Wrap([this](const std::string& method, std::unique_ptr<Call> call) {
        gate_.Accept(method, std::move(call));
      }));
  if (!made.ok()) return Annotate(made.status(), "[peer] listen");
  listener_ = *std::move(made);
  return absl::OkStatus();
}

void Peer::Accept(const std::string& method, std::unique_ptr<Call> call) {
  if (!may_exchange_ && !runner_.exchanging()) {
    return refusals_.Refuse(std::move(call), absl::UnavailableError(held_back_));
  }
  const bool follows = spec_.has_value();  // before the first Welcome there is no run and no
                                           // exchange
  if (follows && runner_.Accept(method, &call)) return;
  if ((method == kGiveEntriesMethod || method == kGiveSnapshotMethod) && follows) {
    return offered_.Accept(method, std::move(call));
  }
  if (absl::StartsWith(method, "/atolld.v1.Replica/") && donor_ != nullptr) {
    return donor_->Accept(method, std::move(call));
  }
  refusals_.Refuse(std::move(call),
                   method == kExchangeMethod
                       ? absl::UnavailableError("this peer follows no run yet")
                       : absl::UnimplementedError(absl::StrCat(method, " is not served here")));
}

std::string Peer::address() const { return listener_ == nullptr ? "" : listener_->address(); }

v1::PeerProgress Peer::progress() const {
  v1::PeerProgress progress = runner_.progress();
  const absl::Duration clock = env_.executor.WallTime() - absl::UnixEpoch();
  progress.set_clock_seconds(absl::ToDoubleSeconds(clock));
  progress.set_held_back(held_back_);
  if (complete_) complete_(&progress);
  return progress;
}

std::string Peer::run_id() const {
  if (spec_) return spec_->run_id();
  return keeper_.holds_state() ? keeper_.genesis().spec().run_id() : "";
}

v1::Hello Peer::Hello() const {
  v1::Hello hello;
  hello.set_peer(config_.peer.id);
  const bool dialled = listener_ != nullptr && !config_.peer.advertise.empty();
  hello.set_address(dialled ? config_.peer.advertise : address());  // empty if it only dials out
  hello.set_numerics(kNumerics);
  hello.set_pid(pid_);
  hello.set_instance(instance_);
  hello.set_life(lives_.life());
  hello.set_software(ATOLL_VERSION);
  hello.set_role(worker_watch_.trains() ? "peer" : kAggregatorRole);
  hello.set_region(config_.peer.region);
  const v1::LineCaps rates = Rates();
  hello.set_up_rate(rates.up_rate());
  hello.set_down_rate(rates.down_rate());
  hello.set_epoch(epoch_);
  hello.set_epoch_proof(epoch_proof_);
  hello.set_signing_key(signing_key_->public_key());
  if (keeper_.holds_state()) {
    hello.set_run_id(keeper_.genesis().spec().run_id());
    hello.set_has_state(true);
    hello.set_version(keeper_.version());
    hello.set_header_digest(ToBytes(keeper_.header_digest()));
    if (keeper_.header()) *hello.mutable_header() = *keeper_.header();
    if (keeper_.offer()) *hello.mutable_offer() = *keeper_.offer();
  }
  for (const v1::SampleRange& range : runner_.samples()) *hello.add_samples() = range;
  for (const v1::SampleRange& range : runner_.ahead_samples()) *hello.add_ahead_samples() = range;
  hello.set_offers(runner_.offers());
  if (spec_ && spec_->data().private_()) {
    hello.set_training(runner_.owes_update());
    hello.set_training_ahead(runner_.trains_ahead());
  }
  return hello;
}

// -----------------------------------------------------------------------------------------------
// Messages of the coordinator

absl::Status Peer::OnMessage(const v1::CoordinatorMessage& message) {
  if (finishing_) return absl::OkStatus();
  if (message.has_welcome()) return OnWelcome(message.welcome());
  if (message.has_other_life()) OnOtherLife(message.other_life());
  if (!spec_) return absl::OkStatus();  // the message is about an earlier process
  RETURN_IF_ERROR(CheckOrderTold(*spec_, message));
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kMakeInitialState:
      worker_link_.MakeInitialState();
      break;
    case v1::CoordinatorMessage::kRoster:
      OnRoster(message.roster());
      break;
    case v1::CoordinatorMessage::kRosterDelta:
      return OnRosterDelta(message.roster_delta());
    case v1::CoordinatorMessage::kTrain:
      runner_.OnTrain(message.train());
      break;
    case v1::CoordinatorMessage::kPlan:
      RETURN_IF_ERROR(CheckPlanTold(*spec_, epoch_, roster_, message.plan()));
      return runner_.OnPlan(message.plan());
    case v1::CoordinatorMessage::kCommit:
      told_version_ = std::max(told_version_, message.commit().header().version());
      keeper_.Announce(message.commit().header());
      break;
    case v1::CoordinatorMessage::kEvaluate:
      runner_.OnEvaluate(message.evaluate());
      break;
    case v1::CoordinatorMessage::kSealed:
      runner_.ForgetNextTrains();  // no version follows
      return end_.OnSealed(message.sealed().seal());
    case v1::CoordinatorMessage::kDrain:
      OnDrain(message.drain().reason());
      break;
    case v1::CoordinatorMessage::kSendHeaders:
      OnSendHeaders(message.send_headers());
      break;
    case v1::CoordinatorMessage::kCheckState:
      OnCheckState(message.check_state());
      break;
    case v1::CoordinatorMessage::kAudit:
      runner_.OnAudit(message.audit());
      break;
    case v1::CoordinatorMessage::kMask:
      runner_.OnMask(message.mask());
      break;
    case v1::CoordinatorMessage::kWelcome:
    case v1::CoordinatorMessage::kOtherLife:
    case v1::CoordinatorMessage::kHeartbeat:
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

// Takes a greater life. The Session ends after this, and the next Hello names the new life.
void Peer::OnOtherLife(const v1::OtherLife& other) {
  env_.log.Warning(OneLine(other.reason(), kLongestReasonTold));
  lives_.RaiseAbove(other.life());
}

absl::Status Peer::CheckRun(const v1::RunSpec& spec) const {
  if (spec.numerics() != kNumerics) {
    return absl::FailedPreconditionError(absl::StrCat("the run needs numerics ", spec.numerics(),
                                                      ", this release speaks ", kNumerics));
  }
  if (keeper_.has_state() && keeper_.genesis().spec().run_id() != spec.run_id()) {
    return absl::FailedPreconditionError(
        absl::StrCat(config_.peer.dir, " holds run '", keeper_.genesis().spec().run_id(),
                     "', the coordinator leads '", spec.run_id(), "'; choose another peer.dir"));
  }
  const bool trains = config_.peer.role != kAggregatorRoleName;
  if (trains) RETURN_IF_ERROR(CheckHosted(spec, config_.parties));
  RETURN_IF_ERROR(CodecsOf(spec.exchange()).status());
  RETURN_IF_ERROR(CheckMode(spec));
  RETURN_IF_ERROR(CheckMaskedSpec(spec));
  return FindOuterRule(spec.outer().rule()).status();
}

HeldHistory Peer::Held() const {
  HeldHistory held;
  if (spec_) held.spec = &*spec_;
  if (keeper_.holds_state()) held.genesis = &keeper_.genesis();
  held.version = keeper_.version();
  held.header_digest = keeper_.header_digest();
  held.epoch = epoch_;
  return held;
}

absl::Status Peer::OnWelcome(const v1::Welcome& welcome) {
  const absl::Status fits = spec_ ? absl::OkStatus() : CheckRun(welcome.spec());
  if (!fits.ok()) {  // the user has chosen the wrong coordinator or folder
    Break(fits);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckWelcome(Held(), welcome));
  if (!spec_) {
    env_.log.Info(absl::StrCat("run ", welcome.spec().run_id(), ", epoch ", welcome.epoch(),
                               ", newest version ", welcome.version()));
  }
  const bool first = !spec_;
  spec_ = welcome.spec();
  epoch_ = welcome.epoch();
  epoch_proof_ = welcome.epoch_proof();
  told_version_ = welcome.version();
  if (welcome.failure_timeout_milliseconds() > 0) {
    failure_timeout_ =
        absl::Milliseconds(static_cast<int64_t>(welcome.failure_timeout_milliseconds()));
  }
  worker_watch_.SetFailureTimeout(failure_timeout_);
  reach_.Follow(failure_timeout_, welcome.genesis().manifest().elements());
  reach_.Repeat();  // first, because the plans that follow depend on it
  runner_.Follow(welcome.spec(), welcome.epoch(), failure_timeout_);
  if (donor_ == nullptr) StartDonor(spec_->run_id());
  end_.Follow(welcome.header(), failure_timeout_);
  if (welcome.has_genesis()) {
    keeper_.Follow(welcome);
  } else {
    keeper_.FollowNone();
  }
  files_.Follow(welcome.has_genesis() ? welcome.genesis().spec() : *spec_, welcome.has_genesis());
  worker_link_.Follow(welcome.spec(), welcome.has_genesis());
  if (on_welcomed_) on_welcomed_();
  SendSynced();
  if (!first || worker_link_.held_back()) worker_link_.Repeat();
  if (welcome.has_seal()) return end_.OnSealed(welcome.seal());
  StartWorker();
  return absl::OkStatus();
}

// Starts the worker once all files that it reads beside its data have arrived.
void Peer::StartWorker() {
  if (worker_started_ || finishing_ || end_.sealed() || worker_link_.held_back()) return;
  const std::string waits_for = worker_watch_.trains() ? files_.WaitsFor() : "";
  if (!waits_for.empty()) return worker_link_.Hold(waits_for);
  worker_started_ = true;
  worker_watch_.SetPlaces(files_.places());
  worker_link_.Start();
}

// -----------------------------------------------------------------------------------------------
// The machine's owner

void Peer::Allow(bool train, bool exchange, const std::string& why) {
  if (finishing_) return;
  held_back_ = train ? "" : OneLine(why, kLongestHeldBack);
  if (train) {
    worker_link_.Allow();
    if (spec_) StartWorker();
  } else {
    worker_link_.HoldBack(held_back_);
  }
  exchange = exchange && (train || worker_watch_.trains());
  if (exchange == may_exchange_) return link_.SendProgress();
  may_exchange_ = exchange;
  if (may_exchange_) return Return();
  LeaveFor(env_.executor.Now() + failure_timeout_);
}

// Leaves after the exchange under way, because other peers rely on this one, but not later than
// `latest`.
void Peer::LeaveFor(absl::Time latest) {
  if (may_exchange_ || finishing_) return;
  if (runner_.exchanging() && env_.executor.Now() < latest) {
    env_.executor.RunAfter(failure_timeout_ / 20,
                           guard_.Wrap([this, latest] { LeaveFor(latest); }));
    return;
  }
  env_.log.Info(absl::StrCat("leaving the run for now: ", held_back_));
  link_.Rest(held_back_);
  keeper_.SetDonors({}, failure_timeout_);
  files_.SetDonors({}, failure_timeout_);
  if (giver_ != nullptr) giver_->SetTargets({});
}

void Peer::Return() {
  env_.log.Info("coming back to the run");
  link_.Return();  // the roster, which comes next, names the donors
}

void Peer::FinishRound(Task done) {
  round_finished_ = std::move(done);
  UpdateRest();
}

void Peer::SetThreads(uint32_t threads) {
  worker_watch_.SetThreads(threads);
  restart_worker_ = worker_started_ && !worker_link_.held_back();
  UpdateRest();
}

// Requests the rest after this round that FinishRound or a restart of the worker needs, if any.
// FinishRound has precedence, because a pause also restarts the worker.
void Peer::UpdateRest() {
  if (round_finished_) return runner_.Rest(round_finished_);
  if (restart_worker_) return runner_.Rest([this] { RestartWorker(); });
  runner_.Rest(nullptr);
}

void Peer::RestartWorker() {
  restart_worker_ = false;
  UpdateRest();
  if (worker_link_.held_back() || finishing_) return;
  worker_link_.HoldBack("its worker starts again with another number of threads");
  worker_link_.Allow();
}

void Peer::NoteCommitted(const v1::EntryHeader& header) {
  if (!on_contributed_) return;
  for (const v1::Contributor& one : header.contributors()) {
    if (one.peer() == config_.peer.id) on_contributed_(one.tokens());
  }
}

void Peer::Tell(v1::MachineStatus* status) const {
  status->set_peer(config_.peer.id);
  status->set_coordinator(link_.address());
  status->set_connected(link_.up());
  *status->mutable_progress() = progress();
  status->set_role(config_.peer.role);
  status->set_device(worker_link_.device());
  status->set_run_phase(link_.waiting_for());
  status->set_sealed(end_.sealed());
  if (spec_) {
    status->set_run_id(spec_->run_id());
    status->set_rounds_of_run(spec_->rounds());
  } else if (keeper_.holds_state()) {
    status->set_run_id(keeper_.genesis().spec().run_id());
  }
}

// -----------------------------------------------------------------------------------------------
// Other peers

void Peer::OnRoster(const v1::Roster& roster) {
  LogChanges(RosterChanges(roster_, roster, config_.peer.id));
  roster_ = roster;
  TakeCalls();
  TakeDonors();
}

absl::Status Peer::OnRosterDelta(const v1::RosterDelta& delta) {
  const v1::Roster before = MembersNamed(roster_, delta);
  RETURN_IF_ERROR(Follow(delta, &roster_));
  const v1::Roster after = MembersNamed(roster_, delta);
  LogChanges(RosterChanges(before, after, config_.peer.id));
  if (delta.keys_changed() || !delta.gone().empty() || CallsChange(before, after)) TakeCalls();
  TakeDonors();
  return absl::OkStatus();
}

void Peer::LogChanges(const std::vector<RosterChange>& changes) {
  for (const RosterChange& change : changes) {
    env_.log.Write(change.loss ? Log::Level::kWarning : Log::Level::kInfo, change.line);
  }
}

void Peer::TakeCalls() {
  const size_t cut_from = gate_.SetRoster(roster_);
  const size_t cut_to = dialler_.SetRoster(roster_);
  if (cut_from + cut_to > 0) {
    env_.log.Info(absl::StrCat("cut ", Counted(cut_from, "call"),
                               " from peers that were put out and ", cut_to, " to them"));
  }
}

void Peer::TakeDonors() {
  reach_.SetRoster(roster_);
  UpdateDonors();
  UpdateGiver();
  end_.OnRoster(roster_);
}

// Sets the donors that this peer may ask: those that it can dial, and those that have dialled this
// peer in order to be asked.
void Peer::UpdateDonors() {
  if (!may_exchange_) return;
  const std::set<std::string> offered = offered_.donors();
  std::vector<const v1::Member*> able;
  for (const v1::Member& member : roster_.members()) {
    const bool asked = !member.address().empty() || offered.count(member.peer()) > 0;
    if (IsHere(member) && asked && member.has_state() && member.peer() != config_.peer.id) {
      able.push_back(&member);
    }
  }
  const auto answers = [this](const v1::Member* member) {
    return !member->address().empty() && !member->unreachable() && !reach_.InDoubt(member->peer());
  };
  // The list begins with the member after this peer, so that joiners spread over the donors. Donors
  // that only dial out come last, because they have the slowest lines.
  std::stable_partition(able.begin(), able.end(), [this](const v1::Member* member) {
    return member->peer() > config_.peer.id;
  });
  std::stable_partition(able.begin(), able.end(), answers);
  std::vector<FetchDonor> donors;
  for (const v1::Member* member : able) {
    const bool dialled = answers(member) || offered.count(member->peer()) == 0;
    donors.push_back({dialled ? member->address() : OfferedAddress(member->peer()), std::nullopt});
    if (member->has_offer()) donors.back().offer = member->offer();
  }
  files_.SetDonors(AddressesOf(donors), failure_timeout_);
  keeper_.SetDonors(std::move(donors), failure_timeout_);
}

// Sets the peers that this one offers itself to. A peer cannot be dialled if its address belongs to
// another peer, or if its firewall drops incoming calls.
void Peer::UpdateGiver() {
  const auto self =
      std::find_if(roster_.members().begin(), roster_.members().end(),
                   [this](const v1::Member& member) { return member.peer() == config_.peer.id; });
  const bool listed = self != roster_.members().end() && !self->address().empty();
  const bool dialled = listed && !self->unreachable();
  if (listed) LogReach(dialled);
  if (donor_ == nullptr || (dialled && giver_ == nullptr)) return;
  if (giver_ == nullptr) giver_ = std::make_unique<Giver>(env_, config_.peer.id, *donor_);
  giver_->SetTargets(dialled ? std::vector<std::string>() : GivesTo(roster_, config_.peer.id));
}

void Peer::LogReach(bool reachable) {
  if (std::exchange(unreachable_, !reachable) == !reachable) return;
  const std::string where =
      listener_ == nullptr || config_.peer.advertise.empty() ? address() : config_.peer.advertise;
  if (reachable) {
    env_.log.Info(absl::StrCat("others can dial this peer at ", where, " again"));
  } else {
    env_.log.Warning(absl::StrCat("others cannot dial this peer at ", where,
                                  ": a firewall? It goes on, dialling out; open the port, or set "
                                  "[peer] advertise = \"none\""));
  }
}

void Peer::SendSynced() {
  if (!keeper_.has_state()) return;
  v1::PeerMessage message;
  message.mutable_synced()->set_version(keeper_.version());
  message.mutable_synced()->set_header_digest(ToBytes(keeper_.header_digest()));
  if (keeper_.offer()) *message.mutable_synced()->mutable_offer() = *keeper_.offer();
  if (keeper_.version() > told_version_ && keeper_.header()) {
    *message.mutable_synced()->mutable_header() = *keeper_.header();
  }
  link_.Send(message);
}

void Peer::SendStateReport(uint64_t version, const Digest& state, const Digest* expected) {
  v1::PeerMessage message;
  v1::StateReport* report = message.mutable_state_report();
  report->set_version(version);
  report->set_state_digest(ToBytes(state));
  if (expected != nullptr) report->set_expected_digest(ToBytes(*expected));
  link_.Send(message);
}

void Peer::StartDonor(const std::string& run_id) {
  donor_ = std::make_unique<Donor>(
      env_, config_.peer.dir, run_id,
      DonorSettings{config_.peer.donate_bytes_per_second, failure_timeout_});
  donor_->SetRate(DonateRate());
}

// Returns the rate for donating. During exchanges an eighth of it is given, which is a sixteenth of
// a capped line and does not slow a round noticeably.
uint64_t Peer::DonateRate() const {
  const uint64_t rate = config_.peer.donate_bytes_per_second;
  if (up_cap_ == 0) return rate;
  const uint64_t half = std::max<uint64_t>(up_cap_ / 2, 1);
  return rate == 0 ? half : std::min(rate, half);
}

// Returns the rates that the coordinator plans with.
v1::LineCaps Peer::Rates() const {
  const auto lesser = [](uint64_t told, uint64_t cap) {
    const auto usable = static_cast<uint64_t>(static_cast<double>(cap) * kUsableOfCap);
    return cap == 0 ? told : told == 0 ? usable : std::min(told, usable);
  };
  v1::LineCaps rates;
  rates.set_up_rate(lesser(config_.peer.up_rate, up_cap_));
  rates.set_down_rate(lesser(config_.peer.down_rate, down_cap_));
  return rates;
}

void Peer::SetCaps(uint64_t up_cap, uint64_t down_cap) {
  up_cap_ = up_cap;
  down_cap_ = down_cap;
  if (donor_ != nullptr) donor_->SetRate(DonateRate());
  v1::PeerMessage message;
  *message.mutable_line_caps() = Rates();
  link_.Send(message);  // without a Session, the next Hello has these rates
}

// Fetches by other peers, and snapshots, must not slow the exchange that all wait for.
void Peer::OnBusy(bool busy) {
  keeper_.SetBusy(busy);
  if (donor_ != nullptr) donor_->SetBusy(busy);
}

void Peer::OnDigest(uint64_t version, const Digest& state) {
  if (version == keeper_.version()) {
    SendStateReport(version, state, nullptr);
    runner_.OnDigest();
  }
  end_.OnDigest();
}

void Peer::OnDrain(const std::string& reason) {
  if (draining_) return;  // repeated after a broken Session
  env_.log.Info(absl::StrCat("the operator asks this peer to leave: ", reason));
  Drain();
}

void Peer::OnSendHeaders(const v1::SendHeaders& asked) {
  auto answer = std::make_shared<v1::PeerMessage>();
  if (!keeper_.has_state()) {
    answer->mutable_headers();
    return link_.Send(*answer);
  }
  env_.log.Info(absl::StrCat("the coordinator's store is behind: telling it the headers from ",
                             asked.first_version(), " on"));
  if (asked.genesis()) *answer->mutable_headers()->mutable_genesis() = keeper_.genesis();
  auto status = std::make_shared<absl::Status>();
  env_.executor.Offload(
      [files = &env_.files, dir = config_.peer.dir, first = asked.first_version(),
       last = keeper_.version(), answer,
       status] { *status = ReadHeaders(*files, dir, first, last, answer->mutable_headers()); },
      guard_.Wrap([this, answer, status] {
        // An empty answer is also an answer: the coordinator then asks another peer.
        if (!status->ok()) {
          env_.log.Warning(absl::StrCat("headers for the coordinator: ", status->message()));
        }
        link_.Send(*answer);
      }));
}

void Peer::OnCheckState(const v1::CheckState& asked) {
  if (asked.version() != keeper_.version()) return;
  const absl::StatusOr<Digest> most = DigestFromBytes(asked.state_digest());
  if (most.ok()) return keeper_.Require(*most);
  keeper_.Audit();
}

void Peer::Drain() {
  if (std::exchange(draining_, true)) return;
  env_.log.Info("draining: finishing the round under way, then leaving");
  runner_.Drain();
  env_.executor.RunAfter(failure_timeout_,
                         guard_.Wrap([this] { Finish(absl::OkStatus(), "drained"); }));
}

// Ends the peer, and tells the coordinator the reason.
void Peer::Break(const absl::Status& status) { Finish(status, std::string(status.message())); }

void Peer::Finish(const absl::Status& status, const std::string& farewell) {
  if (std::exchange(finishing_, true)) return;
  end_.Stop();
  if (!status.ok()) env_.log.Error(std::string(status.message()));
  link_.Leave(farewell, guard_.Wrap([this, status] {
    runner_.SaveResidual(guard_.Wrap([this, status] {
      worker_watch_.Stop(guard_.Wrap([this, status] { on_finished_(status); }));
    }));
  }));
}

std::string Peer::Doing() const {
  const std::string away = link_.up() ? "" : "; the coordinator does not answer";
  if (!keeper_.has_state()) return absl::StrCat("no replica yet", away);
  return absl::StrCat("run ", keeper_.genesis().spec().run_id(), ", version ", keeper_.version(),
                      ", ", draining_ ? "draining" : runner_.progress().phase(), away);
}

std::string Peer::WaitsFor() const {
  if (end_.sealed()) return end_.WaitsFor();
  if (!keeper_.has_state()) return "This peer waits for a run to join";
  return absl::StrCat("This replica holds version ", keeper_.version(), " of run ",
                      keeper_.genesis().spec().run_id(),
                      worker_link_.configured() ? " and trains on" : "",
                      "; the coordinator decides what follows");
}

}  // namespace atolld
