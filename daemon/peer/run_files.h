// RunFiles: the small files on this machine that the run's worker reads beside its data.
//
// The peer that makes version 0 lists its own files in the run. From then on every peer keeps in
// its folder a copy of each listed file that may be sent. It copies its own file if that is the
// listed one, and otherwise fetches the file from other peers. So a peer needs no files of its own,
// and can give all of them to others. The worker prefers the machine's own files, except for a
// tokenizer's files or common validation data that differ from the run's. Used on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/env/repeated_lines.h"
#include "daemon/peer/worker.h"
#include "daemon/replica/transfer/transfer.h"

namespace atolld {

class RunFiles {
 public:
  struct Own {
    std::string tokenizer;  // A tokenizer file, or a folder that has one; empty if there is none.
    std::string program;    // A TorchScript file; empty if there is none.
    bool prepared = false;  // True if the data is prepared and includes its tokenizer.
    std::string validation = "";  // A file with validation data; empty if there is none.
  };

  // Calls `on_change` when WaitsFor() may have changed. Donors are dialled through `env`.
  RunFiles(Env env, std::string dir, Own own, Task on_change);
  ~RunFiles();

  // Reads this machine's own files. This call blocks and is made before the loop runs.
  void Load();

  // Adds to `spec` the list of this machine's own files that the run needs.
  void List(v1::RunSpec* spec) const;

  // Called at each Welcome. `recorded` is true if the run's version 0 is recorded, so that the list
  // in `spec` is final.
  void Follow(const v1::RunSpec& spec, bool recorded);
  void SetDonors(std::vector<std::string> donors, absl::Duration failure_timeout);

  // Returns the reason why a worker cannot start yet, or "" if it can. Called after Follow.
  std::string WaitsFor() const;
  RunFilePlaces places() const;

 private:
  struct OwnFile {
    std::string path;
    v1::RunFile file;
  };

  std::vector<OwnFile> OwnOf(absl::string_view role) const;
  bool Needs(absl::string_view role) const;
  bool UsesOwn(absl::string_view role) const;
  std::string Lacks(absl::string_view role) const;
  std::string PlaceOf(absl::string_view role) const;
  void LoadTokenizer();
  void LoadOne(const std::string& path, absl::string_view role);
  void Survey();
  void OnSurveyed(const std::set<int>& kept);
  void FetchNext();
  void OnFetched(int file, const absl::Status& status);

  const Env env_;
  const std::string dir_;
  const Own own_;
  const Task on_change_;
  const std::shared_ptr<RepeatedLines> lines_;

  std::vector<OwnFile> own_files_;  // This machine's own files, set by Load.
  v1::RunSpec spec_;
  bool recorded_ = false;
  // Counts the lists followed so far, so that a survey of an earlier list is ignored.
  uint64_t list_ = 0;
  bool surveying_ = false;  // True while the folder is searched for copies of the listed files.
  std::set<int> kept_;  // The positions in the list of the files that have a copy in the folder.
  std::deque<int> missing_;  // The positions of the files that must be fetched from other peers.
  std::vector<std::string> donors_;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  bool pausing_ = false;
  std::unique_ptr<FileFetch> fetch_;
  CallbackGuard guard_;
};

}  // namespace atolld
