// Record: a message with checksums in one of the replica's files. Its form makes it possible to
// distinguish the effect of a crash from corruption.
//
//   u32 LE magic | u32 LE length | 8 bytes: SHA-256 prefix of those 8 | body | 16 bytes: SHA-256
//   prefix of the body
//
// If a crash cuts a write short, the file ends inside the record or has a whole disk sector of
// zeros. Such a record is called *torn*. Any other inconsistency is DATA_LOSS. The length has a
// checksum of its own, so a changed byte can never look like a torn record. The functions may be
// called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/env/env.h"

namespace google::protobuf {
class MessageLite;
}

namespace atolld {

// The largest body of a record. Headers with thousands of contributors fit into it, and so do the
// leaves of a snapshot of a terabyte. A corrupt length does not cause a larger allocation.
inline constexpr uint64_t kMaxRecordBytes = uint64_t{64} << 20;
inline constexpr size_t kRecordOverhead = 32;

std::string EncodeRecord(absl::string_view body);

struct Record {
  bool torn = false;
  std::string body;
  uint64_t end = 0;  // The offset at which the next record begins.
};

// Reads the record at `offset`, which must be less than the file's size. Fails with DATA_LOSS if
// the record is corrupt; the message names the offset but not the file.
absl::StatusOr<Record> ReadRecord(const ReadableFile& file, uint64_t offset);

// These functions write and read a file that is one record. Reading fails with NOT_FOUND if the
// file does not exist, and with DATA_LOSS if it is damaged; the message names the file and the
// offset.
absl::Status WriteMessageFile(Files& files, const std::string& path,
                              const google::protobuf::MessageLite& message);
absl::Status ReadMessageFile(Files& files, const std::string& path,
                             google::protobuf::MessageLite* message);

}  // namespace atolld
