// EtcdProcess: runs a member of etcd for a test, with its own folder and ports. The destructor
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
  // Returns the path of the program: the variable ATOLL_ETCD, or build/etcd/etcd in the source tree
  // (where scripts/etcd puts it), or etcd in PATH. Returns an empty text if there is none.
  static std::string Program();

  EtcdProcess();  // returns when etcd answers
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

// A test that needs etcd must begin with this macro.
#define SKIP_WITHOUT_ETCD()                                        \
  if (::atolld::EtcdProcess::Program().empty()) {                  \
    GTEST_SKIP() << "no etcd: scripts/etcd build/etcd fetches it"; \
  }                                                                \
  static_assert(true, "")
