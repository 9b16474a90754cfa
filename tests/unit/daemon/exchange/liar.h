// Liar: a contributor that speaks the protocol by hand, and may say whatever it likes.
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

  // With the leaves of that peer's contribution, if it has one.
  void Open(const v1::Plan& plan, const std::string& name = "p3", const std::string& to = "p1");
  void OpenWithout(const v1::Plan& plan, const std::string& name, const std::string& to);
  void SendLeaves(const std::string& leaves);
  // A chunk of its own; with `contributors`, a partial mean of these. It follows `revision`.
  void Send(uint32_t chunk, uint32_t attempt, SharedBytes payload,
            const std::string& contributors = "", uint32_t revision = 1);

  int results = 0;
  std::vector<absl::Status> closed;

 private:
  Swarm& swarm_;
  std::unique_ptr<Call> call_;
};

// As long as a good chunk, but no finite number can be read from it.
SharedBytes WithNanScale(const SharedBytes& chunk);

}  // namespace atolld
