// Finds a run's place in etcd from its coordinator's config (EtcdPlaceOf), and lets a tool that
// works with the store alone hold the leadership of the run (EtcdHold). The calls block.
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
  std::string prefix;  // The prefix of the run's keys; ends with '/'.
};

// Returns the run's place. Reads the credential files that the config names.
absl::StatusOr<EtcdPlace> EtcdPlaceOf(Files& files, const Config& config);

// The leadership of a run, which is held while this object exists. Meanwhile no coordinator leads
// the run or can write to its store.
class EtcdHold {
 public:
  // Takes the leadership. `authority` is the certificate of the cluster's authority; empty if the
  // cluster uses plain text. If a leader has just died, waits until its lease has ended. Fails with
  // UNAVAILABLE if a coordinator leads or etcd does not answer, and with FAILED_PRECONDITION if the
  // run's coordinators have another authority.
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
  std::unique_ptr<News> news_;  // Must outlive leadership_, whose thread writes to it.
  std::unique_ptr<Leadership> leadership_;
};

}  // namespace atolld
