// PayloadCheck: an entry's payload on disk against the digest in its header, a block at a time.
//
// One thread at a time, any thread, blocking for a block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

class PayloadCheck {
 public:
  // NOT_FOUND: the payload is not there.
  static absl::StatusOr<std::unique_ptr<PayloadCheck>> Open(Files& files, const std::string& dir,
                                                            const v1::EntryHeader& header);

  // Reads the next block. True: the whole payload is what the header says. DATA_LOSS "entry 12:
  // payload ...: its digest differs" names the file.
  absl::StatusOr<bool> Step();

 private:
  PayloadCheck(std::string context, std::string digest, std::unique_ptr<ReadableFile> file);

  const std::string context_;
  const std::string digest_;  // bytes of what the header says
  const std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
  std::vector<Digest> leaves_;
};

}  // namespace atolld
