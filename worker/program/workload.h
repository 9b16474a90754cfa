// What a run's kind of model and data comes to: a trainer, and what it reads.
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
  std::string device;                    // that it computes on; of several, with commas between
  std::unique_ptr<PartyData> parties;    // null: the trainer's data is all there is
  std::shared_ptr<const Corpus> common;  // of private data: what all evaluate on; null: nothing

  std::string data_digest;  // 32 bytes; empty: of private data
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;                   // of what is evaluated in shares
  uint64_t samples = 0, own_validation_tokens = 0;  // of private data; all parties together
  std::shared_ptr<const Tokenizer> tokenizer;       // null: the data has none
  std::vector<std::string> notes;                   // what the data's owner should know
};

// What Configure asks for, on `devices`. INVALID_ARGUMENT: a kind that is not known, or one that
// cannot train on several; fewer parties than asked for. FAILED_PRECONDITION: the data here is not
// the run's. Otherwise what the data's and the trainer's own Open and Make say.
absl::StatusOr<Workload> OpenWorkload(const v1::Configure& configure,
                                      const std::vector<std::string>& devices);

}  // namespace atolld
