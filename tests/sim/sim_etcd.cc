#include "tests/sim/sim_etcd.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {

namespace rpc = ::etcdserverpb;

namespace {

using Clock = EtcdMachine::Clock;

// How often a leader of etcd looks for expired leases.
constexpr absl::Duration kLeaseTick = absl::Milliseconds(500);

// How far ahead the clock of a dead process is, so that nothing waits in it.
constexpr absl::Duration kAfterDeath = absl::Hours(24 * 365 * 50);

}  // namespace

struct SimEtcd::Asked {
  SimThreads* threads = nullptr;
  std::shared_ptr<SimThreads::Job> by;
  bool over = false;  // nobody waits for the answer any more
  bool answered = false;
  absl::Status status;
};

class SimEtcd::Machine final : public EtcdMachine {
 public:
  Machine(SimEtcd& etcd, SimWorld& world, SimProcess& process)
      : etcd_(etcd),
        world_(world),
        threads_(process.threads()),
        clock_(process.machine().clock),
        process_(process.name()),
        who_(WhoIs(process)) {}

  std::unique_ptr<EtcdWire> Dial(const EtcdAccess& access, const std::string& endpoint) override;

  Clock::time_point Now() const override {
    const absl::Duration ahead =
        threads_.dead() ? kAfterDeath + waited_dead_ : absl::ZeroDuration();
    return Clock::time_point(
        absl::ToChronoNanoseconds(absl::Hours(1000) + clock_.Monotonic(world_.now()) + ahead));
  }

  void Sleep(absl::Duration wait) override {
    if (threads_.dead()) return WaitDead(wait);
    const Clock::time_point end = Now() + absl::ToChronoNanoseconds(wait);
    while (!threads_.dead() && Now() < end) ParkUntil(end);
  }

  std::unique_ptr<Thread> Start(std::function<void()> work) override {
    return std::make_unique<SimThread>(threads_, threads_.Start(std::move(work), true));
  }

  void Await(std::unique_lock<std::mutex>& lock, absl::Duration wait,
             const std::function<bool()>& done) override {
    const bool endless = wait == absl::InfiniteDuration();
    const Clock::time_point end =
        endless ? Clock::time_point::max() : Now() + absl::ToChronoNanoseconds(wait);
    while (!done() && Now() < end) {
      if (threads_.dead()) return WaitDead(wait);
      waiting_.push_back(threads_.current());
      lock.unlock();
      ParkUntil(end);
      lock.lock();
      waiting_.erase(std::find(waiting_.begin(), waiting_.end(), threads_.current()));
    }
  }

  void WakeAll() override {
    for (const std::shared_ptr<SimThreads::Job>& job : waiting_) threads_.Wake(job);
  }

  // Waits until `end` at most, or for a Wake.
  void ParkUntil(Clock::time_point end) {
    if (end == Clock::time_point::max()) return threads_.Park(absl::InfiniteDuration());
    threads_.Park(clock_.TrueDelay(world_.now(), absl::FromChrono(end - Now())));
  }

  // What is waited for in a process that has died is over at once.
  void WaitDead(absl::Duration wait) {
    waited_dead_ += std::clamp(wait, absl::Milliseconds(1), absl::Hours(1));
  }

  SimThreads& threads() { return threads_; }
  const std::string& process() const { return process_; }
  const std::string& who() const { return who_; }

 private:
  class SimThread final : public Thread {
   public:
    SimThread(SimThreads& threads, std::shared_ptr<SimThreads::Job> job)
        : threads_(threads), job_(std::move(job)) {}
    ~SimThread() override { threads_.Join(job_); }

   private:
    SimThreads& threads_;
    const std::shared_ptr<SimThreads::Job> job_;
  };

  SimEtcd& etcd_;
  SimWorld& world_;
  SimThreads& threads_;
  const SimClock& clock_;
  const std::string process_;
  const std::string who_;
  absl::Duration waited_dead_;
  std::vector<std::shared_ptr<SimThreads::Job>> waiting_;
};

class SimEtcd::Wire final : public EtcdWire {
 public:
  Wire(SimEtcd& etcd, Machine& machine, int member)
      : etcd_(etcd), machine_(machine), member_(member) {}

  absl::Status Range(const rpc::RangeRequest& request, absl::Duration wait,
                     rpc::RangeResponse* response) override {
    const auto told = std::make_shared<rpc::RangeResponse>();
    const absl::Status status = Ask(wait, [&etcd = etcd_, request, told](const Answer& answer) {
      const absl::StatusOr<rpc::RangeResponse> found = etcd.state_.Range(request);
      if (found.ok()) *told = *found;
      answer(found.status());
    });
    if (status.ok()) *response = *told;
    return status;
  }

