// The keys of [coordinator] about the store, and about several coordinators that share a store.
// Plain data.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace atolld {

inline constexpr char kEtcdStoreName[] = "etcd";

struct StoreConfig {
  std::string others =
      "";  // "host:port,host:port": the run's other coordinators; peers also use it
  std::string store = "sqlite";  // or kEtcdStoreName
  // The following keys are for store "etcd" alone.
  std::string etcd = "";  // etcd's endpoints, "host:port,host:port"
  std::string etcd_prefix = "atoll";
  absl::Duration etcd_lease = absl::Seconds(2);                           // whole seconds
  std::string etcd_authority = "", etcd_certificate = "", etcd_key = "";  // files in PEM
};

}  // namespace atolld
