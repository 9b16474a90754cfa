// Liar: a contributor that may send anything, because the test writes its messages.
//
// It dials from the process "liar" of the swarm's world, which the test adds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {

class Liar {
 public:
  explicit Liar(Swarm& swarm) : swarm_(swarm) {}

  // Opens a call with the leaves of the contribution of the peer `name`, if it has one.
  void Open(const v1::Plan& plan, const std::string& name = "p3", const std::string& to = "p1");
  void OpenWithout(const v1::Plan& plan, const std::string& name, const std::string& to);
  void SendLeaves(const std::string& leaves);
  // Sends a chunk under `revision`: the liar's own chunk or, if `contributors` is given, a partial
  // mean of these contributors.
  void Send(uint32_t chunk, uint32_t attempt, SharedBytes payload,
            const std::string& contributors = "", uint32_t revision = 1);

  int results = 0;
  std::vector<absl::Status> closed;

 private:
  Swarm& swarm_;
  std::unique_ptr<Call> call_;
};

// Returns bytes as long as `chunk` from which no finite number can be read.
SharedBytes WithNanScale(const SharedBytes& chunk);

}  // namespace atolld
