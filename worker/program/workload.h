// Opens the trainer and the data that a worker needs for a run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/worker.pb.h"
#include "worker/data/tokenizer.h"
#include "worker/training/corpus.h"
#include "worker/training/trainer.h"

namespace atolld {

// The data of a worker's parties. It lies in a folder that has one file or folder per party; the
// parties are numbered in the order of the names.
//
// A party's data is opened when its turn comes. The data of a few hundred parties stays open, so
// that a turn costs almost nothing. Hidden entries of the folder, such as .git, are not parties.
// Used by one thread.
class PartyData {
 public:
  // Opens the data of one party. `places` is the text that Configure.data_path would have for that
  // party alone.
  using OpenOne =
      std::function<absl::StatusOr<std::shared_ptr<const Corpus>>(const std::string& places)>;

  // Opens the data of each of this worker's parties once, to count it. Fails with INVALID_ARGUMENT
  // if the place is not a folder or has fewer parties than Configure asks for, and with the error
  // of `open` if it fails for a party; the message names the party.
  static absl::StatusOr<std::unique_ptr<PartyData>> Make(const v1::Configure& configure,
                                                         OpenOne open);

  // Returns the data of a party. Fails with INVALID_ARGUMENT if `party` is not between 1 and
  // parties(), and with the error of `open` if that fails.
  absl::StatusOr<std::shared_ptr<const Corpus>> Open(uint32_t party);

  uint32_t parties() const { return parties_; }  // The number of this worker's parties.
  uint32_t found() const { return static_cast<uint32_t>(paths_.size()); }

  // Returns the number that a party of this worker has among all parties in the folder. Numbers
  // begin at 1.
  uint32_t NumberOf(uint32_t party) const { return first_ + party - 1; }

  // The totals over all parties of this worker.
  uint64_t samples() const { return samples_; }
  uint64_t train_tokens() const { return train_tokens_; }
  uint64_t validation_tokens() const { return validation_tokens_; }

 private:
  struct Opened {
    std::shared_ptr<const Corpus> corpus;
    uint64_t used = 0;  // The turn in which the data was last used.
  };

  PartyData(const v1::Configure& configure, OpenOne open);
  absl::Status List(const std::string& data_path);

  const uint32_t parties_, first_;
  const OpenOne open_;
  std::string tokenizer_;           // The lines of data_path that are not paths.
  std::vector<std::string> paths_;  // The paths of all parties in the folder.
  std::map<uint32_t, Opened> opened_;
  uint64_t turns_ = 0;
  uint64_t samples_ = 0, train_tokens_ = 0, validation_tokens_ = 0;
};

struct Workload {
  std::unique_ptr<Trainer> trainer;
  std::string device;  // The names of the devices that the trainer uses, separated by commas.
  std::unique_ptr<PartyData> parties;  // Null unless this worker hosts virtual parties.
  // If the data is private, the common data on which all peers evaluate; null if there is none.
  std::shared_ptr<const Corpus> common;

  std::string data_digest;  // The SHA-256 of the data, 32 bytes; empty for private data.
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;  // The number of tokens that the peers evaluate in shares.
  // For private data: the totals over all parties of this worker.
  uint64_t samples = 0, own_validation_tokens = 0;
  std::shared_ptr<const Tokenizer> tokenizer;  // Null if the data has no tokenizer.
  std::vector<std::string> notes;              // Remarks about the data, for its owner.
};

// Opens the data and makes the trainer that Configure asks for, on `devices`. Fails with
// INVALID_ARGUMENT if the kind of model or data is unknown or cannot be trained on several devices,
// or if there are fewer parties than Configure asks for. Fails with FAILED_PRECONDITION if the
// local data is not the data of the run. Other errors are those of opening the data and making the
// trainer.
absl::StatusOr<Workload> OpenWorkload(const v1::Configure& configure,
                                      const std::vector<std::string>& devices);

}  // namespace atolld
