#include "tests/sim/etcd_model.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/sim/etcd_law.h"
#include "tests/sim/etcd_turns.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

constexpr char kPrefix[] = "atoll/model/";
constexpr absl::Duration kTtl = absl::Seconds(2);

// Virtual time under faults: about ten times as long as it takes another coordinator to lead.
constexpr absl::Duration kUnderFaults = absl::Seconds(30);

// The time until a new coordinator leads after the healing: a lease of the former leader, the delay
// with which it is released, the last retry of a call, and the same again if the first attempt
// falls to a coordinator that cannot use it.
constexpr absl::Duration kLiveness = absl::Seconds(12);

SimSettings QuietSettings() {
  SimSettings settings;
  settings.log_level = Log::Level::kError;
  return settings;
}

class Model {
 public:
  Model(uint64_t seed, const std::function<void(const std::string&)>& tell)
      : tell_(tell),
        world_(seed, QuietSettings()),
        random_(SimMix(seed, 0x6574)),
        etcd_(world_, SimMix(seed, 0x6364),
              absl::Milliseconds(static_cast<int64_t>(1 + random_.Below(20)))),
        law_(etcd_, kPrefix, [this](int, const std::string& what) { Violate(what); }) {
    const uint64_t count = 2 + random_.Below(2);
    for (uint64_t i = 1; i <= count; ++i) names_.push_back(absl::StrCat("c", i));
    world_.OnDeath([this](const std::string& name) {
      const absl::Duration away = kTtl * random_.Unit();
      world_.At(faults_over_ ? kTtl / 8 : away, [this, name] { Start(name); });
    });
  }
  ~Model() {
    world_.OnDeath(nullptr);
    for (const std::string& name : names_) world_.Kill(name);
  }

  EtcdModelResult Run();

 private:
  void Violate(const std::string& what) {
    if (!result_.violation) {
      result_.violation =
          absl::StrFormat("at %.6f s: %s", absl::ToDoubleSeconds(world_.now()), what);
    }
  }
  void Say(const std::string& what) {
    if (tell_) {
      tell_(absl::StrFormat("%12.6f %s\n", absl::ToDoubleSeconds(world_.now()), what));
    }
  }

  std::shared_ptr<void> Begin(const std::string& name);
  absl::Status Lead(const std::string& name, EtcdTurns& turns, std::unique_ptr<Store> store);
  RunUpdate Draw(uint64_t* version);
  void Start(const std::string& name);
  void Fault();
  void FaultOfProcess(const std::string& name, absl::Duration lasts);
  void FaultOfEtcd(absl::Duration lasts);
  void CheckEnd();

  const std::function<void(const std::string&)> tell_;
  EtcdModelResult result_;
  SimWorld world_;
  SimRandom random_;
  SimEtcd etcd_;
  EtcdLaw law_;
  std::vector<std::string> names_;
  std::map<std::string, EtcdTurns*> turns_;   // of those that live
  const bool paced_ = random_.Below(3) != 0;  // otherwise as fast as it goes
  bool faults_over_ = false;
  uint64_t numbers_ = 0;                  // of updates
  std::map<std::string, uint64_t> told_;  // members: the newest number acknowledged
  uint64_t told_version_ = 0;
};

std::shared_ptr<void> Model::Begin(const std::string& name) {
  SimProcess& process = world_.process(name);
  struct Root {
    Root(std::map<std::string, EtcdTurns*>& of, std::string who) : all(of), name(std::move(who)) {}
    ~Root() { all.erase(name); }
    std::map<std::string, EtcdTurns*>& all;
    const std::string name;
    std::unique_ptr<EtcdTurns> turns;
  };
  auto root = std::make_shared<Root>(turns_, name);
  EtcdTurns::Events events;
  events.wait = [] { return nullptr; };
  events.lead = [this, name, at = root.get()](std::unique_ptr<Store> store) {
    return Lead(name, *at->turns, std::move(store));
  };
  events.ended = [this, name](const absl::Status& why) {
    Say(absl::StrCat(name, " ends: ", why.ToString()));
    if (!why.ok()) Violate(absl::StrCat(name, " ends: ", why.ToString()));
    world_.Kill(name);
  };
  root->turns = std::make_unique<EtcdTurns>(
      process, etcd_, law_, EtcdTurns::Settings{kPrefix, kTtl, name + ":1"}, std::move(events));
  turns_[name] = root->turns.get();
  return root;
}

