#include "daemon/transport/address_book.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "daemon/transport/sockets.h"

namespace atolld {
namespace {

// A fault on the way (an MTU, a misconfigured firewall) lasts longer than a few calls.
constexpr absl::Duration kBlamed = absl::Minutes(1);

absl::Status Closed() { return absl::UnavailableError("the transport was closed"); }

}  // namespace

void AddressBook::Find(const std::string& address, Ready ready) {
  if (absl::StartsWith(address, "unix:") || IsNumericAddress(address)) return ready(address);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) {
      std::vector<Ready>& waiting = names_[address].waiting;
      waiting.push_back(std::move(ready));
      if (waiting.size() > 1) return;  // by whoever came first
      ready = nullptr;
    }
  }
  if (ready) return ready(Closed());
  try {
    std::thread([self = shared_from_this(), address] { self->Search(address); }).detach();
  } catch (const std::system_error& error) {  // no thread is left
    Answer(address, absl::ResourceExhaustedError(error.what()));
  }
}

void AddressBook::Search(const std::string& address) {
  const absl::Time end = absl::Now() + patience_;
  absl::StatusOr<std::vector<std::string>> found = FindAddresses(address, end);
  if (!found.ok()) return Answer(address, found.status());
  const std::vector<std::string> addresses = InOrder(address, *std::move(found));
  if (addresses.size() == 1) return Answer(address, addresses[0]);
  const absl::StatusOr<TcpConnection> made = ConnectToFirst(addresses, end);
  if (!made.ok()) return Answer(address, made.status());
  Answer(address, made->address);
}

// Blamed addresses come last, and are only used if there is no other.
std::vector<std::string> AddressBook::InOrder(const std::string& address,
                                              std::vector<std::string> found) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, absl::Time>& blamed = names_[address].blamed;
  for (auto it = blamed.begin(); it != blamed.end();) {
    it = absl::Now() > it->second + kBlamed ? blamed.erase(it) : std::next(it);
  }
  const auto first_blamed = std::stable_partition(
      found.begin(), found.end(),
      [&blamed](const std::string& numbers) { return blamed.count(numbers) == 0; });
  if (first_blamed != found.begin()) found.erase(first_blamed, found.end());
  return found;
}

void AddressBook::Answer(const std::string& address, const absl::StatusOr<std::string>& numbers) {
  std::vector<Ready> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Name& name = names_[address];
    waiting.swap(name.waiting);
    ++answering_;
    // All of them have failed by now, so none is worse than the others.
    if (!numbers.ok()) name.blamed.clear();
    if (name.blamed.empty()) names_.erase(address);
  }
  for (const Ready& ready : waiting) ready(numbers);
  waiting.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  --answering_;
  answered_.notify_all();
}

void AddressBook::Blame(const std::string& address, const std::string& numbers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_) names_[address].blamed[numbers] = absl::Now();
}

void AddressBook::Close() {
  std::vector<Ready> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    for (auto& [address, name] : names_) {
      for (Ready& ready : name.waiting) waiting.push_back(std::move(ready));
      name.waiting.clear();
    }
  }
  for (const Ready& ready : waiting) ready(Closed());
  std::unique_lock<std::mutex> lock(mutex_);
  answered_.wait(lock, [this] { return answering_ == 0; });
}

}  // namespace atolld
