#include "daemon/replica/state/state_stream.h"

#include <utility>

#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/verify.h"

namespace atolld {

absl::StatusOr<std::unique_ptr<StateStream>> StateStream::Open(Files& files, const std::string& dir,
                                                               std::optional<uint64_t> version) {
  return Steadily(files, dir, [&] { return TryToOpen(files, dir, version); });
}

absl::StatusOr<std::unique_ptr<StateStream>> StateStream::TryToOpen(
    Files& files, const std::string& dir, std::optional<uint64_t> version) {
  ASSIGN_OR_RETURN(const uint64_t wanted, CoveredVersion(files, dir, version));
  ASSIGN_OR_RETURN(std::unique_ptr<SnapshotReader> base, FindSnapshot(files, dir, wanted));
  auto stream = std::make_unique<StateStream>();
  stream->build_ = std::make_unique<SnapshotBuild>(
      files, dir, std::move(base), wanted,
      [stream = stream.get()](const std::vector<std::vector<float>>& values) {
        return stream->TakeBlock(values.front());
      });
  while (!stream->build_->opened()) RETURN_IF_ERROR(stream->build_->Step().status());
  return stream;
}

absl::StatusOr<Digest> StateStream::Run(const Take& take) {
  take_ = &take;
  for (bool done = false; !done;) {
    ASSIGN_OR_RETURN(done, build_->Step());
  }
  RETURN_IF_ERROR(take(BytesOf(absl::MakeConstSpan(held_))));
  take_ = nullptr;
  return DigestFromBytes(build_->info().state_digest());
}

absl::Status StateStream::TakeBlock(absl::Span<const float> theta) {
  CHECK(take_ != nullptr);
  if (!held_.empty()) RETURN_IF_ERROR((*take_)(BytesOf(absl::MakeConstSpan(held_))));
  held_.assign(theta.begin(), theta.end());
  return absl::OkStatus();
}

}  // namespace atolld
