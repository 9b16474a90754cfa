// The machine of production for what is kept in etcd: gRPC to its members, and the system's
// threads and clock.
#pragma once

#include <memory>

#include "daemon/etcd/etcd_machine.h"

namespace atolld {

// Each way has a channel of its own, whose failures are nobody else's.
std::shared_ptr<EtcdMachine> MakeGrpcEtcd();

}  // namespace atolld
