// PayloadReader: reads the payloads of a site one after another, some megabytes at a time.
//
// If the server gives no parts of a file, the whole file is fetched first, into a scratch folder.
// Law: it reads no byte beyond what the table of offsets allows, and each byte once. The calls
// block. Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/base/bytes.h"
#include "daemon/env/env.h"
#include "daemon/publication/file_hash.h"
#include "daemon/publication/site.h"
#include "daemon/publication/site_index.h"

namespace atolld {

class PayloadReader {
 public:
  // What is read at once: enough that the way to the server counts little.
  static constexpr uint64_t kAhead = uint64_t{8} << 20;

  // The references must outlive this object. `offsets` must have passed DecodeOffsets.
  PayloadReader(Files& files, Site& site, std::string scratch, const SiteFile& file,
                const std::vector<uint64_t>& offsets);

  // Returns payload number `i`, counted from 0. Each call must ask for the payload after that of
  // the call before it; the first must ask for number 0.
  absl::StatusOr<SharedBytes> Read(size_t i);

  // Returns the SHA-256 of the file. All payloads must have been read.
  Digest Sha256() { return hash_.Finish(); }

  uint64_t fetched() const { return fetched_; }  // bytes

 private:
  absl::Status Fill(uint64_t first, uint64_t end);
  absl::Status FetchWhole();

  Files& files_;
  Site& site_;
  const std::string scratch_;
  const SiteFile& file_;
  const std::vector<uint64_t>& offsets_;
  std::unique_ptr<ReadableFile> whole_;  // the fetched copy; null if parts are read
  std::string window_;                   // the bytes from `begin_` on
  uint64_t begin_ = 0;
  uint64_t fetched_ = 0;
  FileHash hash_;
};

}  // namespace atolld
