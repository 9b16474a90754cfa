#include "daemon/etcd/leadership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

using Clock = LeaderTerm::Clock;

// The part of the lease's time before its end at which the leader stops, because of the requests
// under way then.
constexpr int kMargin = 8;
// How often the lease is renewed in its time, and the part of it that one endpoint gets for an
// answer.
constexpr int kBeats = 4;

// The pause after a watch that failed; the next look asks another endpoint.
constexpr absl::Duration kPoll = absl::Milliseconds(100);

// The time for returning the lease at the end, which only saves others some time.
constexpr absl::Duration kFarewell = absl::Seconds(1);

EtcdAccess Hasty(EtcdAccess access, absl::Duration ttl) {
  access.one_try = std::min(access.one_try, ttl / kBeats);
  return access;
}

void AddRange(const std::string& key, rpc::RequestOp* operation) {
  operation->mutable_request_range()->set_key(key);
}

void AddPut(const std::string& key, const std::string& value, int64_t lease,
            rpc::RequestOp* operation) {
  operation->mutable_request_put()->set_key(key);
  operation->mutable_request_put()->set_value(value);
  operation->mutable_request_put()->set_lease(lease);
}

}  // namespace

LeaderTerm::LeaderTerm(std::shared_ptr<const EtcdMachine> machine, std::string key, int64_t fence,
                       int64_t lease, Clock::time_point until)
    : machine_(std::move(machine)),
      key_(std::move(key)),
      fence_(fence),
      lease_(lease),
      until_(until.time_since_epoch().count()) {}

void LeaderTerm::AddCompares(rpc::TxnRequest* request) const {
  if (Planted(PlantedBug::kNoFence)) return;
  rpc::Compare* const created = request->add_compare();
  created->set_key(key_);
  created->set_target(rpc::Compare::CREATE);
  created->set_create_revision(fence_);
  rpc::Compare* const leased = request->add_compare();
  leased->set_key(key_);
  leased->set_target(rpc::Compare::LEASE);
  leased->set_lease(lease_);
}

bool LeaderTerm::IsIn(const rpc::RangeResponse& election) const {
  return election.kvs_size() == 1 && election.kvs(0).create_revision() == fence_ &&
         election.kvs(0).lease() == lease_;
}

bool LeaderTerm::over() const {
  const bool late = machine_->Now().time_since_epoch().count() >= until_;
  if (late && !Planted(PlantedBug::kStaleLease)) ended_ = true;
  return ended_;
}

absl::Duration LeaderTerm::left() const {
  if (over()) return absl::ZeroDuration();
  const Clock::duration left(until_ - machine_->Now().time_since_epoch().count());
  return std::max(absl::ZeroDuration(), absl::FromChrono(left));
}

void LeaderTerm::Extend(Clock::time_point until) { until_ = until.time_since_epoch().count(); }

void LeaderTerm::End() { ended_ = true; }

Leadership::Leadership(Settings settings, Events events)
    : settings_(std::move(settings)),
      events_(std::move(events)),
      machine_(settings_.etcd.machine),
      election_(settings_.prefix + "leader"),
      authority_(settings_.prefix + "authority"),
      client_(Hasty(settings_.etcd, settings_.ttl)),
      thread_(machine_->Start([this] { Work(); })) {}

Leadership::~Leadership() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  machine_->WakeAll();
  client_.Cancel();
  thread_.reset();
}

void Leadership::Release() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    released_ = true;
  }
  machine_->WakeAll();
}

bool Leadership::Pause(absl::Duration wait) {
  std::unique_lock<std::mutex> lock(mutex_);
  machine_->Await(lock, wait, [this] { return stopping_; });
  return !stopping_;
}

void Leadership::NoteTrouble(const absl::Status& status) {
  const std::string trouble = status.ok() ? "" : std::string(status.message());
  if (trouble.empty() == trouble_.empty()) return;
  trouble_ = trouble;
  events_.on_trouble(trouble_);
}

void Leadership::Work() {
  while (Pause(absl::ZeroDuration())) {
    const absl::StatusOr<Seen> seen = Look();
    NoteTrouble(seen.status());
    if (!seen.ok()) {
      Pause(kPoll);
      continue;
    }
    if (!seen->authority.empty() && seen->authority != settings_.authority) {
      events_.on_failed(absl::FailedPreconditionError(absl::StrCat(
          "the run's coordinators in ", settings_.prefix,
          " of etcd have another authority than this folder: all of them need the same keys, so "
          "make this one's folder with `atolld coordinator --backup` of another")));
      return;
    }
    if (!seen->leader.empty()) {
      AwaitNews(*seen);
      continue;
    }
    const absl::StatusOr<std::shared_ptr<LeaderTerm>> term = Campaign();
    if (!term.ok()) {
      NoteTrouble(term.status());
      Pause(kPoll);
    } else if (*term != nullptr) {
      Lead(*term);
    }
  }
}

