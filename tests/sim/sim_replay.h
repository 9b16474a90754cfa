// A call that the network remembers and makes a second time, with nobody at the client's end: it
// proves that the server's side is idempotent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/env/env.h"

namespace atolld {

struct SimRecordedCall {
  std::string process;  // who made it
  std::string address;
  std::string method;
  std::vector<Frame> frames;  // the first that were sent
  bool finished = false;      // and they were all, up to the half-close
};

// Sends the frames over `call` and reads whatever comes. The call lives as long as the result.
std::shared_ptr<void> SendAgain(std::unique_ptr<Call> call, const SimRecordedCall& recorded);

}  // namespace atolld
