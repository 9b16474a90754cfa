// Finding: one result of the checks that a machine makes on itself, as one line for people.
#pragma once

#include <string>

namespace atolld {

struct Finding {
  enum class Weight { kGood, kDoubtful, kFatal };  // fatal: joining would fail
  Weight weight = Weight::kGood;
  std::string line;  // "disk: 120 GB free in /home/a/atoll"
};

}  // namespace atolld
