#include "daemon/peer/header_answer.h"

#include "daemon/replica/update_log.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

// membership.proto: 256 headers, and a message of at most 1 MiB.
constexpr int kMostHeaders = 256;
constexpr size_t kMostBytes = size_t{1000} << 10;

// Of one header's tag and length in the message.
constexpr size_t kOverheadBytes = 16;

}  // namespace

absl::Status ReadHeaders(Files& files, const std::string& dir, uint64_t first, uint64_t last,
                         v1::Headers* headers) {
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
  if (log.empty() || first < log.first_version()) return absl::OkStatus();
  v1::Headers read;
  size_t bytes = headers->ByteSizeLong();
  for (uint64_t version = first; version <= last && version <= log.last_version(); ++version) {
    ASSIGN_OR_RETURN(v1::EntryHeader header, log.ReadHeader(version));
    bytes += header.ByteSizeLong() + kOverheadBytes;
    if (bytes > kMostBytes || read.headers_size() == kMostHeaders) break;
    *read.add_headers() = std::move(header);
  }
  *headers->mutable_headers() = std::move(*read.mutable_headers());
  return absl::OkStatus();
}

}  // namespace atolld
