// EtcdModel: what the real leadership and store of several coordinators do to a simulated etcd,
// under faults, from one seed each.
//
// Two or three processes, as many times as they live, wait for their turn; whoever leads reads the
// run and applies updates of every shape one after another, as fast as etcd takes them. Beside what
// EtcdLaw sees, all that was acknowledged must be there at the end, and once all is healed somebody
// leads and writes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace atolld {

struct EtcdModelResult {
  uint64_t digest = 0;
  uint64_t events = 0;
  uint64_t terms = 0;    // of leaders
  uint64_t updates = 0;  // acknowledged
  uint64_t unknown = 0;  // that ended without an answer
  uint64_t late = 0;     // requests that took effect when their sender had given up
  uint64_t faults = 0;
  std::optional<std::string> violation;
};

// `tell` hears what happens.
EtcdModelResult RunEtcdModel(uint64_t seed,
                             const std::function<void(const std::string&)>& tell = nullptr);

}  // namespace atolld
