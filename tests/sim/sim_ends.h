// Shared by the tests of the simulated environment: an end of a call that remembers what it
// received, and two processes with a call between them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tests/sim/sim_world.h"

namespace atolld {

inline absl::Span<const uint8_t> Span(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// Reads all frames and remembers them. Sends them back if `echo` is true.
struct Reader {
  std::unique_ptr<Call> call;
  std::vector<std::string> frames;
  std::vector<absl::Status> closed;
  bool keep_reading = true;
  bool echo = false;

  void Start(std::unique_ptr<Call> started) {
    call = std::move(started);
    call->Start({[this](Frame frame) {
                   frames.emplace_back(frame.bytes());
                   if (echo) call->Write(frame);
                   if (keep_reading) call->Read();
                 },
                 nullptr, [this](absl::Status status) { closed.push_back(std::move(status)); }});
    call->Read();
  }
};

struct Pair {
  explicit Pair(uint64_t seed, SimSettings settings = SimSettings()) : world(seed, settings) {
    SimProcess& a = world.AddProcess("a");
    SimProcess& b = world.AddProcess("b");
    auto listening = b.env().transport.Listen(
        "b:1",
        [this](const std::string&, std::unique_ptr<Call> call) { server.Start(std::move(call)); });
    listener = std::move(listening).value();
    client.Start(a.env().transport.Dial("b:1", "/m", absl::InfiniteDuration()));
  }

  SimWorld world;
  std::unique_ptr<Listener> listener;
  Reader client;
  Reader server;
};

}  // namespace atolld
