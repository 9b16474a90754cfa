#include "daemon/replica/state/steadily.h"

#include <memory>

#include "daemon/replica/state/layout.h"

namespace atolld {

absl::StatusOr<Footprint> FootprintOf(Files& files, const std::string& dir) {
  Footprint footprint;
  ASSIGN_OR_RETURN(footprint.snapshots, ListSnapshots(files, dir));
  ASSIGN_OR_RETURN(footprint.payloads, ListPayloads(files, dir));
  const absl::StatusOr<std::unique_ptr<ReadableFile>> headers = files.OpenToRead(HeadersPath(dir));
  if (headers.ok()) footprint.header_bytes = (*headers)->size();
  return footprint;
}

}  // namespace atolld
