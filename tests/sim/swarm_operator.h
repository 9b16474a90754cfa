// SwarmOperator: gives orders to the coordinator from a separate machine, as a person would. It
// repeats each order until it is answered or until another order about the same topic is given.
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
  // `coordinators` are their names; they are asked in turn.
  SwarmOperator(SimWorld& world, std::vector<std::string> coordinators)
      : world_(world), coordinators_(std::move(coordinators)) {}

  // `topic` is what the order is about: a peer, or the run. `method` is one of Admin's, such as
  // "PauseRun". `on_done` runs when an answer shows that the order was carried out.
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
  // Returns the pending order if its number is `number`.
  Pending* Find(const std::string& topic, uint64_t number);
  void OnClosed(const std::string& topic, uint64_t number, const absl::Status& status);

  SimWorld& world_;
  const std::vector<std::string> coordinators_;
  size_t asked_ = 0;                                         // the coordinator that answered last
  uint64_t number_ = 0;                                      // the number of the newest order
  std::map<std::string, std::unique_ptr<Pending>> pending_;  // by topic
};

}  // namespace atolld
