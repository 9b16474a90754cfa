// A call that the network remembers and makes a second time, without a client that reads the
// answers; this proves that the server's side is idempotent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/env/env.h"

namespace atolld {

struct SimRecordedCall {
  std::string process;  // the process that made the call
  std::string address;
  std::string method;
  std::vector<Frame> frames;  // the first frames that were sent
  bool finished = false;      // true if these are all frames, up to the half-close
};

// Sends the frames over `call` and reads all answers. The call lives as long as the result.
std::shared_ptr<void> SendAgain(std::unique_ptr<Call> call, const SimRecordedCall& recorded);

}  // namespace atolld
