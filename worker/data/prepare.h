// Makes a prepared folder (prepared_folder.h) of text.
//
// The text is cut into pieces; threads encode them, each into a file of its own under
// DIR/pieces, written durably under another name and then renamed. When all are there they are put
// together, and data.json is written last. Killed at any instant and called again with the same
// arguments it goes on, and ends with the same bytes: a piece counts only if it was made of the
// same bytes of text with the same settings. Blocking.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/prepared_folder.h"

namespace atolld {

struct PrepareOptions {
  std::string input;   // a file or a folder of text, or of lines of JSON
  std::string output;  // a folder; made where it is not there
  std::string tokenizer = "bytes";
  std::string field;
  double validation_fraction = 0.1;
  uint32_t threads = 1;

  // Called from one thread at a time: bytes of text encoded so far, of all, and of these the ones
  // that an earlier call had done.
  std::function<void(uint64_t done, uint64_t all, uint64_t found)> progress;
};

// INVALID_ARGUMENT: as TokenSource::Open says of text. FAILED_PRECONDITION: the folder is another
// preparation's, or holds other files.
absl::StatusOr<PreparedInfo> PrepareData(const PrepareOptions& options);

}  // namespace atolld
