// SwarmOperator: a person at a machine of their own who gives the coordinator orders, and repeats
// each until it is answered or the next one is given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/env.h"
#include "tests/sim/sim_world.h"

namespace atolld {

class SwarmOperator {
 public:
  explicit SwarmOperator(SimWorld& world) : world_(world) {}

  // `method` is one of Admin's, "PauseRun". `on_done` runs when the order is known to be obeyed.
  void Order(const std::string& method, Frame request, std::function<void()> on_done);

 private:
  struct Pending {
    std::string method;
    Frame request;
    std::function<void()> on_done;
    std::unique_ptr<Call> call;
  };

  void Try();
  void OnClosed(uint64_t number, const absl::Status& status);

  SimWorld& world_;
  uint64_t number_ = 0;  // of the newest order
  std::unique_ptr<Pending> pending_;
};

}  // namespace atolld
