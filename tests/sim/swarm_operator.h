// SwarmOperator: a person at a machine of their own who gives the coordinator orders, and repeats
// each until it is answered, or another one about the same thing is given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/env/env.h"
#include "tests/sim/sim_world.h"

namespace atolld {

class SwarmOperator {
 public:
  // `coordinators`: names; one after another is asked.
  SwarmOperator(SimWorld& world, std::vector<std::string> coordinators)
      : world_(world), coordinators_(std::move(coordinators)) {}

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
  const std::vector<std::string> coordinators_;
  size_t asked_ = 0;                                         // the one that answered last
  uint64_t number_ = 0;                                      // of the newest order
  std::map<std::string, std::unique_ptr<Pending>> pending_;  // by topic
};

}  // namespace atolld