absl::StatusOr<Leadership::Seen> Leadership::Look() {
  rpc::TxnRequest request;
  AddRange(election_, request.add_success());
  AddRange(authority_, request.add_success());
  ASSIGN_OR_RETURN(const rpc::TxnResponse response, client_.Txn(request, settings_.ttl));
  if (response.responses_size() != 2) return absl::DataLossError("etcd gives an unexpected answer");
  Seen seen;
  seen.revision = response.header().revision();
  const rpc::RangeResponse& election = response.responses(0).response_range();
  const rpc::RangeResponse& authority = response.responses(1).response_range();
  if (election.kvs_size() > 0) seen.leader = election.kvs(0).value();
  if (authority.kvs_size() > 0) seen.authority = authority.kvs(0).value();
  return seen;
}

void Leadership::AwaitNews(const Seen& seen) {
  if (seen.leader != leader_) {
    leader_ = seen.leader;
    events_.on_leader(leader_);
  }
  // A watch may be cut off without a word, so it never lasts long.
  if (!client_.AwaitChange(election_, seen.revision, settings_.ttl).ok()) Pause(kPoll);
}

absl::StatusOr<std::shared_ptr<LeaderTerm>> Leadership::Campaign() {
  const Clock::time_point asked = machine_->Now();
  ASSIGN_OR_RETURN(const int64_t lease, client_.Grant(settings_.ttl, settings_.ttl));
  rpc::TxnRequest request;
  rpc::Compare* const compare = request.add_compare();
  compare->set_key(election_);
  compare->set_target(rpc::Compare::CREATE);
  compare->set_create_revision(0);
  AddPut(election_, settings_.address, lease, request.add_success());
  if (!settings_.authority.empty()) {
    AddPut(authority_, settings_.authority, 0, request.add_success());
  }
  AddRange(election_, request.add_failure());
  ASSIGN_OR_RETURN(const rpc::TxnResponse response, client_.Txn(request, settings_.ttl));
  int64_t fence = 0;
  if (response.succeeded()) {
    fence = response.header().revision();
  } else if (response.responses_size() == 1) {
    // An earlier try whose answer was lost may have made the key.
    const rpc::RangeResponse& election = response.responses(0).response_range();
    if (election.kvs_size() == 1 && election.kvs(0).lease() == lease) {
      fence = election.kvs(0).create_revision();
    }
  }
  if (fence != 0) {
    return std::make_shared<LeaderTerm>(
        machine_, election_, fence, lease,
        asked + absl::ToChronoNanoseconds(settings_.ttl - settings_.ttl / kMargin));
  }
  client_.Revoke(lease, kPoll).IgnoreError();  // else it ends by itself
  return nullptr;
}

std::string Leadership::Hold(LeaderTerm& term) {
  std::string last;
  uint64_t ticks = 0;  // at the newest renewal
  bool stands_still = false;
  const Clock::time_point opens_until =
      settings_.opening == absl::InfiniteDuration()
          ? Clock::time_point::max()
          : machine_->Now() + absl::ToChronoNanoseconds(settings_.opening);
  while (Pause(std::min(term.left(), settings_.ttl / kBeats))) {
    if (term.over()) {
      if (stands_still) return "its loop stands still, so its lease was not kept alive";
      return absl::StrCat("its lease could not be kept alive", last.empty() ? "" : ": ", last);
    }
    const Clock::time_point asked = machine_->Now();
    const uint64_t now = term.ticks();
    stands_still = now == ticks && (now > 0 || asked >= opens_until);
    if (stands_still) continue;
    ticks = now;
    const absl::Status kept = client_.KeepAlive(term.lease(), term.left());
    if (absl::IsNotFound(kept)) return "its lease has ended";
    last = std::string(kept.message());
    if (kept.ok()) {
      term.Extend(asked + absl::ToChronoNanoseconds(settings_.ttl - settings_.ttl / kMargin));
    }
  }
  return "";
}

void Leadership::Lead(const std::shared_ptr<LeaderTerm>& term) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    released_ = false;
  }
  leader_.clear();
  events_.on_leading(term);
  const std::string why = Hold(*term);
  const bool had = !term->over();
  term->End();
  if (!why.empty()) events_.on_lost(term, why);
  // The client is cancelled by now, if this is the end.
  if (why.empty() && had) EtcdClient(settings_.etcd).Revoke(term->lease(), kFarewell).IgnoreError();
  std::unique_lock<std::mutex> lock(mutex_);
  machine_->Await(lock, absl::InfiniteDuration(), [this] { return stopping_ || released_; });
}

}  // namespace atolld
