// AddressBook: finds the address that a transport dials for a name, without holding up the loop.
//
// gRPC tries the addresses of a name in turn and waits for each until its time is over, so a single
// address that a firewall drops would hold up every call. Therefore gRPC is only given numeric
// addresses. A name with one address only needs a look-up. The addresses of a name with several are
// tried side by side (ConnectToFirst), and the first that answers is taken. An address on which no
// call could be begun is tried after the others for the next minute, because it may accept
// connections and answer nothing.
//
// Thread-safe. It waits on threads of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace atolld {

class AddressBook : public std::enable_shared_from_this<AddressBook> {
 public:
  // Receives the numeric address in the form of FindAddresses, or the address itself if it is a
  // socket of this machine.
  using Ready = std::function<void(absl::StatusOr<std::string>)>;

  // `patience` is the time for one search, that is, for the look-up and the connection together.
  explicit AddressBook(absl::Duration patience) : patience_(patience) {}

  // Calls `ready` once: immediately if nothing has to be looked up, otherwise on another thread.
  // Fails with the errors of FindAddresses and ConnectToFirst, and with UNAVAILABLE after Close.
  void Find(const std::string& address, Ready ready);

  // Call this when no call could be begun at the numeric address `numbers`, which Find gave for
  // `address`. The next searches then try it last.
  void Blame(const std::string& address, const std::string& numbers);

  // Fails all searches under way and all later ones with UNAVAILABLE. After it has returned, no
  // thread of this object holds a `ready` any more. Must not be called by a `ready`.
  void Close();

 private:
  struct Name {
    // The callers of the search under way; empty if there is none.
    std::vector<Ready> waiting;
    // The time of the last failure of each numeric address.
    std::map<std::string, absl::Time> blamed;
  };
  void Search(const std::string& address);
  std::vector<std::string> InOrder(const std::string& address, std::vector<std::string> found);
  void Answer(const std::string& address, const absl::StatusOr<std::string>& numbers);

  const absl::Duration patience_;

  std::condition_variable answered_;
  // Guarded by mutex_.
  std::mutex mutex_;
  bool closed_ = false;
  int answering_ = 0;  // how many threads hold callers that they answer
  std::map<std::string, Name> names_;
};

}  // namespace atolld
