#include "tests/sim/swarm_cluster.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/peer/coordinator_link.h"
#include "daemon/peer/offered_calls.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/signing_key.h"
#include "tests/sim/clip_liar.h"
#include "tests/sim/forging_transport.h"
#include "tests/sim/hostile_transport.h"
#include "tests/sim/session_tap.h"

namespace atolld {
namespace {

// How long a supervisor waits before it starts a process again.
constexpr absl::Duration kSupervisor = absl::Seconds(1);

// One in this many new processes gets a late Hello of the process before it.
constexpr uint64_t kLateHellos = 4;
// How the log's lines of a peer's training begin.
constexpr char kTrainingLine[] = "training ";
constexpr char kSessionMethod[] = "/atolld.v1.Membership/Session";
// How often a coordinator reports what it shows.
constexpr absl::Duration kShownEvery = absl::Milliseconds(250);

// How many times in a row a peer with an unsound disk may fail before it gets an empty one.
constexpr int kFailuresBeforeWipe = 3;

// Negligible beside an update whose values are near 1, and above its length however many rounds a
// seed has.
constexpr double kPrivacyNoise = 1e-30;
constexpr double kFirstClip = 1e12;

SimLinkSettings LinkSettingsOf(const SwarmPlan& plan) {
  SimLinkSettings link;
  link.latency = plan.latency;
  link.jitter = plan.jitter;
  if (plan.bytes_per_second > 0) link.bytes_per_second = plan.bytes_per_second;
  return link;
}

SimSettings SettingsOf(const SwarmPlan& plan, bool verbose) {
  SimSettings settings;
  settings.network.link = LinkSettingsOf(plan);
  settings.network.keepalive = 1.5 * plan.failure_timeout;  // as production's transport
  settings.pool.cost = plan.pool_cost;
  settings.pool.spread = plan.pool_cost;
  settings.crash = SimDisk::Crash::kDrawn;
  settings.log_level = verbose ? Log::Level::kDebug : Log::Level::kError;
  return settings;
}

bool Aggregates(const SwarmPlan::Machine& machine) { return machine.aggregator; }
bool Lies(const SwarmPlan::Machine& machine) { return machine.hostility != Hostility::kNone; }
bool ClaimsClips(const SwarmPlan::Machine& machine) { return machine.claims_clips; }
bool KeepsVersionZero(const SwarmPlan::Machine& machine) {
  return KeepsToItself(machine.hostility);
}

std::set<std::string> NamesOf(const SwarmPlan& plan, bool (*chosen)(const SwarmPlan::Machine&)) {
  std::set<std::string> names;
  for (const SwarmPlan::Machine& machine : plan.peers) {
    if (chosen(machine)) names.insert(machine.name);
  }
  return names;
}

PrivacyLaw::Terms PrivacyOf(const SwarmPlan& plan) {
  PrivacyLaw::Terms terms;
  if (!plan.moving_clip) return terms;
  terms.noise = double{static_cast<float>(kPrivacyNoise)};
  terms.clip = double{static_cast<float>(kFirstClip)};
  terms.parties = plan.founders;
  terms.delta = Config().privacy.delta;
  terms.liars = NamesOf(plan, ClaimsClips);
  return terms;
}

void SetPrivacy(const SwarmPlan& plan, Config* config) {
  config->privacy.masked = plan.masked;
  config->privacy.threshold = plan.mask_threshold;
  config->privacy.roster = plan.mask_roster;
  if (plan.masked) config->membership.weight_cap = 0;
  if (!plan.moving_clip) return;
  config->privacy.clip = kFirstClip;
  config->privacy.noise = kPrivacyNoise;
  config->privacy.quantile = 0.5;
  config->privacy.parties = plan.founders;
  config->privacy.sampling = 1;
}

// Sets the mode, and the experts' owners or the slices, which are for one mode.
void SetMode(const SwarmPlan& plan, Config* config) {
  config->mode.kind = plan.mode;
  config->mode.fragments = std::max<uint32_t>(plan.fragments, 1);
  config->mode.overlap = plan.overlap;
  config->mode.merge = plan.merge;
  config->mode.age_decay = plan.age_decay;
  config->mode.age_cutoff = plan.age_cutoff;
  config->mode.gap_penalty = plan.gap_penalty;
  config->mode.momentum_clip = plan.momentum_clip;
  if (plan.slices) {  // of one rank each
    config->model.lora_rank = plan.experts;
    config->model.lora_slice = 1;
    return;
  }
  if (plan.experts == 0) return;
  config->experts.owners = plan.owners;
  config->experts.tensors = kSimExperts;
}

// Shows the invariants what the peer's worker takes and gives.
SimWorkerProbe ProbeFor(const std::string& name, Invariants& invariants) {
  History& history = invariants.history();
  ExpertLaw& experts = invariants.experts();
  SimWorkerProbe probe;
  probe.on_initial = [&history](absl::Span<const float> initial) { history.OnInitial(initial); };
  probe.on_train = [&history, &experts, name](const v1::TrainSteps& train,
                                              absl::Span<const float> theta) {
    experts.OnTraining(name, train);
    if (train.refused()) history.OnRefused(name);
    if (train.start() == "guess") return history.OnGuess(name, train.version(), theta);
    history.OnTrain(name, train.version(), theta);
  };
  probe.on_update = [&history, &experts, name](absl::Span<const float> update,
                                               absl::Span<const float> base) {
    experts.OnUpdate(name, update);
    history.OnUpdate(name, update, base);
  };
  return probe;
}

}  // namespace

struct SwarmCluster::Node {
  Node(SwarmCluster& owner, std::string peer_name) : cluster(owner), name(std::move(peer_name)) {
    cluster.nodes_[name] = this;
  }
  ~Node() {
    cluster.nodes_.erase(name);
    if (hostile) cluster.hostile_acts_ += hostile->acts();
  }
  SwarmCluster& cluster;
  const std::string name;
  std::unique_ptr<ForgingTransport> forging;  // of a forger
  std::unique_ptr<ClipLiar> clip_liar;        // of who claims clips
  std::unique_ptr<HostileTransport> hostile;  // above the tap, or below it
  std::unique_ptr<TapTransport> tap;
  std::unique_ptr<Worker> trainer;
  SimWorker* stub = nullptr;  // it; an aggregator has none
  std::unique_ptr<Peer> peer;
};

SwarmCluster::SwarmCluster(const SwarmPlan& plan, bool verbose)
    : plan_(plan),
      coordinators_(CoordinatorNames(plan)),
      verbose_(verbose),
      invariants_({LeastQuorum(plan), plan.failure_timeout, [this] { return world_.now(); },
                   NamesOf(plan, Aggregates), NamesOf(plan, Lies), plan.audit_share, plan.quorum,
                   plan.masked, plan.mask_roster, PrivacyOf(plan)}),
      world_(plan.seed, Settings()) {
  RememberRightSignatures();
  if (!NamesOf(plan, KeepsVersionZero).empty()) invariants_.history().ExpectAnotherGenesis();
  if (plan.keep_bytes > 0 || plan.keep_snapshots < 2) invariants_.history().ExpectDroppedMeans();
  if (plan_.coordinators > 1) {
    etcd_ = std::make_unique<SwarmEtcd>(world_, plan_, invariants_,
                                        [this](const std::string& line) { Note(line); });
  }
  store_->on_durable = [this](const RunUpdate& update) { invariants_.OnDurable(update); };
  world_.OnDeath([this](const std::string& name) { OnDeath(name); });
  for (const SwarmPlan::Machine& machine : plan_.peers) {
    SetStep(machine.name, machine.step);
    if (Lies(machine)) hostility_[machine.name] = machine.hostility;
    world_.network().SetPeerRate(machine.name, LineOf(machine.name));
  }
}

SimSettings SwarmCluster::Settings() {
  SimSettings settings = SettingsOf(plan_, verbose_);
  settings.on_line = [this](Log::Level level, absl::string_view line) {
    if (level != Log::Level::kDebug || !absl::StartsWith(line, kTrainingLine)) return;
    const size_t text = line.find(": ");
    if (text != absl::string_view::npos) ++transitions_[std::string(line.substr(text + 2))];
  };
  return settings;
}

SwarmCluster::~SwarmCluster() {
  world_.OnDeath(nullptr);  // the end of the world is nobody's death
}

const SwarmPlan::Machine& SwarmCluster::MachineOf(const std::string& peer) const {
  return *std::find_if(plan_.peers.begin(), plan_.peers.end(),
                       [&](const auto& machine) { return machine.name == peer; });
}

Config SwarmCluster::ConfigOf(const std::string& name) const {
  Config config;
  config.run.id = "swarm";
  config.run.rounds = plan_.rounds;
  config.run.peers = plan_.founders;
  config.run.quorum = plan_.quorum;
  config.inner.steps = plan_.inner_steps;
  config.inner.batch = 2;
  config.inner.learning_rate = 0.1;  // no worker here reads it; control variates are divided by it
  config.inner.control_variates = plan_.control_variates;
  config.data.is_private = plan_.private_data;
  SetPrivacy(plan_, &config);
  config.federation.participation = plan_.participation;
  config.federation.drop = plan_.drop;
  // Of the seed alone, so that all else in its story stays as it is.
  const bool ages = plan_.mode == "delayed" || plan_.mode == "async";
  if (!ages) config.federation.staleness = std::array{0.25, 0.25, 0.0, 1.0}[plan_.seed % 4];
  config.outer.rule = plan_.rule;
  config.outer.learning_rate = plan_.learning_rate;
  config.outer.momentum = plan_.momentum;
  config.outer.buffer = plan_.outer_buffer;
  SetMode(plan_, &config);
  config.exchange.codec = plan_.codec;
  config.exchange.upper_codec = plan_.upper_codec;
  config.exchange.slow_codec = plan_.slow_codec;
  config.exchange.chunk_elements = plan_.chunk_elements;
  config.exchange.error_feedback = plan_.error_feedback;
  config.membership.outsized = DefaultOutsized(config);
  config.exchange.feedback_decay = plan_.feedback_decay;
  config.exchange.audit_share = plan_.audit_share;
  config.exchange.rounding = plan_.stochastic ? "stochastic" : "nearest";
  config.exchange.aggregation = plan_.aggregation;
  config.exchange.faulty = plan_.faulty;
  config.exchange.clip = plan_.clip;
  config.evaluation.every_rounds = plan_.evaluate_every;
  config.membership.failure_timeout = plan_.failure_timeout;
  // A coordinator knows the others, and a peer all of them.
  const bool coordinates = Coordinates(name);
  config.coordinator.address = absl::StrCat(coordinates ? name : kCoordinatorName, ":1");
  std::vector<std::string> others;
  for (const std::string& one : coordinators_) {
    if (config.coordinator.address != one + ":1") others.push_back(one + ":1");
  }
  config.coordinator.others = absl::StrJoin(others, ",");
  config.coordinator.dir = DirectoryOf(coordinates ? name : kCoordinatorName);
  config.peer.id = name;
  config.peer.listen = name + ":1";
  if (!coordinates && MachineOf(name).dial_out) config.peer.advertise = kDialsOutOnly;
  config.peer.dir = DirectoryOf(name);
  config.exchange.plan = plan_.plan;
  if (!coordinates) {
    const SwarmPlan::Machine& machine = MachineOf(name);
    config.peer.region = machine.region;
    if (machine.tells_limit) {
      config.peer.up_rate = static_cast<uint64_t>(machine.bytes_per_second);
      config.peer.down_rate = config.peer.up_rate;
    }
  }
  config.peer.keep_bytes = plan_.keep_bytes;
  config.peer.snapshot_every = plan_.snapshot_every;
  config.peer.keep_snapshots = plan_.keep_snapshots;
  return config;
}

std::shared_ptr<void> SwarmCluster::StartCoordinator(Env env) {
  struct Root {
    std::unique_ptr<TapTransport> tap;
    std::unique_ptr<Coordinator> coordinator;
  };
  invariants_.OnStart(kCoordinatorName);
  auto root = std::make_shared<Root>();
  // What a process says that its disk has just killed goes nowhere.
  root->tap = std::make_unique<TapTransport>(
      env.transport,
      [this](const Frame& frame) {
        if (Alive(kCoordinatorName)) invariants_.OnCoordinatorFrame(frame);
      },
      nullptr,
      [this](const std::string& peer, const Frame& frame) {
        if (Alive(kCoordinatorName)) invariants_.OnTold(peer, frame);
      });
  const Env tapped{env.executor, env.files, *root->tap, env.log};
  root->coordinator = std::make_unique<Coordinator>(
      tapped, ConfigOf(kCoordinatorName),
      std::make_unique<SimStore>(env.files, DirectoryOf(kCoordinatorName), store_), nullptr,
      [seed = plan_.seed](bool) { return SigningKey::FromSeed(absl::StrFormat("%032u", seed)); });
  const absl::Status started = root->coordinator->Start();
  if (!started.ok()) {
    Note(absl::StrCat("the coordinator does not start: ", started.ToString()));
    if (unsound_.count(kCoordinatorName) == 0 && world_.process(kCoordinatorName).alive()) {
      invariants_.Violate(12, absl::StrCat("the coordinator does not start: ", started.ToString()));
    }
    world_.Kill(kCoordinatorName);
  } else if (!plan_.grey.empty()) {
    root->coordinator->OnStatus(kShownEvery,
                                [this](const v1::RunStatus& status) { shown_ = status; });
  }
  return root;
}

std::shared_ptr<void> SwarmCluster::StartPeer(Env env, const std::string& name) {
  invariants_.OnStart(name);
  began_[name] = world_.now();
  auto node = std::make_shared<Node>(*this, name);
  if (MachineOf(name).forges) node->forging = std::make_unique<ForgingTransport>(env.transport);
  Transport* under = node->forging ? node->forging.get() : &env.transport;
  if (MachineOf(name).claims_clips) node->clip_liar = std::make_unique<ClipLiar>(*under);
  if (node->clip_liar) under = node->clip_liar.get();
  // What it says is heard as it says it; but where it lies about itself, as it is.
  const bool claims = MayLie(name) && ClaimsFalsely(hostility_[name]);
  if (claims) {
    const std::string& victim = MachineOf(name).steals;
    node->hostile =
        std::make_unique<HostileTransport>(*under, name, hostility_[name], victim + ":1");
    under = node->hostile.get();
  }
  node->tap = std::make_unique<TapTransport>(
      *under,
      [this, name](const Frame& frame) {
        if (!Alive(name)) return;
        invariants_.OnPeerFrame(name, frame);
        BringLateHello(name, frame);
      },
      [this, name](const std::string& method) {
        if (method == kFetchSnapshotMethod || method == kGiveSnapshotMethod) {
          invariants_.history().OnSnapshot(name);
        }
      });
  if (MayLie(name) && !claims) {
    node->hostile = std::make_unique<HostileTransport>(*node->tap, name, hostility_[name]);
  }
  Transport& transport =
      node->hostile && !claims ? static_cast<Transport&>(*node->hostile) : *node->tap;
  const Env tapped{env.executor, env.files, transport, env.log};
  SimWorkerSettings settings;
  settings.elements = plan_.elements;
  settings.tensors = std::min(plan_.tensors, plan_.elements);
  settings.tensors_a_layer = plan_.fragments > 0 ? 2 : 0;
  settings.experts = plan_.experts;
  settings.seed = SimMix(plan_.seed, static_cast<uint64_t>(&MachineOf(name) - &plan_.peers[0]));
  settings.slices = plan_.slices;
  if (plan_.slices) {
    settings.lora_rank = static_cast<uint32_t>(settings.seed % (uint64_t{plan_.experts} + 1));
  }
  settings.step = steps_[name];
  settings.habit = MachineOf(name).habit;
  // Where version 0 may be made twice, the two are not the same.
  if (!NamesOf(plan_, KeepsVersionZero).empty()) settings.initial = settings.seed;
  if (MachineOf(name).aggregator) {
    node->trainer = std::make_unique<NoWorker>(env.executor);
  } else {
    auto stub = std::make_unique<SimWorker>(tapped, settings, ProbeFor(name, invariants_));
    node->stub = stub.get();
    node->trainer = std::move(stub);
    node->stub->SetHeld(training_held_);
  }
  node->peer = std::make_unique<Peer>(
      tapped, ConfigOf(name), *node->trainer, 1,
      [this, name](const absl::Status& status) { OnFinished(name, status); });
  const absl::Status started = node->peer->Start();
  if (!started.ok()) OnFinished(name, started);
  return node;
}

bool SwarmCluster::Coordinates(const std::string& name) const {
  return std::find(coordinators_.begin(), coordinators_.end(), name) != coordinators_.end();
}

void SwarmCluster::Disturb(const std::string& name, absl::Duration until) {
  if (!Coordinates(name)) return invariants_.Disturb(name, until);
  // What is left of a lease, its late end, and a try of the next one that falls to a dead endpoint.
  const absl::Duration turn = etcd_ ? 3 * SwarmEtcd::kTtl : absl::ZeroDuration();
  invariants_.Disturb(kCoordinatorName, until + turn);
}

bool SwarmCluster::Alive(const std::string& name) const {
  return Exists(name) && world_.process(name).alive();
}

bool SwarmCluster::CaughtUp(const std::string& peer) const {
  return Alive(peer) && invariants_.said_any(peer) &&
         invariants_.said(peer) >= invariants_.announced();
}

bool SwarmCluster::AllEnded() const {
  return std::all_of(plan_.peers.begin(), plan_.peers.end(), [this](const auto& machine) {
    return !Exists(machine.name) || Finished(machine.name) || Stranded(machine.name);
  });
}

uint64_t SwarmCluster::hostile_acts() const {
  uint64_t acts = hostile_acts_;
  for (const auto& [name, node] : nodes_) acts += node->hostile ? node->hostile->acts() : 0;
  return acts;
}

void SwarmCluster::Reform(const std::string& peer) {
  hostility_[peer] = Hostility::kNone;
  const auto found = nodes_.find(peer);
  if (found != nodes_.end() && found->second->hostile) found->second->hostile->Reform();
}

Peer* SwarmCluster::peer(const std::string& name) {
  const auto found = nodes_.find(name);
  return found == nodes_.end() || !Alive(name) ? nullptr : found->second->peer.get();
}

SimWorker* SwarmCluster::trainer(const std::string& name) {
  const auto found = nodes_.find(name);
  return found == nodes_.end() || !Alive(name) ? nullptr : found->second->stub;
}

void SwarmCluster::Start(const std::string& name) {
  if (Alive(name) || Finished(name) || Stranded(name) || held_down_.count(name) > 0) return;
  Note(absl::StrCat(name, Exists(name) ? " is started again" : " is started"));
  if (!added_.insert(name).second) return world_.Restart(name);
  const Role role = Coordinates(name)            ? Role::kCoordinator
                    : MachineOf(name).aggregator ? Role::kAggregator
                                                 : Role::kPeer;
  world_.network().SetIdentity(name, {"swarm", role, name, ""});
  world_.AddProcess(name, [this, name](Env env) {
    if (!Coordinates(name)) return StartPeer(env, name);
    return etcd_ ? etcd_->Begin(env, name, ConfigOf(name)) : StartCoordinator(env);
  });
}

void SwarmCluster::Kill(const std::string& name, absl::Duration away) {
  ComeBackAfter(name, away);
  world_.Kill(name);
}

void SwarmCluster::HoldDown(const std::string& name, bool down) {
  if (down) {
    held_down_.insert(name);
  } else {
    held_down_.erase(name);
  }
}

void SwarmCluster::OnDeath(const std::string& name) {
  SimFiles files(world_.disk(name));
  if (etcd_ && Coordinates(name)) {
    etcd_->OnDeath(name);
  } else {
    invariants_.OnDeath(name, files, DirectoryOf(name));
  }
  const auto planned = away_.find(name);
  const absl::Duration away = planned == away_.end() ? kSupervisor : planned->second;
  if (planned != away_.end()) away_.erase(planned);
  Note(absl::StrCat(name, Finished(name) ? " ends" : " is dead"));
  world_.At(away, [this, name] { Start(name); });
}

void SwarmCluster::BringLateHello(const std::string& peer, const Frame& frame) {
  v1::PeerMessage message;
  if (MayLie(peer) || !Unpack(frame, &message).ok() || !message.has_hello()) return;
  const uint64_t instance = message.hello().instance();
  const auto [known, first] = hellos_.try_emplace(peer, instance, frame);
  const auto former = std::exchange(known->second, {instance, frame});
  const uint64_t draw = SimMix(plan_.seed, instance);
  if (first || former.first == instance || draw % kLateHellos != 0) return;
  const absl::Duration late = absl::Milliseconds(20 + draw / kLateHellos % 1000);
  world_.At(late, [this, peer, hello = former.second] {
    Note(absl::StrCat("a Hello of the process before comes late, of ", peer));
    world_.network().MakeAgain({peer, ConfigOf(peer).coordinator.address, kSessionMethod, {hello}});
  });
}

void SwarmCluster::OnFinished(const std::string& name, const absl::Status& status) {
  // One that is drained may lack the end, or have left before it; then it comes back.
  const bool has_seal = SimFiles(world_.disk(name)).Exists(SealPath(DirectoryOf(name)));
  if (status.ok() && sealed() && has_seal && invariants_.said(name) >= version()) {
    finished_.insert(name);
  } else if (absl::IsNotFound(status) && sealed()) {
    Note(absl::StrCat(name, " is stranded: ", status.ToString()));
    OnStranded(name);
  } else if (!status.ok() && MayLie(name) && ClaimsFalsely(MachineOf(name).hostility)) {
    Note(absl::StrCat(name, " is found out: ", status.ToString()));
  } else if (absl::IsPermissionDenied(status) && (evicted_.count(name) > 0 || MayLie(name))) {
    Note(absl::StrCat(name, " is refused"));
  } else if (!status.ok()) {
    Note(absl::StrCat(name, " gives up: ", status.ToString()));
    // Its dying process may be the one that says so.
    // Nobody here starts a second process of one peer: what ends the living one in the name of
    // another is the late word of a former one.
    if (absl::StrContains(status.message(), "another process (") && world_.process(name).alive()) {
      invariants_.Violate(8, absl::StrCat(name,
                                          ": of two processes the later one stays, whatever "
                                          "arrives late; it ended: ",
                                          status.ToString()));
    }
    if (unsound_.count(name) == 0 && world_.process(name).alive()) {
      invariants_.Violate(12, absl::StrCat(name, " gave up: ", status.ToString()));
    }
    if (++failures_[name] >= kFailuresBeforeWipe) {
      world_.At(kSupervisor / 2, [this, name] {
        if (!Alive(name) && Wipe(name)) failures_[name] = 0;
      });
    }
  }
  world_.Kill(name);
}

// Peers that were there long enough should have given it the end of the run.
void SwarmCluster::OnStranded(const std::string& name) {
  stranded_.insert(name);
  const absl::Duration patience = 2 * plan_.failure_timeout + CoordinatorLink::kLongestPause +
                                  kSupervisor +
                                  (etcd_ ? 3 * SwarmEtcd::kTtl : absl::ZeroDuration());
  for (const auto& [other, node] : nodes_) {
    const bool held = invariants_.said_any(other) && invariants_.said(other) >= version();
    if (other == name || !Alive(other) || !held || MachineOf(other).dial_out) continue;
    if (KeepsVersionZero(MachineOf(other))) continue;
    if (world_.now() < began_[other] + patience) continue;
    invariants_.Violate(
        6, absl::StrCat(name, " gave up though ", other, " holds version ", version()));
  }
}

// Peers that are told to keep little forget old headers, and no other process can give those back.
bool SwarmCluster::AllHoldHeaders(uint64_t newest) {
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    SimFiles files(world_.disk(node.first));
    v1::Headers told;
    return ReadHeaders(files, DirectoryOf(node.first), version() + 1 - newest, version(), &told)
               .ok() &&
           static_cast<uint64_t>(told.headers_size()) == newest;
  });
}