  absl::Status Txn(const rpc::TxnRequest& request, absl::Duration wait,
                   rpc::TxnResponse* response) override {
    const auto told = std::make_shared<rpc::TxnResponse>();
    const absl::Status status =
        Ask(wait, [&etcd = etcd_, who = machine_.who(), request, told](const Answer& answer) {
          answer(etcd.Txn(who, request, told.get()));
        });
    if (status.ok()) *response = *told;
    return status;
  }

  absl::Status Compact(const rpc::CompactionRequest& request, absl::Duration wait) override {
    return Ask(wait, [&etcd = etcd_, request](const Answer& answer) {
      answer(etcd.state_.Compact(request.revision()));
    });
  }

  absl::Status Grant(const rpc::LeaseGrantRequest& request, absl::Duration wait,
                     rpc::LeaseGrantResponse* response) override {
    const auto told = std::make_shared<rpc::LeaseGrantResponse>();
    const absl::Status status = Ask(wait, [&etcd = etcd_, request, told](const Answer& answer) {
      told->set_id(etcd.state_.Grant());
      told->set_ttl(request.ttl());
      etcd.leases_[told->id()] = {absl::Seconds(request.ttl()),
                                  etcd.world_.now() + absl::Seconds(request.ttl())};
      etcd.ExpectEnd(told->id());
      answer(absl::OkStatus());
    });
    if (status.ok()) *response = *told;
    return status;
  }

  absl::Status Revoke(const rpc::LeaseRevokeRequest& request, absl::Duration wait) override {
    return Ask(wait, [&etcd = etcd_, request](const Answer& answer) {
      etcd.leases_.erase(request.id());
      answer(etcd.state_.EndLease(request.id()));
      etcd.TellWatchers();
    });
  }

  absl::Status KeepAlive(const rpc::LeaseKeepAliveRequest& request, absl::Duration wait,
                         rpc::LeaseKeepAliveResponse* response) override {
    const auto told = std::make_shared<rpc::LeaseKeepAliveResponse>();
    const absl::Status status = Ask(wait, [&etcd = etcd_, request, told](const Answer& answer) {
      told->set_id(request.id());
      const auto found = etcd.leases_.find(request.id());
      if (found != etcd.leases_.end() && etcd.world_.now() < found->second.end) {
        found->second.end = etcd.world_.now() + found->second.ttl;
        told->set_ttl(absl::ToInt64Seconds(found->second.ttl));
        etcd.ExpectEnd(request.id());
      }
      answer(absl::OkStatus());
    });
    if (status.ok()) *response = *told;
    return status;
  }

  absl::Status Watch(const rpc::WatchCreateRequest& request, absl::Duration wait) override {
    return Ask(wait, [&etcd = etcd_, request](const Answer& answer) {
      etcd.watchers_.push_back({request.key(), request.start_revision(), answer});
      etcd.TellWatchers();
    });
  }

  void Cancel() override {
    cancelled_ = true;
    if (asked_ != nullptr) machine_.threads().Wake(asked_->by);
  }

 private:
  absl::Status Ask(absl::Duration wait, Arrive arrive) {
    SimThreads& threads = machine_.threads();
    if (threads.dead() || cancelled_) {
      machine_.WaitDead(wait);
      return absl::CancelledError("no longer wanted");
    }
    if (wait <= absl::ZeroDuration()) return absl::DeadlineExceededError("no time for it");
    CHECK(threads.current() != nullptr);  // nothing else may block here
    const auto asked = std::make_shared<Asked>();
    asked->threads = &threads;
    asked->by = threads.current();
    asked_ = asked;
    etcd_.Send(machine_.process(), member_, asked, std::move(arrive));
    const Clock::time_point end = machine_.Now() + absl::ToChronoNanoseconds(wait);
    while (!asked->answered && !cancelled_ && !threads.dead() && machine_.Now() < end) {
      machine_.ParkUntil(end);
    }
    asked_ = nullptr;
    asked->over = true;
    if (threads.dead() || cancelled_) return absl::CancelledError("no longer wanted");
    if (!asked->answered) return absl::DeadlineExceededError("no answer in time");
    return asked->status;
  }

  SimEtcd& etcd_;
  Machine& machine_;
  const int member_;
  bool cancelled_ = false;
  std::shared_ptr<Asked> asked_;
};

std::unique_ptr<EtcdWire> SimEtcd::Machine::Dial(const EtcdAccess& access,
                                                 const std::string& endpoint) {
  const auto found = std::find(access.endpoints.begin(), access.endpoints.end(), endpoint);
  return std::make_unique<Wire>(etcd_, *this, static_cast<int>(found - access.endpoints.begin()));
}

