// Where a run is in etcd, as its coordinator's config says; and holding it without a coordinator,
// for whoever works with the store alone. Blocking.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"
#include "daemon/etcd/etcd_client.h"
#include "daemon/etcd/leadership.h"

namespace atolld {

struct EtcdPlace {
  EtcdAccess access;
  std::string prefix;  // ends with '/'
};

// Reads the files that the config names.
absl::StatusOr<EtcdPlace> EtcdPlaceOf(Files& files, const Config& config);

// The leadership of a run, held while this exists: no coordinator leads, and none can write.
class EtcdHold {
 public:
  // `authority`: the certificate of the cluster's authority; empty in plain text. Waits for a
  // leader that has just died until its lease has ended. UNAVAILABLE: a coordinator leads, or etcd
  // does not answer. FAILED_PRECONDITION: the run's coordinators have another authority.
  static absl::StatusOr<EtcdHold> Take(const EtcdPlace& place, const Config& config,
                                       const std::string& authority);

  EtcdHold(EtcdHold&&) noexcept;
  EtcdHold& operator=(EtcdHold&&) = delete;
  ~EtcdHold();

  const std::shared_ptr<LeaderTerm>& term() const { return term_; }

 private:
  struct News;
  EtcdHold(std::unique_ptr<News> news, std::unique_ptr<Leadership> leadership);

  std::shared_ptr<LeaderTerm> term_;
  std::unique_ptr<News> news_;  // outlives the leadership, whose thread writes to it
  std::unique_ptr<Leadership> leadership_;
};

}  // namespace atolld
