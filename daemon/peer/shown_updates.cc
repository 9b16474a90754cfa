#include "daemon/peer/shown_updates.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/bytes.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr uint64_t kMostFileBytes = 64;

}  // namespace

ShownUpdates::ShownUpdates(Env env, const std::string& dir)
    : env_(env), path_(absl::StrCat(dir, "/mask_shown")), queue_(env.executor) {}

absl::Status ShownUpdates::Load() {
  version_ = count_ = 0;
  if (!env_.files.Exists(path_)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(env_.files, path_, kMostFileBytes));
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(absl::StripSuffix(text, "\n"), absl::MaxSplits(' ', 1));
  if (absl::SimpleAtoi(words.first, &version_) && absl::SimpleAtoi(words.second, &count_)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      path_,
      ": it should hold a version, a space, and how many of this peer's updates to that "
      "version may have been in an unmasked sum; remove it once a later version is here"));
}

uint32_t ShownUpdates::CountOf(uint64_t version) const {
  if (Planted(PlantedBug::kShownForgotten)) return 0;
  return version <= version_ ? count_ : 0;
}

void ShownUpdates::Add(uint64_t version, std::function<void(absl::Status)> done) {
  const uint32_t count = (version <= version_ ? count_ : 0) + 1;
  const uint64_t newest = std::max(version, version_);
  auto written = std::make_shared<absl::Status>();
  queue_.Run([&files = env_.files, path = path_, text = absl::StrCat(newest, " ", count, "\n"),
              written] { *written = WriteFileDurably(files, path, BytesOf(text)); },
             guard_.Wrap([this, newest, count, written, done = std::move(done)] {
               if (written->ok()) {
                 version_ = newest;
                 count_ = count;
               }
               done(*written);
             }));
}

}  // namespace atolld
