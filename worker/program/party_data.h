// The data of the parties that a worker has: a folder with a file or a folder for each, in the
// order of their names.
//
// Data is opened when a party's turn comes, and a few hundred stay open, so that a turn costs next
// to nothing. What is hidden in the folder, as .git is, is no party. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/worker.pb.h"
#include "worker/training/corpus.h"

namespace atolld {

class PartyData {
 public:
  // Takes what Configure.data_path would say of one party.
  using OpenOne =
      std::function<absl::StatusOr<std::shared_ptr<const Corpus>>(const std::string& places)>;

  // INVALID_ARGUMENT: the folder has fewer parties than this worker is to have, or is none. Reads
  // the data of each of them once; an error of it names the party.
  static absl::StatusOr<std::unique_ptr<PartyData>> Make(const v1::Configure& configure,
                                                         OpenOne open);

  // `party` is 1 to parties(). INVALID_ARGUMENT: it is not; otherwise as `open` says.
  absl::StatusOr<std::shared_ptr<const Corpus>> Open(uint32_t party);

  uint32_t parties() const { return parties_; }  // of this worker
  uint32_t found() const { return static_cast<uint32_t>(paths_.size()); }

  // The number of a party among all of the folder; they count from 1.
  uint32_t NumberOf(uint32_t party) const { return first_ + party - 1; }

  // Of all parties of this worker.
  uint64_t samples() const { return samples_; }
  uint64_t train_tokens() const { return train_tokens_; }
  uint64_t validation_tokens() const { return validation_tokens_; }

 private:
  struct Opened {
    std::shared_ptr<const Corpus> corpus;
    uint64_t used = 0;  // the turn in which it was used last
  };

  PartyData(const v1::Configure& configure, OpenOne open);
  absl::Status List(const std::string& data_path);

  const uint32_t parties_, first_;
  const OpenOne open_;
  std::string tokenizer_;           // lines of data_path that are no path
  std::vector<std::string> paths_;  // of all parties of the folder
  std::map<uint32_t, Opened> opened_;
  uint64_t turns_ = 0;
  uint64_t samples_ = 0, train_tokens_ = 0, validation_tokens_ = 0;
};

}  // namespace atolld
