#include "daemon/peer/header_answer.h"

#include <memory>
#include <utility>

#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/update_log.h"

namespace atolld {
namespace {

// membership.proto: 256 headers, and a message of at most 1 MiB.
constexpr int kMostHeadersAtOnce = 256;
constexpr size_t kMostBytes = size_t{1000} << 10;

// Of one header's tag and length in the message.
constexpr size_t kOverheadBytes = 16;

// NOT_FOUND: it is neither in the log nor in a snapshot.
absl::StatusOr<v1::EntryHeader> ReadHeader(Files& files, const std::string& dir,
                                           const LogReader& log, uint64_t version) {
  absl::StatusOr<v1::EntryHeader> logged = log.ReadHeader(version);
  if (!absl::IsNotFound(logged.status())) return logged;
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> snapshot,
                   SnapshotReader::Open(files, SnapshotPath(dir, version)));
  return snapshot->info().header();
}

}  // namespace

absl::Status ReadHeaders(Files& files, const std::string& dir, uint64_t first, uint64_t last,
                         v1::Headers* headers) {
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
  v1::Headers read;
  size_t bytes = headers->ByteSizeLong();
  for (uint64_t version = first; version <= last && read.headers_size() < kMostHeadersAtOnce;
       ++version) {
    absl::StatusOr<v1::EntryHeader> header = ReadHeader(files, dir, log, version);
    if (absl::IsNotFound(header.status())) break;
    RETURN_IF_ERROR(header.status());
    bytes += header->ByteSizeLong() + kOverheadBytes;
    if (bytes > kMostBytes) break;
    *read.add_headers() = *std::move(header);
  }
  *headers->mutable_headers() = std::move(*read.mutable_headers());
  return absl::OkStatus();
}

}  // namespace atolld