void Model::Start(const std::string& name) {
  if (world_.process(name).alive()) return;
  Say(absl::StrCat(name, " begins"));
  world_.Restart(name);
}

// Draws new rows, replaced rows, a table that is written whole, and occasionally more than one
// transaction can hold.
RunUpdate Model::Draw(uint64_t* version) {
  RunUpdate update;
  const uint64_t number = ++numbers_;
  const uint64_t draw = random_.Below(40);
  const uint64_t headers = draw == 0 ? 110 : draw % 2;
  for (uint64_t i = 0; i < headers; ++i) {
    v1::EntryHeader& header = update.headers.emplace_back();
    header.set_version(++*version);
    header.set_payload_digest(absl::StrCat(number));
    update.rounds.emplace_back().set_version(*version);
  }
  update.members.push_back(
      {absl::StrCat("p", random_.Below(4)), absl::StrCat("p:", number), "live"});
  if (draw % 3 == 0) update.leases = LeaseRecords{number, {{"p1", number, 1}}};
  return update;
}

absl::Status Model::Lead(const std::string& name, EtcdTurns& turns, std::unique_ptr<Store> store) {
  const absl::StatusOr<StoredRun> run = store->Load();
  if (!run.ok()) return run.status();
  uint64_t version = run->rounds.empty() ? 0 : run->rounds.back().version();
  const auto newest = store->ReadHeaders(std::max<uint64_t>(version, 1), 10);
  if (!newest.ok()) return newest.status();
  if (newest->size() != (version == 0 ? 0 : 1)) {
    Violate(absl::StrCat(name, " reads ", newest->size(), " headers from version ", version));
  }
  Say(absl::StrCat(name, " leads from version ", version));
  RunUpdate begin;
  begin.epoch = run->epoch + 1;
  absl::Status applied = store->Apply(begin);
  while (applied.ok() && !turns.lost()) {
    const RunUpdate update = Draw(&version);
    applied = store->Apply(update);
    if (!applied.ok()) {
      ++result_.unknown;
      break;
    }
    ++result_.updates;
    told_version_ = std::max(told_version_, version);
    for (const MemberRecord& member : update.members) {
      told_[member.peer] = std::stoull(member.address.substr(2));
    }
    if (paced_) turns.Sleep(absl::Milliseconds(static_cast<int64_t>(random_.Below(60))));
  }
  Say(absl::StrCat(name, " leads no longer: ", applied.ToString()));
  return applied.ok() || turns.lost() ? absl::OkStatus() : applied;
}

void Model::FaultOfProcess(const std::string& name, absl::Duration lasts) {
  switch (random_.Below(5)) {
    case 0:
      Say(absl::StrCat("*** ", name, " is killed"));
      return world_.Kill(name);
    case 1:
    case 2:
      Say(absl::StrCat("*** ", name, " is stopped for ", absl::FormatDuration(2 * lasts)));
      return world_.Pause(name, 2 * lasts);
    case 3:
      Say(absl::StrCat("*** ", name, " does not reach etcd"));
      etcd_.Cut(name, random_.Below(2) == 0);
      world_.At(lasts, [this, name] { etcd_.Heal(name); });
      return;
    default:
      Say(absl::StrCat("*** ", name, " is to end"));
      if (turns_.count(name) > 0) turns_[name]->Stop();
  }
}