SimEtcd::SimEtcd(SimWorld& world, uint64_t seed, absl::Duration latency)
    : world_(world), random_(seed), latency_(latency) {}

std::string SimEtcd::WhoIs(const SimProcess& process) {
  return absl::StrCat(process.name(), "#", process.lives());
}

EtcdAccess SimEtcd::AccessOf(SimProcess& process) {
  process.executor().RunPoolOn(process.threads());
  EtcdAccess access;
  access.machine = std::make_shared<Machine>(*this, world_, process);
  for (int member = 1; member <= kMembers; ++member) {
    access.endpoints.push_back(absl::StrCat("etcd", member, ":2379"));
  }
  return access;
}

absl::Duration SimEtcd::Way() {
  const absl::Duration usual = latency_ * (0.5 + random_.Unit());
  if (slow_ <= absl::ZeroDuration() || random_.Below(2) == 0) return usual;
  return usual + slow_ * random_.Unit();
}

void SimEtcd::Send(const std::string& process, int member, const std::shared_ptr<Asked>& asked,
                   Arrive arrive) {
  const auto answer_in = [this](absl::Duration way, const std::shared_ptr<Asked>& to,
                                const absl::Status& status) {
    world_.At(way, [to, status] {
      if (to->over || to->answered) return;
      to->answered = true;
      to->status = status;
      to->threads->Wake(to->by);
    });
  };
  const auto stopped = stopped_.find(member);
  if (stopped != stopped_.end()) {
    if (!stopped->second) answer_in(Way(), asked, absl::UnavailableError("connection refused"));
    return;
  }
  const auto cut = cuts_.find(process);
  if (cut != cuts_.end() && !cut->second) return;
  const Answer answer = [this, process, asked, answer_in](const absl::Status& status) {
    const bool lost = random_.Chance(lost_answers_);
    answers_lost_ += lost ? 1 : 0;
    if (!lost && cuts_.count(process) == 0) answer_in(Way(), asked, status);
  };
  const auto take = [this, asked, answer, arrive = std::move(arrive)] {
    late_ += asked->over ? 1 : 0;
    arrive(answer);
  };
  world_.At(Way(), [this, take] {
    if (!no_majority_) return take();
    if (random_.Below(2) == 0) queued_.push_back(take);
  });
}

absl::Status SimEtcd::Txn(const std::string& who, const rpc::TxnRequest& request,
                          rpc::TxnResponse* response) {
  absl::StatusOr<rpc::TxnResponse> done = state_.Txn(request);
  if (!done.ok()) return done.status();
  *response = *std::move(done);
  if (response->succeeded() && on_write_) on_write_({who, request, *response});
  TellWatchers();
  return absl::OkStatus();
}

void SimEtcd::ExpectEnd(int64_t lease) {
  world_.At(leases_[lease].end - world_.now(), [this, lease] { EndIfDue(lease); });
}

void SimEtcd::EndIfDue(int64_t lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || no_majority_ || world_.now() < found->second.end) return;
  if (on_lease_over_) on_lease_over_(lease);
  world_.At(random_.Unit() * kLeaseTick, [this, lease] {
    const auto due = leases_.find(lease);
    if (due == leases_.end() || no_majority_ || world_.now() < due->second.end) return;
    leases_.erase(due);
    state_.EndLease(lease).IgnoreError();
    TellWatchers();
  });
}

void SimEtcd::TellWatchers() {
  for (size_t i = 0; i < watchers_.size();) {
    if (!state_.ChangedSince(watchers_[i].key, watchers_[i].revision)) {
      ++i;
      continue;
    }
    const Answer answer = watchers_[i].answer;
    watchers_.erase(watchers_.begin() + static_cast<ptrdiff_t>(i));
    answer(absl::OkStatus());
  }
}

void SimEtcd::Cut(const std::string& process, bool answers_only) { cuts_[process] = answers_only; }

void SimEtcd::Resume() {
  if (!no_majority_) return;
  no_majority_ = false;
  for (auto& [id, lease] : leases_) {
    lease.end = world_.now() + lease.ttl;
    ExpectEnd(id);
  }
  std::vector<std::function<void()>> queued;
  queued.swap(queued_);
  for (const auto& take : queued) take();
}

void SimEtcd::HealAll() {
  slow_ = absl::ZeroDuration();
  lost_answers_ = 0;
  cuts_.clear();
  stopped_.clear();
  Resume();
}

}  // namespace atolld
