// EtcdModel: runs the real leadership and store of several coordinators on a simulated etcd with
// faults, one run per seed.
//
// Two or three processes, which die and restart, wait for their turn. The leader reads the run and
// applies updates of every shape one after another, as fast as etcd accepts them. Beyond EtcdLaw it
// checks that all acknowledged updates are there at the end, and that after all faults are healed a
// process leads and writes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace atolld {

struct EtcdModelResult {
  uint64_t digest = 0;
  uint64_t events = 0;
  uint64_t terms = 0;    // How many terms of leaders there were.
  uint64_t updates = 0;  // How many updates were acknowledged.
  uint64_t unknown = 0;  // How many ended without an answer.
  uint64_t late = 0;     // Requests that took effect after their sender had given up.
  uint64_t faults = 0;
  std::optional<std::string> violation;
};

// `tell` is called with a line about each event.
EtcdModelResult RunEtcdModel(uint64_t seed,
                             const std::function<void(const std::string&)>& tell = nullptr);

}  // namespace atolld