bool SwarmCluster::RestoreStore(uint64_t versions) {
  std::vector<RunUpdate>& journal = store_->journal;
  size_t keep = journal.size();
  uint64_t dropped = 0;  // more than asked for, where the last of them came with others
  while (keep > 0 && dropped < versions) {
    dropped += journal[--keep].headers.size();
    if (journal[keep].genesis) return false;
  }
  if (!AllHoldHeaders(dropped)) return false;
  SimFiles files(world_.disk(kCoordinatorName));
  if (keep == 0 || !SimStore(files, DirectoryOf(kCoordinatorName), store_).CutTo(keep).ok()) {
    return false;
  }
  Note(absl::StrCat("the store is ", dropped, " versions older"));
  invariants_.OnStoreRestored();
  return true;
}

bool SwarmCluster::Wipe(const std::string& peer) {
  const bool held = std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    return node.first != peer && Alive(node.first) && !KeepsVersionZero(MachineOf(node.first)) &&
           !MachineOf(node.first).forges &&
           invariants_.said(node.first) >= invariants_.announced() &&
           invariants_.said_any(node.first);
  });
  // Who has finished is not started again: its folder is the last that it leaves.
  if (Finished(peer) || !held || version() > invariants_.announced()) return false;
  Note(absl::StrCat(peer, " gets an empty disk"));
  // Where others know parties by their keys, owners keep theirs apart: with many new ones at once
  // no sum would come about until people have looked. They keep what was shown as well, because a
  // worker that begins anew might show it again.
  std::set<std::string> kept;
  if (plan_.masked)
    kept = {DirectoryOf(peer) + "/signing_key.pem", DirectoryOf(peer) + "/mask_shown"};
  world_.disk(peer).Wipe(kept);
  invariants_.OnWiped(peer);
  return true;
}

