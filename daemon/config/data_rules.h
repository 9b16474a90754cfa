// The rules for the keys of [data] that say how tokens are made. Pure. May be called from any
// thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/data_config.h"

namespace atolld {

struct DataFault {
  // The keys to change, each with its section.
  std::vector<std::pair<std::string, std::string>> keys;
  std::string what;  // empty if nothing is wrong
};

DataFault FaultOfData(const DataConfig& data);

}  // namespace atolld
