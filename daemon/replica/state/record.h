// Record: a checksummed message in one of the replica's files, and how a crash is told from
// corruption.
//
//   u32 LE magic | u32 LE length | 8 bytes: SHA-256 prefix of those 8 | body | 16 bytes: SHA-256
//   prefix of the body
//
// A write that a crash cut short ends the file inside the record, or leaves a whole disk sector of
// zeros: such a record is *torn*. Anything else that does not add up is DATA_LOSS: with the length
// guarded on its own, no changed byte can pass for a torn tail. Pure functions, any thread.
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

// Headers with thousands of contributors and snapshot leaves of a terabyte fit; a corrupt length
// does not allocate more.
inline constexpr uint64_t kMaxRecordBytes = uint64_t{64} << 20;
inline constexpr size_t kRecordOverhead = 32;

std::string EncodeRecord(absl::string_view body);

struct Record {
  bool torn = false;
  std::string body;
  uint64_t end = 0;  // where the next record begins
};

// Reads the record at `offset`, which must be less than the file's size. DATA_LOSS names the offset
// (not the file).
absl::StatusOr<Record> ReadRecord(const ReadableFile& file, uint64_t offset);

// A file that is one record. Reading: NOT_FOUND if it is not there, else DATA_LOSS names file and
// offset.
absl::Status WriteMessageFile(Files& files, const std::string& path,
                              const google::protobuf::MessageLite& message);
absl::Status ReadMessageFile(Files& files, const std::string& path,
                             google::protobuf::MessageLite* message);

}  // namespace atolld