double SwarmCluster::LineOf(const std::string& peer) const {
  const double rate = MachineOf(peer).bytes_per_second;
  return rate > 0 ? rate : std::numeric_limits<double>::infinity();
}

void SwarmCluster::SetStep(const std::string& peer, absl::Duration step) {
  steps_[peer] = step;
  longest_step_ = std::max(longest_step_, step);
  SimWorker* const trainer_now = trainer(peer);
  if (trainer_now != nullptr) trainer_now->SetStep(step);
}

void SwarmCluster::HoldTraining(bool held) {
  if (held == training_held_) return;
  Note(held ? "the run is held: no training ends" : "the run goes on");
  training_held_ = held;
  for (const auto& [name, node] : nodes_) {
    if (node->stub != nullptr) node->stub->SetHeld(held);
  }
}

SimLinkSettings SwarmCluster::LinkSettings() const { return LinkSettingsOf(plan_); }

void SwarmCluster::Note(const std::string& line) {
  if (verbose_) notes_.emplace_back(world_.now(), line);
}

bool SwarmCluster::HasNewLines() const {
  return notes_told_ < notes_.size() || lines_told_ < world_.log().size();
}

// Returns the processes' lines and ours, in the order of time.
std::string SwarmCluster::NewLines() {
  std::string story;
  const auto tell_notes = [&](absl::Duration until) {
    for (; notes_told_ < notes_.size() && notes_[notes_told_].first <= until; ++notes_told_) {
      absl::StrAppend(&story, absl::StrFormat("%12.6f *** %s\n",
                                              absl::ToDoubleSeconds(notes_[notes_told_].first),
                                              notes_[notes_told_].second));
    }
  };
  for (; lines_told_ < world_.log().size(); ++lines_told_) {
    const SimLogLine& line = world_.log()[lines_told_];
    tell_notes(line.time);
    absl::StrAppend(&story, absl::StrFormat("%12.6f %-11s %s\n", absl::ToDoubleSeconds(line.time),
                                            line.process, line.text));
  }
  tell_notes(absl::InfiniteDuration());
  return story;
}

}  // namespace atolld
