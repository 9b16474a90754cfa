// What must hold between the keys of [data] that say how tokens are made. Pure; any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/data_config.h"

namespace atolld {

struct DataFault {
  std::vector<std::pair<std::string, std::string>> keys;  // section and key: those to change
  std::string what;                                       // empty: nothing is wrong
};

DataFault FaultOfData(const DataConfig& data);

}  // namespace atolld
