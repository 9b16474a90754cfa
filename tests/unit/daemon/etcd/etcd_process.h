// EtcdProcess: a member of etcd for a test, with a folder and ports of its own; the destructor
// kills it.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/etcd/etcd_client.h"
#include "daemon/etcd/grpc_etcd.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {

class EtcdProcess {
 public:
  // Returns the program: ATOLL_ETCD, build/etcd/etcd of the source tree (scripts/etcd puts it
  // there), or etcd in PATH; empty if there is none.
  static std::string Program();

  EtcdProcess();  // Returns when etcd answers.
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  EtcdAccess access() const;

 private:
  const TemporaryDirectory directory_;
  std::string endpoint_;
  pid_t pid_ = -1;
};

// Returns a port on loopback on which no server listens.
std::string DeadEndpoint();

}  // namespace atolld

// Use it first in a test that needs etcd.
#define SKIP_WITHOUT_ETCD()                                        \
  if (::atolld::EtcdProcess::Program().empty()) {                  \
    GTEST_SKIP() << "no etcd: scripts/etcd build/etcd fetches it"; \
  }                                                                \
  static_assert(true, "")
