// LineRelay: keeps the caps of a line, byte by byte, for all connections of a process together.
//
// gRPC hands whole messages to the kernel, and the kernel takes in a whole window before anything
// reads it. A cap on messages would therefore let through whole messages in bursts. Instead, gRPC
// is connected to a socket of this process, and the relay's thread moves the bytes (which TLS has
// already encrypted) between that socket and the network, no faster than the caps allow. The relay
// holds back a sender by not reading: TCP's window closes, and the sender waits.
//
// The caps count what goes over the network: the kernel reports how many packets a connection has
// sent, received and retransmitted, and each packet is charged with its headers. The connections
// share the allowance equally. A connection with priority (the Session with the coordinator) waits
// for no other, and what it uses reduces the share of the others.
//
// When one end of a connection closes, on gRPC's side or on the network's, the relay closes the
// other. Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/transport/sockets.h"

namespace atolld {

// Marks an accepted connection: gRPC's name for its other end is "unix-abstract:", this mark, a
// unique part, "/" and the address of the peer that connected.
inline constexpr char kRelayedName[] = "atoll-from/";

class LineRelay {
 public:
  // Fails with RESOURCE_EXHAUSTED if no descriptor is left.
  static absl::StatusOr<std::unique_ptr<LineRelay>> Start(uint64_t up_cap, uint64_t down_cap);
  ~LineRelay();  // closes all connections

  // Sets the caps in bytes a second; 0 means no cap.
  void SetCaps(uint64_t up_cap, uint64_t down_cap);

  // Returns the address that gRPC dials to reach "host:port" through the relay. Each time gRPC
  // dials, the relay looks up the name anew and connects. If `first` is true, the connections have
  // priority. Fails with RESOURCE_EXHAUSTED if no descriptor is left.
  absl::StatusOr<std::string> Through(const std::string& address, bool first);

  // Takes over an accepted connection, and returns the socket that gRPC serves in its place.
  absl::StatusOr<Socket> Take(Socket accepted);

 private:
  class Way;
  class Connection;
  struct Inbox;
  class Loop;
  explicit LineRelay(std::shared_ptr<Inbox> inbox);

  const std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<Loop> loop_;
};

// -----------------------------------------------------------------------------------------------

// CapBucket: says how much may still pass in one direction of a line whose owner has set a cap.
//
// It is a token bucket that may go into debt. Bytes that passed without permission (packets that
// the kernel took in before anything read them, headers, acknowledgements) are charged when they
// are seen, and the caller waits until that debt is paid. Law: from a moment without debt on, the
// bytes charged in any time T are at most rate x T, plus what kSaved of idle time has saved, plus
// the bytes that passed without permission.
//
// It has no clock: the caller passes the time, which never goes back. Pure. Used by one thread.

class CapBucket {
 public:
  // Idle time beyond this saves nothing, so that a burst after a pause stays far below the
  // tolerance of the cap: 60 ms are 1.2 % of a window of five seconds. A shorter limit would waste
  // part of the line, because a caller on a busy machine often comes up to 60 ms late.
  static constexpr absl::Duration kSaved = absl::Milliseconds(60);

  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

  // Sets the cap in bytes a second. 0 means no cap, and cancels the debt.
  void SetRate(absl::Time now, uint64_t rate);
  uint64_t rate() const { return rate_; }

  // Returns the number of bytes that may pass now. Traffic with priority may also use the allowance
  // of the next `ahead` of time.
  size_t Allowed(absl::Time now, absl::Duration ahead = absl::ZeroDuration());

  void Charge(absl::Time now, uint64_t bytes);

  // Returns the time until this number of bytes is allowed.
  absl::Duration Wait(absl::Time now, size_t bytes);

 private:
  void Fill(absl::Time now);

  uint64_t rate_ = 0;
  double tokens_ = 0;  // in bytes; negative if there is a debt
  absl::Time filled_ = absl::InfinitePast();
};

// -----------------------------------------------------------------------------------------------

// CappedLine: a transport's use of its machine's line. It counts the bytes sent and received and,
// from the first cap on, owns the relay that keeps the caps.
//
// Until the first cap, gRPC is connected directly to the network. The first cap cuts the
// connections that were accepted before; the peers at their other ends dial again, and their new
// connections go through the relay. The relay then remains for good, and lets everything pass when
// there are no caps. Thread-safe.

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
