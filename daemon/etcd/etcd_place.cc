#include "daemon/etcd/etcd_place.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config_sections.h"
#include "daemon/etcd/grpc_etcd.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

// The time in addition to a dead leader's lease: for etcd to notice that it has ended, and to
// answer.
constexpr absl::Duration kBeyondLease = absl::Seconds(2);

absl::StatusOr<std::string> PemIn(Files& files, const std::string& path) {
  if (path.empty()) return std::string();
  return ReadFile(files, path, kLargestPemFile);
}

}  // namespace

absl::StatusOr<EtcdPlace> EtcdPlaceOf(Files& files, const Config& config) {
  const Config::Coordinator& coordinator = config.coordinator;
  EtcdPlace place;
  place.access.machine = MakeGrpcEtcd();
  place.access.endpoints = SplitNames(coordinator.etcd);
  ASSIGN_OR_RETURN(place.access.authority, PemIn(files, coordinator.etcd_authority));
  ASSIGN_OR_RETURN(place.access.certificate, PemIn(files, coordinator.etcd_certificate));
  ASSIGN_OR_RETURN(place.access.key, PemIn(files, coordinator.etcd_key));
  place.prefix = absl::StrCat(coordinator.etcd_prefix, "/", config.run.id, "/");
  return place;
}

struct EtcdHold::News {
  std::mutex mutex;
  std::condition_variable comes;
  // Guarded by mutex.
  std::shared_ptr<LeaderTerm> term;
  std::string leader, trouble;
  absl::Status failed;

  template <typename Change>
  void Tell(const Change& change) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      change();
    }
    comes.notify_all();
  }

  Leadership::Events Events() {
    Leadership::Events events;
    events.on_leading = [this](std::shared_ptr<LeaderTerm> won) { Tell([&] { term = won; }); };
    // The term says so itself.
    events.on_lost = [](const std::shared_ptr<LeaderTerm>&, const std::string&) {};
    events.on_leader = [this](const std::string& who) { Tell([&] { leader = who; }); };
    events.on_trouble = [this](const std::string& what) { Tell([&] { trouble = what; }); };
    events.on_failed = [this](const absl::Status& why) { Tell([&] { failed = why; }); };
    return events;
  }

  absl::StatusOr<std::shared_ptr<LeaderTerm>> Await(absl::Duration patience,
                                                    const std::string& where) {
    std::unique_lock<std::mutex> lock(mutex);
    comes.wait_for(lock, absl::ToChronoNanoseconds(patience),
                   [this] { return term != nullptr || !failed.ok(); });
    if (term != nullptr) return term;
    RETURN_IF_ERROR(failed);
    if (!trouble.empty()) return absl::UnavailableError(trouble);
    return absl::UnavailableError(absl::StrCat(
        where, " in etcd: ",
        leader.empty() ? "no answer"
                       : absl::StrCat("the coordinator at ", leader,
                                      " leads the run: stop all of its coordinators first")));
  }
};

EtcdHold::EtcdHold(std::unique_ptr<News> news, std::unique_ptr<Leadership> leadership)
    : news_(std::move(news)), leadership_(std::move(leadership)) {}
EtcdHold::EtcdHold(EtcdHold&&) noexcept = default;
EtcdHold::~EtcdHold() = default;

absl::StatusOr<EtcdHold> EtcdHold::Take(const EtcdPlace& place, const Config& config,
                                        const std::string& authority) {
  Leadership::Settings settings;
  settings.etcd = place.access;
  settings.prefix = place.prefix;
  settings.ttl = config.coordinator.etcd_lease;
  settings.address = config.coordinator.address;
  settings.authority = authority;
  settings.opening = absl::InfiniteDuration();
  auto news = std::make_unique<News>();
  auto leadership = std::make_unique<Leadership>(settings, news->Events());
  EtcdHold hold(std::move(news), std::move(leadership));
  ASSIGN_OR_RETURN(hold.term_, hold.news_->Await(settings.ttl + kBeyondLease, place.prefix));
  return hold;
}

}  // namespace atolld
