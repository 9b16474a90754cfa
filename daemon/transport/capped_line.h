// CappedLine: what a transport uses of its machine's line - how many bytes it has sent and
// received, and, from the first cap on, the relay that keeps the caps.
//
// Without a cap nothing stands between gRPC and the network. With the first one, connections that
// were accepted before are cut: who dialled dials again, and comes through the relay then. The
// relay stays to the end; without caps it lets everything pass. Any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/transport/line_relay.h"
#include "daemon/transport/sockets.h"

namespace atolld {

// Whole messages, of all calls over the network.
struct LineCount {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

class CappedLine {
 public:
  // Bytes a second, of all that the network sees; 0: no cap. True: these are the first ones, and
  // what was dialled before should be dialled again. RESOURCE_EXHAUSTED: no descriptor is left, and
  // no cap is kept.
  absl::StatusOr<bool> SetCaps(uint64_t up_cap, uint64_t down_cap);

  bool relays();

  // What gRPC is to dial for "host:port"; `first`: before others.
  absl::StatusOr<std::string> TargetOf(const std::string& address, bool first);

  // What gRPC is to serve for a connection that was accepted.
  absl::StatusOr<Socket> Accepted(Socket accepted);

  LineCount& count() { return count_; }

 private:
  void CutDirectLocked();

  LineCount count_;  // own synchronisation

  // Guarded by mutex_.
  std::mutex mutex_;
  std::unique_ptr<LineRelay> relay_;
  // Descriptors that gRPC was given without a relay, and what they were; gRPC closes them.
  std::map<int, ino_t> direct_;
};

}  // namespace atolld
