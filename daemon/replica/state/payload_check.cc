#include "daemon/replica/state/payload_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"

namespace atolld {

PayloadCheck::PayloadCheck(std::string context, std::string digest,
                           std::unique_ptr<ReadableFile> file)
    : context_(std::move(context)), digest_(std::move(digest)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<PayloadCheck>> PayloadCheck::Open(Files& files,
                                                                 const std::string& dir,
                                                                 const v1::EntryHeader& header) {
  const std::string path = PayloadPath(dir, header.version());
  std::string context = absl::StrCat("entry ", header.version(), ": payload ", path);
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.OpenToRead(path);
  if (!file.ok()) return Annotate(file.status(), context);
  return std::unique_ptr<PayloadCheck>(
      new PayloadCheck(std::move(context), header.payload_digest(), *std::move(file)));
}

absl::StatusOr<bool> PayloadCheck::Step() {
  std::vector<uint8_t> block(std::min<uint64_t>(kBlockBytes, file_->size() - offset_));
  if (!block.empty()) {
    RETURN_IF_ERROR(Annotate(file_->ReadAt(offset_, absl::MakeSpan(block)), context_));
    leaves_.push_back(Sha256(block));
    offset_ += block.size();
  }
  if (offset_ < file_->size()) return false;
  if (ToBytes(TreeRoot(file_->size(), leaves_)) == digest_) return true;
  return absl::DataLossError(absl::StrCat(context_, ": its digest differs from the header's"));
}

}  // namespace atolld
