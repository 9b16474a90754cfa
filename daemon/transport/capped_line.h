// CappedLine: a transport's use of its machine's line. It counts the bytes sent and received and,
// from the first cap on, owns the relay that keeps the caps.
//
// Until the first cap, gRPC is connected directly to the network. The first cap cuts the
// connections that were accepted before; the peers at their other ends dial again, and their new
// connections go through the relay. The relay then remains for good, and lets everything pass when
// there are no caps. Thread-safe.
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

// The bytes of the messages that all calls over the network have carried.
struct LineCount {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

class CappedLine {
 public:
  // Sets the caps, in bytes a second of everything that goes over the network, headers included; 0
  // means no cap. Returns true if these are the first caps, so that everything dialled before
  // should be dialled again. Fails with RESOURCE_EXHAUSTED if no descriptor is left; then no cap is
  // kept.
  absl::StatusOr<bool> SetCaps(uint64_t up_cap, uint64_t down_cap);

  bool relays();

  // Returns what gRPC has to dial for "host:port"; `numbers` is its numeric address (see
  // AddressBook). When there is a relay, the relay looks up the address itself. If `first` is true,
  // the connection has priority over the others.
  absl::StatusOr<std::string> TargetOf(const std::string& address, const std::string& numbers,
                                       bool first);

  // Returns the socket that gRPC has to serve for an accepted connection.
  absl::StatusOr<Socket> Accepted(Socket accepted);

  LineCount& count() { return count_; }

 private:
  void CutDirectLocked();

  LineCount count_;  // thread-safe

  // Guarded by mutex_.
  std::mutex mutex_;
  std::unique_ptr<LineRelay> relay_;
  // The descriptors that gRPC was given without a relay, and the inode of each. gRPC closes them.
  std::map<int, ino_t> direct_;
};

}  // namespace atolld
