// SwarmOperator: a person at a machine of their own who gives the coordinator orders, and repeats
// each until it is answered, or another one about the same thing is given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/env/env.h"
#include "tests/sim/sim_world.h"

namespace atolld {

class SwarmOperator {
 public:
  explicit SwarmOperator(SimWorld& world) : world_(world) {}

  // `topic` is what the order is about: a peer, the run. `method` is one of Admin's, "PauseRun".
  // `on_done` runs when the order is known to be obeyed.
  void Order(const std::string& topic, const std::string& method, Frame request,
             std::function<void()> on_done);

 private:
  struct Pending {
    uint64_t number;
    std::string method;
    Frame request;
    std::function<void()> on_done;
    std::unique_ptr<Call> call;
  };

  void Try(const std::string& topic);
  // The order that is pending still, if it is the one of this number.
  Pending* Find(const std::string& topic, uint64_t number);
  void OnClosed(const std::string& topic, uint64_t number, const absl::Status& status);

  SimWorld& world_;
  uint64_t number_ = 0;                                      // of the newest order
  std::map<std::string, std::unique_ptr<Pending>> pending_;  // by topic
};

}  // namespace atolld
