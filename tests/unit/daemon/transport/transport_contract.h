// Tests of the contract of Transport in daemon/env/env.h. They run on any implementation, such as
// the production one and the simulator's.
//
// Link transport_contract.cc and transport_contract_ends.cc into the test program and name the
// worlds:
//   INSTANTIATE_TEST_SUITE_P(Grpc, TransportContract,
//                            ::testing::Values(WorldMaker{"Tcp", MakeTcpWorld}), WorldName);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "daemon/env/env.h"
#include "gtest/gtest.h"

namespace atolld {

// Owns the two ends of a network, both on one loop.
class TransportWorld {
 public:
  virtual ~TransportWorld() = default;
  virtual Executor& executor() = 0;
  virtual Transport& server() = 0;
  virtual Transport& client() = 0;
  virtual std::string listen_address() = 0;  // free and suitable for server().Listen
  virtual std::string dead_address() = 0;    // an address on which no server listens
  // The client's identity to the server; nullopt if there are no certificates.
  virtual std::optional<Identity> client_identity() { return std::nullopt; }
  // Runs the loop until `condition` is true; returns false if `limit` passes first.
  virtual bool RunUntil(const std::function<bool()>& condition, absl::Duration limit) = 0;
};

struct WorldMaker {
  const char* name;
  std::function<std::unique_ptr<TransportWorld>()> make;
};
inline std::string WorldName(const ::testing::TestParamInfo<WorldMaker>& info) {
  return info.param.name;
}
inline void PrintTo(const WorldMaker& maker, std::ostream* out) { *out << maker.name; }

// Returns a frame whose message holds `text` of fewer than 128 bytes; the payload's bytes depend on
// both arguments.
Frame MakeFrame(const std::string& text, size_t payload_bytes = 0);
bool Same(const Frame& a, const Frame& b);

// One end of a call, which records all that happens to it.
class Endpoint {
 public:
  void Take(std::unique_ptr<Call> call) { call_ = std::move(call); }

  // Starts the call. If `reads` is true, asks for the next frame whenever one has arrived.
  void Start(bool reads);
  void Read();  // Asks for one frame.

  Call& call() { return *call_; }
  void Drop() { call_.reset(); }
  bool has_call() const { return call_ != nullptr; }

  std::vector<Frame> frames;
  int writable = 0;
  bool closed = false;
  absl::Status status;
  bool takes_parts = false;           // Set it before Start.
  std::function<void()> after_frame;  // a hook of a test
  std::function<void()> after_writable;
  std::function<void()> after_closed;

 private:
  std::unique_ptr<Call> call_;
  bool reads_ = false;
  bool inside_ = false;  // true inside a function of this class, when no callback may come
};

class TransportContract : public ::testing::TestWithParam<WorldMaker> {
 protected:
  TransportContract();

  // Listens, and keeps each accepted call in `accepted_`. `on_accept_` starts the call; by default
  // the call reads.
  void Listen();
  // Dials the listener, and returns the started call of the client.
  std::unique_ptr<Endpoint> Dial(bool reads = true,
                                 absl::Duration deadline = absl::InfiniteDuration());
  // Dials, and waits for the server's end of the call.
  void Connect(bool client_reads = true, bool server_reads = true);

  ::testing::AssertionResult Until(const std::function<bool()>& condition);
  void RunFor(absl::Duration time);

  std::unique_ptr<TransportWorld> world_;
  std::unique_ptr<Listener> listener_;
  std::string address_;
  std::vector<std::string> methods_;
  std::vector<std::unique_ptr<Endpoint>> accepted_;
  std::function<void(Endpoint&)> on_accept_ = [](Endpoint& end) { end.Start(true); };
  std::unique_ptr<Endpoint> client_;
};

}  // namespace atolld
