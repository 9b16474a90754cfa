#include "daemon/publication/payload_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"

namespace atolld {

PayloadReader::PayloadReader(Files& files, Site& site, std::string scratch, const SiteFile& file,
                             const std::vector<uint64_t>& offsets)
    : files_(files), site_(site), scratch_(std::move(scratch)), file_(file), offsets_(offsets) {}

absl::Status PayloadReader::FetchWhole() {
  const std::string path = absl::StrCat(scratch_, "/", file_.name);
  RETURN_IF_ERROR(CheckRoomFor(path, file_.bytes));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> copy, files_.Create(path));
    RETURN_IF_ERROR(
        site_.Read(file_.name, {file_.bytes, 0, file_.bytes},
                   [&copy](absl::Span<const uint8_t> bytes) { return copy->Append(bytes); }));
  }
  fetched_ = file_.bytes;
  ASSIGN_OR_RETURN(whole_, files_.OpenToRead(path));
  return absl::OkStatus();
}

// Makes the window reach to `end` at least, and drops what lies before `first`.
absl::Status PayloadReader::Fill(uint64_t first, uint64_t end) {
  const uint64_t reaches = begin_ + window_.size();
  if (end <= reaches) return absl::OkStatus();
  window_.erase(0, first - begin_);
  begin_ = first;
  const uint64_t wanted = std::min(file_.bytes, std::max(end, reaches + kAhead)) - reaches;
  const size_t kept = window_.size();
  if (whole_ == nullptr) {
    const absl::Status status = site_.Read(
        file_.name, {file_.bytes, reaches, wanted}, [this](absl::Span<const uint8_t> bytes) {
          window_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return absl::OkStatus();
        });
    if (status.ok()) fetched_ += wanted;
    if (!absl::IsUnimplemented(status)) return status;
    RETURN_IF_ERROR(FetchWhole());
  }
  window_.resize(kept + wanted);
  uint8_t* const out = reinterpret_cast<uint8_t*>(window_.data()) + kept;
  return whole_->ReadAt(reaches, absl::MakeSpan(out, wanted));
}

absl::StatusOr<SharedBytes> PayloadReader::Read(size_t i) {
  const uint64_t first = offsets_[i];
  const uint64_t end = offsets_[i + 1];
  RETURN_IF_ERROR(Fill(first, end));
  CHECK(first >= begin_ && end <= begin_ + window_.size());
  std::string bytes;
  if (begin_ == first && begin_ + window_.size() == end) {  // a large payload: no second copy
    bytes = std::exchange(window_, std::string());
    begin_ = end;
  } else {
    bytes = window_.substr(first - begin_, end - first);
  }
  hash_.Add(BytesOf(bytes));
  return SharedBytes(std::move(bytes));
}

}  // namespace atolld
