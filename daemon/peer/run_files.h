// RunFiles: the small files that the run's worker reads beside its data, on this machine.
//
// The peer that makes version 0 lists its own in the run. From then on every peer keeps a copy of
// each that travels in its folder: from its own file where that is the listed one, else from other
// peers. So a peer needs none of its own, and can give all of them. Own files come first for the
// worker, unless what lies beside a tokenizer differs from the run's, or the validation data that
// all evaluate on does. Loop thread.
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
    std::string tokenizer;        // a file, or a folder with one; empty: none
    std::string program;          // a TorchScript file; empty: none
    bool prepared = false;        // the data is prepared, and brings its tokenizer
    std::string validation = "";  // a file; empty: none
  };

  // `on_change`: what waits_for() says may have changed. Donors are dialled through `env`.
  RunFiles(Env env, std::string dir, Own own, Task on_change);
  ~RunFiles();

  // Reads this machine's own. Blocking: before the loop runs.
  void Load();

  // Lists this machine's own, as far as the run needs them.
  void List(v1::RunSpec* spec) const;

  // At each Welcome. `recorded`: the run has its version 0, and `spec` the list.
  void Follow(const v1::RunSpec& spec, bool recorded);
  void SetDonors(std::vector<std::string> donors, absl::Duration failure_timeout);

  // Why a worker cannot start yet; empty: it can. After Follow.
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

  std::vector<OwnFile> own_files_;  // after Load
  v1::RunSpec spec_;
  bool recorded_ = false;
  uint64_t list_ = 0;        // number of it
  bool surveying_ = false;   // what is in the folder
  std::set<int> kept_;       // positions in the list: their copies are in the folder
  std::deque<int> missing_;  // those that other peers may give
  std::vector<std::string> donors_;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  bool pausing_ = false;
  std::unique_ptr<FileFetch> fetch_;
  CallbackGuard guard_;
};

}  // namespace atolld
