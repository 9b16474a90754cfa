// The EtcdMachine of production: it uses gRPC to etcd's members, and the system's threads and
// clock.
#pragma once

#include <memory>

#include "daemon/etcd/etcd_machine.h"

namespace atolld {

// Returns the machine. Each of its connections has a channel of its own, so that its failures
// affect no other connection.
std::shared_ptr<EtcdMachine> MakeGrpcEtcd();

}  // namespace atolld
