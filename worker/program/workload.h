// Opens the trainer and the data that a worker needs for a run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/worker.pb.h"
#include "worker/data/tokenizer.h"
#include "worker/program/party_data.h"
#include "worker/training/corpus.h"
#include "worker/training/trainer.h"

namespace atolld {

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