void Model::FaultOfEtcd(absl::Duration lasts) {
  switch (random_.Below(4)) {
    case 0: {
      const absl::Duration most = 2 * kTtl * random_.Unit();
      Say(absl::StrCat("*** etcd is slow: ", absl::FormatDuration(most)));
      etcd_.SlowDown(most);
      world_.At(lasts, [this] { etcd_.SlowDown(absl::ZeroDuration()); });
      return;
    }
    case 1:
      Say("*** answers of etcd are lost");
      etcd_.LoseAnswers(0.3);
      world_.At(lasts, [this] { etcd_.LoseAnswers(0); });
      return;
    case 2: {
      const int member = static_cast<int>(random_.Below(SimEtcd::kMembers));
      Say(absl::StrCat("*** a member of etcd is down: ", member));
      etcd_.StopMember(member, random_.Below(2) == 0);
      world_.At(lasts, [this, member] { etcd_.StartMember(member); });
      return;
    }
    default:
      Say("*** etcd has no majority");
      etcd_.Stop();
      world_.At(lasts, [this] { etcd_.Resume(); });
  }
}

void Model::Fault() {
  if (faults_over_) return;
  ++result_.faults;
  const absl::Duration lasts = 1.5 * kTtl * random_.Unit();
  const std::string leader = law_.leader().substr(0, 2);
  const bool at_leader = !leader.empty() && random_.Below(4) != 0;
  const std::string& name = names_[random_.Below(names_.size())];
  if (random_.Below(2) == 0) {
    FaultOfProcess(at_leader ? leader : name, lasts);
  } else {
    FaultOfEtcd(lasts);
  }
  world_.At(kTtl * random_.Unit(), [this] { Fault(); });
}

void Model::CheckEnd() {
  const StoredRun& stored = law_.stored();
  if (stored.headers.size() < told_version_) {
    Violate(absl::StrCat("version ", told_version_, " was acknowledged, and ",
                         stored.headers.size(), " are there"));
  }
  for (size_t i = 0; i < stored.headers.size(); ++i) {
    if (stored.headers[i].version() != i + 1) Violate("a version is missing, or there twice");
  }
  for (const MemberRecord& member : stored.members) {
    const uint64_t there = std::stoull(member.address.substr(2));
    if (there >= told_[member.peer]) continue;
    Violate(absl::StrCat("update ", told_[member.peer], " of ", member.peer,
                         " was acknowledged, and ", there, " is there"));
  }
}

EtcdModelResult Model::Run() {
  for (const std::string& name : names_) {
    world_.AddProcess(name, [this, name](Env) { return Begin(name); });
  }
  world_.At(kTtl * random_.Unit(), [this] { Fault(); });
  const auto failed = [this] { return result_.violation.has_value(); };
  world_.RunUntil(failed, kUnderFaults);
  faults_over_ = true;
  Say("*** all is healed");
  etcd_.HealAll();
  for (const std::string& name : names_) {
    if (world_.process(name).alive()) world_.Resume(name);
    Start(name);
  }
  const uint64_t before = result_.updates;
  const auto writes = [&] { return result_.updates > before + 3 || failed(); };
  if (!world_.RunUntil(writes, kLiveness)) Violate("all is healed, and nobody writes");
  // The next one reads what all of them have left.
  const std::string last = law_.leader();
  if (!last.empty()) world_.Kill(last.substr(0, 2));
  const uint64_t terms = law_.terms();
  world_.RunUntil([&] { return law_.terms() > terms || failed(); }, kLiveness);
  const uint64_t then = result_.updates;
  if (!world_.RunUntil([&] { return result_.updates > then || failed(); }, kLiveness)) {
    Violate("the last one to lead does not write");
  }
  CheckEnd();
  result_.digest = world_.digest();
  result_.events = world_.events_run();
  result_.terms = law_.terms();
  result_.late = etcd_.late();
  return result_;
}

}  // namespace

EtcdModelResult RunEtcdModel(uint64_t seed, const std::function<void(const std::string&)>& tell) {
  return Model(seed, tell).Run();
}

}  // namespace atolld
