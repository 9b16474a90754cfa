// RunCounts: counts the bytes that this peer has sent and received and the time for which it has
// trained in its run, over all starts of its daemon. The counts are kept in the peer's folder.
//
// Law: the counts never fall when the daemon is started again after a regular end. A crash loses
// what was counted since the last save, which is at most one version or kBetweenSaves. The counts
// of another run are not carried over. Used on the loop thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"

namespace atolld {

struct RunCount {
  std::string run;  // The run; empty if no run was counted.
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  double train_seconds = 0;
};

// The line of the file, "books 1234567 89 12.5\n": run, bytes sent and received in exchanges,
// seconds of training. ParseRunCount fails with INVALID_ARGUMENT if the text is not such a line.
std::string FormatRunCount(const RunCount& count);
absl::StatusOr<RunCount> ParseRunCount(absl::string_view text);

class RunCounts {
 public:
  static constexpr absl::Duration kBetweenSaves = absl::Seconds(30);

  // The file `path` keeps the counts.
  RunCounts(Env env, std::string path) : env_(env), path_(std::move(path)) {}

  // Takes over the kept counts. If the file cannot be read, they start from zero, and the log says
  // so. This call blocks.
  void Start();

  // Adds the counts of earlier daemons in `run` to `progress`, and saves the sum if a version or
  // kBetweenSaves has passed since the last save. `run` is empty while no run is known.
  void Complete(const std::string& run, v1::PeerProgress* progress);

  // Saves the counts of the last Complete; called before the process ends. Fails like
  // WriteFileDurably. This call blocks.
  absl::Status Save();

 private:
  void SaveInBackground();

  const Env env_;
  const std::string path_;
  RunCount earlier_;  // The counts of earlier starts of the daemon.
  RunCount told_;     // The total at the last Complete.
  std::string saved_;
  uint64_t saved_version_ = 0;
  absl::Time saved_at_ = absl::InfinitePast();
  bool saving_ = false, failed_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
