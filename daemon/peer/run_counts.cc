#include "daemon/peer/run_counts.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr uint64_t kLongestCount = 256;  // a run's id has at most 64 characters

}  // namespace

std::string FormatRunCount(const RunCount& count) {
  return absl::StrCat(count.run, " ", count.sent_bytes, " ", count.received_bytes, " ",
                      absl::StrFormat("%.3f", count.train_seconds), "\n");
}

absl::StatusOr<RunCount> ParseRunCount(absl::string_view text) {
  absl::ConsumeSuffix(&text, "\n");
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  RunCount count;
  if (parts.size() == 4 && !parts[0].empty() && absl::SimpleAtoi(parts[1], &count.sent_bytes) &&
      absl::SimpleAtoi(parts[2], &count.received_bytes) &&
      absl::SimpleAtod(parts[3], &count.train_seconds) && std::isfinite(count.train_seconds) &&
      count.train_seconds >= 0) {
    count.run = parts[0];
    return count;
  }
  return absl::InvalidArgumentError("a run's counts are of the form books 1234567 89 12.5");
}

void RunCounts::Start() {
  if (!env_.files.Exists(path_)) return;
  const absl::StatusOr<std::string> text = ReadFile(env_.files, path_, kLongestCount);
  absl::StatusOr<RunCount> kept = text.ok() ? ParseRunCount(*text) : text.status();
  if (!kept.ok()) {
    env_.log.Warning(absl::StrCat(path_, ": ", kept.status().message(),
                                  "; what this peer sends and trains is counted from now on"));
    return;
  }
  saved_ = *text;
  earlier_ = *std::move(kept);
}

void RunCounts::Complete(const std::string& run, v1::PeerProgress* progress) {
  told_.run = run;
  told_.sent_bytes = progress->exchange_bytes_sent();
  told_.received_bytes = progress->exchange_bytes_received();
  told_.train_seconds = progress->train_seconds();
  // Before the run is known, the earlier counts are assumed to belong to it.
  if (run.empty() || run == earlier_.run) {
    told_.sent_bytes += earlier_.sent_bytes;
    told_.received_bytes += earlier_.received_bytes;
    told_.train_seconds += earlier_.train_seconds;
  }
  progress->set_exchange_bytes_sent(told_.sent_bytes);
  progress->set_exchange_bytes_received(told_.received_bytes);
  progress->set_train_seconds(told_.train_seconds);
  const absl::Time now = env_.executor.Now();
  if (saving_ || run.empty()) return;
  if (progress->version() == saved_version_ && now < saved_at_ + kBetweenSaves) return;
  saved_version_ = progress->version();
  saved_at_ = now;
  SaveInBackground();
}

absl::Status RunCounts::Save() {
  const std::string text = FormatRunCount(told_);
  if (told_.run.empty() || text == saved_) return absl::OkStatus();
  RETURN_IF_ERROR(WriteFileDurably(env_.files, path_, BytesOf(text)));
  saved_ = text;
  return absl::OkStatus();
}

// A full disk is logged once until a save succeeds again; counting continues.
void RunCounts::SaveInBackground() {
  const auto text = std::make_shared<std::string>(FormatRunCount(told_));
  if (*text == saved_) return;
  saving_ = true;
  const auto written = std::make_shared<absl::Status>();
  env_.executor.Offload(
      [files = &env_.files, path = path_, text, written] {
        *written = WriteFileDurably(*files, path, BytesOf(*text));
      },
      guard_.Wrap([this, text, written] {
        saving_ = false;
        if (written->ok()) saved_ = *text;
        if (!written->ok() && !failed_) {
          env_.log.Warning(absl::StrCat("what this peer has sent and trained cannot be kept: ",
                                        written->message()));
        }
        failed_ = !written->ok();
      }));
}

}  // namespace atolld
